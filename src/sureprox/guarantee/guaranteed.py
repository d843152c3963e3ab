"""What every guaranteed method keeps: the best point seen, which method found it, and the rate that holds for it."""

from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any, Self

import torch
from torch import Tensor

from sureprox.base.operations import Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import State, resolve_step_size, usable_steps
from sureprox.problems import Problem
from sureprox.problems.checks import trusted
from sureprox.problems.stacked import Comparison, Points, Stacked

FIRST_CHECK = 16  # an optimizer is judged after this many iterations, then whenever their number has doubled


class Track(StrEnum):
    """Where the returned point came from."""

    START = "start"
    OPTIMIZER = "optimizer"
    FISTA = "fista"
    RESTARTED = "restarted fista"
    PATH = "path"  # no iteration was needed, see sureprox.support.path
    ACTIVE_SET = "active set"  # nor here, see sureprox.support.working_set
    POLISH = "polish"  # the support was nearly known, see sureprox.support.newton


TRACKS = tuple(Track)


@dataclass(frozen=True)
class GuaranteedState(State):
    """x is the best point seen, step_size the 1/L of the FISTA tracks."""

    z: Tensor  # image of x, see `Points`
    track: Tensor  # (B,) index into TRACKS: the method that found x
    pull_backs: Tensor  # (B,) how often the optimizer was given up or started anew
    rejected: Tensor  # (B,) iterations in which L was found too small
    weight: Scalars  # F(x) - F* <= |x_0 - x*|^2 / (2 weight)
    longest: Scalars  # the step size at the start: where L may fall, it does not fall below 1/longest
    moved: Scalars  # how far x_0, where the run has started, is from the start it was given, rounded up
    idle: Tensor  # (B,) iterations without a better x, in a row in which a FISTA track or the finder of x rests

    def shown(self) -> Self:
        """The state with the point to measure next as x, if that may be better than the best one."""
        return self

    @property
    def last(self) -> Vectors | None:
        """The last point of restarted FISTA, if it is kept: its residuals may be smaller than those of x."""
        return None


def beginning(
    problem: Problem, x0: Vectors, step_size: Scalars | None, operations: Operations
) -> tuple[GuaranteedState, Tensor]:
    """Before the first step, and the gradient (B, 1, n) at the start.

    A start where F is infinite, outside the domain of r, becomes its proximal point.
    """
    step = resolve_step_size(problem, step_size)
    if step_size is None:
        step = trusted(step)  # unchecked here; `Run.finish` ends instances whose step size is not usable
    x = start = problem.start(x0).clone()
    if not problem.r.is_finite:
        outside = ~torch.isfinite(problem.objective(x))
        x = torch.where(outside.unsqueeze(1), problem.prox(x, usable_steps(step).unsqueeze(1)), x)
    zero = torch.zeros(problem.batch, dtype=torch.int64, device=problem.device)
    z, g = Stacked(problem, 1, operations).look(x.unsqueeze(1))
    begun = GuaranteedState(
        x=trusted(x),
        k=0,
        step_size=step,
        z=z.squeeze(1),
        track=zero,
        pull_backs=zero,
        rejected=zero,
        weight=torch.zeros_like(step),
        longest=step,
        moved=_rounded_up(torch.linalg.vector_norm((x - start).detach(), dim=1, dtype=torch.float64), x.dtype),
        idle=zero,
    )
    return begun, g


def _rounded_up(value: Tensor, dtype: torch.dtype) -> Tensor:
    return (value * (1 + 2 * torch.finfo(dtype).eps)).to(dtype)


def common(state: GuaranteedState) -> dict[str, Any]:
    """The fields of every `GuaranteedState`, by name."""
    return {field.name: getattr(state, field.name) for field in fields(GuaranteedState)}


@dataclass(frozen=True)
class Best:
    """The best of the point so far and K new ones."""

    x: Tensor
    z: Tensor
    better: Tensor  # (B,) whether it is new
    winner: Tensor  # (B,) which of the new ones is best
    above: Tensor  # (B, K) F(new) - F(x), infinite for points that are lost
    drop: Tensor  # (B,) by how much F(x) has fallen


def best_of(state: GuaranteedState, new: Points, seen: Comparison) -> Best:
    """A new point is taken only if it is finite and lower by more than rounding can explain."""
    lowest, winner = seen.above.min(1)
    better = lowest < 0
    drop = -lowest.clamp(max=0)
    take = better.unsqueeze(1)
    return Best(
        x=torch.where(take, _picked(new.x, winner), state.x),
        z=torch.where(take, _picked(new.z, winner), state.z),
        better=better,
        winner=winner,
        above=seen.above + drop.unsqueeze(1),
        drop=drop,
    )


def _picked(stack: Tensor, index: Tensor) -> Tensor:
    """stack[i, index[i]] of a stack (B, K, width)."""
    if stack.shape[1] == 1:
        return stack[:, 0]
    return stack.gather(1, index.view(-1, 1, 1).expand(-1, 1, stack.shape[2])).squeeze(1)


def is_check(k: int) -> bool:
    """Whether k is 16, 32, 64, ..."""
    return k >= FIRST_CHECK and k & (k - 1) == 0


def copied(generator: torch.Generator | None) -> torch.Generator | None:
    """A generator that will draw the same numbers."""
    if generator is None:
        return None
    clone = torch.Generator(generator.device)
    clone.set_state(generator.get_state())
    return clone
