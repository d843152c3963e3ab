"""Certified iterations on a CPU by kernels, for LASSO problems with one A per instance (see runtime/native.py)."""

import ctypes
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee.certified import Certified, CertifiedState
from sureprox.guarantee.cheap import SHARE, CertifiedCheap, CheapState
from sureprox.guarantee.tracks import Tracks
from sureprox.kernels.network.cpu import go_math_move
from sureprox.kernels.runtime.native import arguments, call
from sureprox.optimizers.base import Seen, State
from sureprox.optimizers.go_math_l2o import GoMathState
from sureprox.problems import Problem
from sureprox.problems.forms import dense, lam_of
from sureprox.problems.stacked import Comparison, Points, Stacked

FOLLOW, AHEAD = ("certified/certified.h", "Follow"), ("certified/certified.h", "Ahead")
COMPARE, TURN = ("certified/certified.h", "Compare"), ("certified/turn.h", "Turn")
INNER = ("inner_x_new", "inner_x", "inner_z")  # of a wrapped optimizer, if there is one
FISTA = ("track_x", "track_z", "y", "zy", "t", "track_g", "weight", "rejected")  # in a turn in which it steps


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
    given = {name: value.detach().contiguous() for name, value in parts.items()}
    same = ("best_x", "best_z", "track_x", "track_z", "y", "zy", "t", "g", "step_size", "above", "weight")
    made = {f"{name}_new": torch.empty_like(given[name]) for name in (*same, "track", "rejected", "idle")}
    made["inner_z_new"] = torch.empty_like(made["best_z_new"])
    batch, m, n = A.shape
    sizes = {"batch": batch, "tracks": optimizer.count, "first": first, "m": m, "n": n}
    call(FOLLOW, state.x.dtype, {**dict.fromkeys(INNER), **given, **made, **sizes})
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
        made |= {f"{name}_new": value for name, value in self.new.items()}
        sizes = {"batch": len(x), "m": A.shape[1], "n": x.shape[1], "fista": int(self.fista)}
        absent = dict.fromkeys((*FISTA, *(f"{name}_new" for name in FISTA)))
        self.values: dict[str, Any] = {**absent, **given, **made, **sizes}

    def after(self, inner: State) -> CheapState:
        new = self.new
        changed: dict[str, Any] = {"inner": inner, "inner_z": self.values["z"], "now": self.values["now"]}
        changed |= {"x": new["best_x"], "z": new["best_z"]}
        changed |= {name: new[name] for name in ("g", "gained", "origin", "track", "idle")}
        if self.fista:
            changed |= {name: new[name] for name in ("weight", "rejected", "step_size")} | {"fista_g": new["track_g"]}
            changed["fista"] = Tracks(new["track_x"], new["track_z"], new["y"], new["zy"], new["t"])
        return self.state.changed(k=self.state.k + 1, **changed)


def follow_cheap(stack: Stacked, state: CheapState, inner: State) -> CheapState:
    """`CertifiedCheap.follow` on LASSO problems that are not shifted, before any instance has been given up."""
    turn = _Turn(stack.problem, state, inner.x)
    call(TURN, inner.x.dtype, turn.values)
    return turn.after(inner)


def go_math_turn(optimizer: CertifiedCheap, problem: Problem, state: CheapState) -> CheapState:
    """`CertifiedCheap.turn` of GO-Math-L2O in one kernel: while the network of an instance is computed, its A comes
    near."""
    inner, turns = state.inner, []
    assert isinstance(inner, GoMathState)

    def then(x: Tensor) -> ctypes.Structure:
        turns.append(_Turn(problem, state, x))
        return arguments(TURN, turns[0].values)

    stepped = go_math_move(optimizer.optimizer, problem, inner, Seen(state.g[:, 0]), then)  # type: ignore[arg-type]
    return turns[0].after(stepped)


def ahead(stack: Stacked, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`Stacked.ahead` from one read of A."""
    A, b = dense(stack.problem)
    batch, points, n = x.shape
    given = {
        "A": A,
        "b": b.contiguous(),
        "x": stack.centred(x).contiguous(),
        "before": before.contiguous(),
        "momentum": momentum.contiguous(),
    }
    z, g = x.new_empty(batch, points, A.shape[1]), x.new_empty(x.shape)
    made = {"z": z, "there": torch.empty_like(z), "g": g}
    call(AHEAD, x.dtype, given | made, batch=batch, points=points, m=A.shape[1], n=n)
    return z, made["there"], g


def look(stack: Stacked, x: Tensor) -> tuple[Tensor, Tensor]:
    """`Stacked.look` from one read of A."""
    before, momentum = x.new_zeros(*x.shape[:2], dense(stack.problem)[0].shape[1]), x.new_zeros(x.shape[:2])
    z, _, g = ahead(stack, x, before, momentum)
    return z, g


def compare(stack: Stacked, new: Points, base: Points, g: Tensor, best: Points, L: Tensor) -> Comparison:
    """`Stacked.compare` on LASSO problems that are not shifted."""
    batch, points, n = new.x.shape
    parts = {"x": new.x, "z": new.z, "base_x": base.x, "base_z": base.z, "g": g, "best_x": best.x, "best_z": best.z}
    parts |= {"L": L, "lam": lam_of(stack.problem).expand(batch)}
    given = {name: value.contiguous() for name, value in parts.items()}
    made = {name: L.new_empty(batch, points) for name in ("above", "curvature", "move")}
    sizes = {"batch": batch, "points": points, "m": new.z.shape[2], "n": n}
    call(COMPARE, L.dtype, {**given, **made, **sizes})
    return Comparison(**made)
