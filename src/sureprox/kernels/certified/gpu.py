"""A certified iteration on LASSO problems: the FISTA steps as one kernel, all decisions as another; NVIDIA GPUs."""

from dataclasses import replace

import torch
from torch import Tensor

from sureprox.guarantee.certified import Ahead, Certified, CertifiedState
from sureprox.kernels.runtime import cuda
from sureprox.optimizers.base import State
from sureprox.problems.forms import Form, lam_of
from sureprox.problems.stacked import Stacked

THREADS = 256  # as in tracks.cu and judge.cu


def _build(points: int, first: int, device: int, name: str) -> cuda.Build:
    return f"certified/{name}.cu", name, (("POINTS", points), ("FIRST", first)), device, 0


def launch_tracks(own: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """What tracks.cu makes of its arguments: x and z of a wrapped optimizer in `own`, if there is one, and the others.

    The new points (B, K, n), the images before (B, K, m), the momentum of all points (B, K) and of the tracks, their t.
    """
    g, z = given[1], given[3]
    (batch, points, n), m = g.shape, z.shape[2]
    made = [g.new_empty(shape) for shape in _stepped_shapes(given)]
    first = own or [g.new_empty(0)] * 2
    kernel = cuda.kernel(*_build(points, points - z.shape[1], g.device.index, "tracks"))
    kernel((batch, 1, 1), (THREADS, 1, 1), [*(value.contiguous() for value in (*first, *given)), *made, n, m])
    return made


def _stepped_shapes(given: list[Tensor]) -> list[tuple[int, ...]]:
    (batch, points, n), (_, tracks, m) = given[1].shape, given[3].shape
    return [(batch, points, n), (batch, points, m), (batch, points), (batch, tracks), (batch, tracks)]


track_steps = torch.library.custom_op("sureprox::tracks", mutates_args=())(launch_tracks)


@track_steps.register_fake
def _(own: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    return [given[1].new_empty(shape) for shape in _stepped_shapes(given)]


def launch_judge(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    """What judge.cu makes of its arguments: the 20 float ones in `numbers`, then the 3 whole ones in `counts`."""
    x, z, y = numbers[0], numbers[1], numbers[8]
    (batch, points, n), m, tracks = x.shape, z.shape[2], y.shape[1]
    made = [cuda.result(like) for like in _likes(numbers, counts)]
    given = [value.contiguous() for value in (*numbers, *counts)]
    kernel = cuda.kernel(*_build(points, points - tracks, x.device.index, "judge"))
    kernel((batch, 1, 1), (THREADS, 1, 1), [*given, *made, n, m])
    return made


def _likes(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    """Of the results' shapes: best x and z, tracks' x, z, y, zy and t, g, step size, marks, weight, z of point 0;
    track, rejected, idle."""
    return [*(numbers[k] for k in (14, 15, 11, 12, 8, 9, 13, 10, 16, 18, 19, 7)), *counts]


judge = torch.library.custom_op("sureprox::judge", mutates_args=())(launch_judge)


@judge.register_fake
def _(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    return [like.new_empty(like.shape) for like in _likes(numbers, counts)]


def follow(optimizer: Certified, stack: Stacked, state: CertifiedState, inner: State | None) -> CertifiedState:
    """`Certified.follow` on LASSO problems that are not shifted: the steps and the decisions are a kernel each."""
    tracks, lam = state.tracks, lam_of(stack.problem).expand(len(state.x)).contiguous()
    own = [] if inner is None else [inner.x, state.inner_z]
    given = [tracks.y, state.g, tracks.x, tracks.z, tracks.t, state.step_size, lam]
    x, before, momentum_all, momentum, t = cuda.direct(track_steps, launch_tracks)(own, given)
    seen = Ahead(x, *stack.ahead(x, before, momentum_all), t, momentum)
    return replace(_decided(state, seen, lam), inner=inner)


def _decided(state: CertifiedState, ahead: Ahead, lam: Tensor) -> CertifiedState:
    """What judge.cu makes of an iteration."""
    tracks, inner = state.tracks, state.inner
    numbers = [
        *(ahead.x, ahead.z, ahead.there, ahead.g, ahead.t, ahead.momentum),
        *((state.x, state.z) if inner is None else (inner.x, state.inner_z)),
        *(tracks.y, tracks.zy, state.g, tracks.x, tracks.z, tracks.t),
        *(state.x, state.z, state.step_size, lam, state.above, state.weight),
    ]
    made = cuda.direct(judge, launch_judge)(numbers, [state.track, state.rejected, state.idle])
    x, z, track_x, track_z, y, zy, t, g, step_size, above, weight, inner_z, track, rejected, idle = made
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
        inner_z=inner_z,
        g=g,
        above=above,
    )


def builds(form: Form, points: int, first: int) -> list[cuda.Build]:
    """What `follow` needs for so many points, the first FISTA track being number `first`."""
    if not form.lasso or form.shifted or not cuda.usable(form.device, form.dtype, 0):
        return []
    return [_build(points, first, cuda.index(form.device), name) for name in ("tracks", "judge")]
