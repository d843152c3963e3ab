"""The decisions of a certified iteration on LASSO problems as one kernel, on an NVIDIA GPU."""

from dataclasses import replace

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.backends.ahead import OneRead
from sureprox.optimizers.certified import Ahead, Certified, CertifiedState
from sureprox.problems import L1
from sureprox.problems.stacked import Points, Stacked

THREADS = 256  # as in judge.cu


def _build(points: int, first: int, device: int) -> tuple[str, str, cuda.Macros, int]:
    return "judge.cu", "judge", (("POINTS", points), ("FIRST", first)), device


@torch.library.custom_op("sureprox::judge", mutates_args=())
def judge(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    """What judge.cu makes of its arguments: the 20 float ones in `numbers`, then the 3 whole ones in `counts`."""
    x, z, y = numbers[0], numbers[1], numbers[8]
    (batch, points, n), m, tracks = x.shape, z.shape[2], y.shape[1]
    made = [cuda.result(like) for like in _likes(numbers, counts)]
    given = [value.contiguous() for value in (*numbers, *counts)]
    kernel = cuda.kernel(*_build(points, points - tracks, x.device.index))
    kernel((batch, 1, 1), (THREADS, 1, 1), [*given, *made, n, m])
    return made


def _likes(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    """Of the results' shapes: best x and z, tracks' x, z, y, zy and t, g, step size, marks, weight; track, rejected,
    idle."""
    return [*(numbers[k] for k in (14, 15, 11, 12, 8, 9, 13, 10, 16, 18, 19)), *counts]


@judge.register_fake
def _(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    return [like.new_empty(like.shape) for like in _likes(numbers, counts)]


class QuickCertified(Certified):
    """The same method; on LASSO problems with one A per instance its decisions come from the kernel."""

    def _judged(self, stack: Stacked, state: CertifiedState, base: Points, ahead: Ahead) -> CertifiedState:
        if not isinstance(stack, QuickStack) or state.lower is not None:
            return super()._judged(stack, state, base, ahead)
        tracks, inner = state.tracks, state.inner
        numbers = [
            *(ahead.x, ahead.z, ahead.there, ahead.g, ahead.t, ahead.momentum),
            *((state.x, state.z) if inner is None else (inner.x, state.inner_z)),
            *(tracks.y, tracks.zy, state.g, tracks.x, tracks.z, tracks.t),
            *(state.x, state.z, state.step_size, stack.lam, state.above, state.weight),
        ]
        made = judge(numbers, [state.track, state.rejected, state.idle])
        x, z, track_x, track_z, y, zy, t, g, step_size, above, weight, track, rejected, idle = made
        return replace(
            state,
            x=x,
            k=state.k + 1,
            step_size=step_size,
            z=z,
            track=track,
            rejected=rejected,
            weight=weight,
            idle=idle,
            tracks=replace(tracks, x=track_x, z=track_z, y=y, zy=zy, t=t),
            inner_z=ahead.z[:, 0],
            g=g,
            above=above,
        )


class QuickStack(OneRead):
    """Points of LASSO problems on which the kernel judges."""

    def __init__(self, stack: OneRead, lam: Tensor) -> None:
        super().__init__(stack, stack.problem.f)  # type: ignore[arg-type]
        self.lam = lam


def quick_stack(stack: Stacked, optimizer: Certified) -> Stacked:
    """The same, ready for `QuickCertified` where the kernel is made for it."""
    problem, r = stack.problem, stack.problem.r
    if not isinstance(stack, OneRead) or type(r) is not L1 or problem.shift is not None:
        return stack
    if not isinstance(optimizer, QuickCertified):
        return stack
    if not cuda.can_build(*_build(stack.count, stack.count - optimizer.count, cuda.index(problem.device))):
        return stack
    return QuickStack(stack, r.lam.expand(problem.batch).contiguous())
