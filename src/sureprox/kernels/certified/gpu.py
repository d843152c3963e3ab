"""A certified iteration on LASSO problems: the FISTA steps as one kernel, all decisions as another; NVIDIA GPUs."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee.certified import Ahead, Certified, CertifiedState
from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.abi import constants
from sureprox.optimizers.base import State
from sureprox.problems.forms import Form, lam_of
from sureprox.problems.stacked import Stacked

(TRACK_THREADS,) = constants("certified/tracks.cu", "THREADS")
(JUDGE_THREADS,) = constants("certified/judge.cu", "THREADS")


def _build(points: int, first: int, device: int, name: str) -> cuda.Build:
    return f"certified/{name}.cu", name, (("POINTS", points), ("FIRST", first)), device, 0


OWN = ("own_x", "own_z")  # of a wrapped optimizer, if there is one
TRACKS = ("y", "g", "x", "z", "t", "step", "lam")
STEPPED = ("new_x", "before", "momentum_all", "momentum", "t_new")


def launch_tracks(own: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    """STEPPED, from OWN or nothing and TRACKS.

    The new points (B, K, n), the images before (B, K, m), the momentum of all points (B, K) and of the tracks, their t.
    """
    tensors = dict(zip(TRACKS, given, strict=True))
    (batch, points, n), (_, tracks, m) = tensors["g"].shape, tensors["z"].shape
    made = [tensors["g"].new_empty(shape) for shape in _stepped_shapes(given)]
    tensors |= dict(zip(OWN, own, strict=False))
    arguments: dict[str, Any] = dict.fromkeys(OWN) | {name: value.contiguous() for name, value in tensors.items()}
    arguments |= dict(zip(STEPPED, made, strict=True)) | {"n": n, "m": m}
    kernel = cuda.kernel(*_build(points, points - tracks, made[0].device.index, "tracks"))
    kernel((batch, 1, 1), (TRACK_THREADS, 1, 1), arguments)
    return made


def _stepped_shapes(given: list[Tensor]) -> list[tuple[int, ...]]:
    tensors = dict(zip(TRACKS, given, strict=True))
    (batch, points, n), (_, tracks, m) = tensors["g"].shape, tensors["z"].shape
    return [(batch, points, n), (batch, points, m), (batch, points), (batch, tracks), (batch, tracks)]


track_steps = torch.library.custom_op("sureprox::tracks", mutates_args=())(launch_tracks)


@track_steps.register_fake
def _(own: list[Tensor], given: list[Tensor]) -> list[Tensor]:
    return [given[0].new_empty(shape) for shape in _stepped_shapes(given)]


NUMBERS = (
    *("x", "z", "ahead", "g_ahead", "t_ahead", "momentum"),
    *("inner_x", "inner_z", "y", "zy", "g", "track_x", "track_z", "t"),
    *("best_x", "best_z", "step_size", "lam", "above", "weight"),
)
COUNTS = ("track", "rejected", "idle")
JUDGED = (  # each like the tensor of that name before it
    *("y", "zy", "g", "track_x", "track_z", "t", "best_x", "best_z", "step_size", "above", "weight", "inner_z"),
    *COUNTS,
)


def launch_judge(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    """JUDGED, from NUMBERS and COUNTS."""
    given = _given(numbers, counts)
    (batch, points, n), m, tracks = given["x"].shape, given["z"].shape[2], given["y"].shape[1]
    made = {name: cuda.result(given[name]) for name in JUDGED}
    arguments: dict[str, Any] = {name: value.contiguous() for name, value in given.items()}
    arguments |= {f"{name}_new": value for name, value in made.items()} | {"n": n, "m": m}
    kernel = cuda.kernel(*_build(points, points - tracks, given["x"].device.index, "judge"))
    kernel((batch, 1, 1), (JUDGE_THREADS, 1, 1), arguments)
    return list(made.values())


def _given(numbers: list[Tensor], counts: list[Tensor]) -> dict[str, Tensor]:
    return dict(zip((*NUMBERS, *COUNTS), (*numbers, *counts), strict=True))


judge = torch.library.custom_op("sureprox::judge", mutates_args=())(launch_judge)


@judge.register_fake
def _(numbers: list[Tensor], counts: list[Tensor]) -> list[Tensor]:
    given = _given(numbers, counts)
    return [given[name].new_empty(given[name].shape) for name in JUDGED]


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
    new = dict(zip(JUDGED, made, strict=True))
    take = new.pop
    moved = replace(tracks, x=take("track_x"), z=take("track_z"), y=take("y"), zy=take("zy"), t=take("t"))
    return replace(state, k=state.k + 1, x=take("best_x"), z=take("best_z"), tracks=moved, **new)


def builds(form: Form, points: int, first: int) -> list[cuda.Build]:
    """What `follow` needs for this number of points, the first FISTA track being number `first`."""
    if not form.lasso or form.shifted or not cuda.usable(form.device, form.dtype, 0):
        return []
    return [_build(points, first, cuda.index(form.device), name) for name in ("tracks", "judge")]
