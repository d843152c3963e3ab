"""Certified iterations on a CPU by kernels, for LASSO problems with one A per instance (see runtime/native.py)."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee.certified import Certified, CertifiedState
from sureprox.guarantee.cheap import SHARE, CertifiedCheap, CheapState
from sureprox.guarantee.tracks import Tracks
from sureprox.kernels.runtime.native import SUFFIX, arguments, call, go_math_move
from sureprox.optimizers.base import Seen, State
from sureprox.optimizers.go_math_l2o import GoMathState
from sureprox.problems import Problem
from sureprox.problems.forms import dense, lam_of
from sureprox.problems.stacked import Comparison, Points, Stacked

FOLLOW = (
    "A b lam inner_x_new inner_x inner_z y zy g track_x track_z t best_x best_z step_size above weight track rejected "
    "idle best_x_new best_z_new inner_z_new track_x_new track_z_new y_new zy_new t_new g_new step_size_new above_new "
    "weight_new track_new rejected_new idle_new weights",
    "batch tracks first m n threads",
)
AHEAD = ("A b x before momentum z there g weights", "batch points m n threads")
COMPARE = ("x z base_x base_z g best_x best_z L lam above curvature move weights", "batch points m n threads")
TURN = (
    "A b lam x from_x from_z g best_x best_z step_size gained origin track_x track_z y zy t track_g weight track idle "
    "rejected z g_new best_x_new best_z_new gained_new origin_new now track_x_new track_z_new y_new zy_new t_new "
    "track_g_new weight_new step_size_new track_new idle_new rejected_new weights",
    "batch m n fista threads",
)


def follow(optimizer: Certified, stack: Stacked, state: CertifiedState, inner: State | None) -> CertifiedState:
    """`Certified.follow` on LASSO problems that are not shifted."""
    A, b = dense(stack.problem)
    tracks, first = state.tracks, stack.count - optimizer.count
    parts = {
        "A": A,
        "b": b,
        "lam": lam_of(stack.problem).expand(len(A)),
        "y": tracks.y,
        "zy": tracks.zy,
        "g": state.g,
        "track_x": tracks.x,
        "track_z": tracks.z,
        "t": tracks.t,
        "best_x": state.x,
        "best_z": state.z,
    }
    parts |= {"step_size": state.step_size, "above": state.above, "weight": state.weight}
    parts |= {"track": state.track, "rejected": state.rejected, "idle": state.idle}
    if inner is not None:
        assert state.inner is not None
        parts |= {"inner_x_new": inner.x, "inner_x": state.inner.x, "inner_z": state.inner_z}
    given: dict[str, Tensor | None] = {name: value.detach().contiguous() for name, value in parts.items()}
    same = ("best_x", "best_z", "track_x", "track_z", "y", "zy", "t", "g", "step_size", "above", "weight")
    made = {f"{name}_new": torch.empty_like(given[name]) for name in (*same, "track", "rejected", "idle")}  # type: ignore[arg-type]
    made["inner_z_new"] = torch.empty_like(made["best_z_new"])
    batch, m, n = A.shape
    sizes = {"batch": batch, "tracks": optimizer.count, "first": first, "m": m, "n": n}
    call(f"follow_{SUFFIX[state.x.dtype]}", FOLLOW, given | made, (), **sizes)
    new = {name.removesuffix("_new"): value for name, value in made.items()}
    take = new.pop
    moved = tracks.changed(x=take("track_x"), z=take("track_z"), y=take("y"), zy=take("zy"), t=take("t"))
    return state.changed(k=state.k + 1, tracks=moved, inner=inner, x=take("best_x"), z=take("best_z"), **new)


class _Turn:
    """The tensors of a turn in which the optimizer steps to x, and the state after it."""

    def __init__(self, problem: Problem, state: CheapState, x: Tensor) -> None:
        self.fista, self.state = (state.k + 1) % SHARE == 0, state
        A, b = dense(problem)
        kept = {"best_x": state.x, "best_z": state.z, "g": state.g, "step_size": state.step_size}
        kept |= {name: getattr(state, name) for name in ("gained", "origin", "track", "idle")}
        if self.fista:
            tracks = state.fista
            kept |= {"track_x": tracks.x, "track_z": tracks.z, "y": tracks.y, "zy": tracks.zy, "t": tracks.t}
            kept |= {"track_g": state.fista_g, "weight": state.weight, "rejected": state.rejected}
        parts = {"A": A, "b": b, "lam": lam_of(problem).expand(len(x)), "x": x}
        parts |= {"from_x": state.inner.x, "from_z": state.inner_z}
        given = {name: value.detach().contiguous() for name, value in (parts | kept).items()}
        self.new = {name: torch.empty_like(given[name]) for name in kept}
        made = {"z": torch.empty_like(given["best_z"]), "now": torch.empty_like(given["origin"])}
        self.tensors: dict[str, Tensor | None] = {**given, **made, **{f"{k}_new": v for k, v in self.new.items()}}
        self.sizes = {"batch": len(x), "m": A.shape[1], "n": x.shape[1], "fista": int(self.fista)}

    def after(self, inner: State) -> CheapState:
        new = self.new
        changed: dict[str, Any] = {"inner": inner, "inner_z": self.tensors["z"], "now": self.tensors["now"]}
        changed |= {"x": new["best_x"], "z": new["best_z"]}
        changed |= {name: new[name] for name in ("g", "gained", "origin", "track", "idle")}
        if self.fista:
            changed |= {name: new[name] for name in ("weight", "rejected", "step_size")} | {"fista_g": new["track_g"]}
            changed["fista"] = Tracks(new["track_x"], new["track_z"], new["y"], new["zy"], new["t"])
        return self.state.changed(k=self.state.k + 1, **changed)


def follow_cheap(stack: Stacked, state: CheapState, inner: State) -> CheapState:
    """`CertifiedCheap.follow` on LASSO problems that are not shifted, before any instance has been given up."""
    turn = _Turn(stack.problem, state, inner.x)
    call(f"turn_{SUFFIX[inner.x.dtype]}", TURN, turn.tensors, (), **turn.sizes)
    return turn.after(inner)


def go_math_turn(optimizer: CertifiedCheap, problem: Problem, state: CheapState) -> CheapState:
    """`CertifiedCheap.turn` of GO-Math-L2O in one kernel: while the network of an instance is computed, its A comes
    near."""
    inner, turns = state.inner, []
    assert isinstance(inner, GoMathState)

    def then(x: Tensor) -> ctypes.Structure:
        turns.append(_Turn(problem, state, x))
        return arguments(TURN, turns[0].tensors, **turns[0].sizes)

    stepped = go_math_move(optimizer.optimizer, problem, inner, Seen(state.g[:, 0]), then)  # type: ignore[arg-type]
    return turns[0].after(stepped)


def ahead(stack: Stacked, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`Stacked.ahead` from one read of A."""
    A, b = dense(stack.problem)
    batch, points, n = x.shape
    given: dict[str, Tensor | None] = {
        "A": A,
        "b": b.contiguous(),
        "x": stack.centred(x).contiguous(),
        "before": before.contiguous(),
        "momentum": momentum.contiguous(),
    }
    z, g = x.new_empty(batch, points, A.shape[1]), x.new_empty(x.shape)
    made = {"z": z, "there": torch.empty_like(z), "g": g}
    call(f"ahead_{SUFFIX[x.dtype]}", AHEAD, given | made, (), batch=batch, points=points, m=A.shape[1], n=n)
    return z, made["there"], g


def look(stack: Stacked, x: Tensor) -> tuple[Tensor, Tensor]:
    """`Stacked.look` from one read of A."""
    before, momentum = x.new_zeros(*x.shape[:2], dense(stack.problem).A.shape[1]), x.new_zeros(x.shape[:2])
    z, _, g = ahead(stack, x, before, momentum)
    return z, g


def compare(stack: Stacked, new: Points, base: Points, g: Tensor, best: Points, L: Tensor) -> Comparison:
    """`Stacked.compare` on LASSO problems that are not shifted."""
    batch, points, n = new.x.shape
    parts = {"x": new.x, "z": new.z, "base_x": base.x, "base_z": base.z, "g": g, "best_x": best.x, "best_z": best.z}
    parts |= {"L": L, "lam": lam_of(stack.problem).expand(batch)}
    given: dict[str, Tensor | None] = {name: value.contiguous() for name, value in parts.items()}
    made = {name: L.new_empty(batch, points) for name in ("above", "curvature", "move")}
    sizes = {"batch": batch, "points": points, "m": new.z.shape[2], "n": n}
    call(f"compare_{SUFFIX[L.dtype]}", COMPARE, given | made, (), **sizes)
    return Comparison(**made)
