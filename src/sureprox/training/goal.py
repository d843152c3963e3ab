"""Problems whose solutions are known, and the logarithm of the relative gap to them, computed without cancellation."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.errors import ConfigError, TrainingError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, pieces_of, shape_of
from sureprox.problems.smooth import LinearModel
from sureprox.solve.solve import iterate, solve
from sureprox.sources import Family
from sureprox.training.given import GivenProblems

FLOOR = 1e-10  # added to the relative gap: nothing is to be gained below
SOLVED = 3e-10  # an instance is done when its relative gap, with the floor, is below
CHUNK = 2048  # problems solved at a time
LONG = 50_000  # iterations for the solution of a problem that was given
LOOK = 5  # iterations between two looks at restarted FISTA
SLOW, TOO_SLOW = 500, 1500  # iterations of restarted FISTA to 1e-9; slow problems are made rare, too slow ones left out
RARE = 0.12  # largest share of slow problems
LEAST = 1e-3  # of F(0) - F*, what the scale of a gap is at least


class Goal(NamedTuple):
    """Problems and what training has to know about their solutions; all tensors have the batch first.

    grad f(x*) is made to be exactly -(slope + l2 x* + push).
    """

    problem: Problem
    step_size: Scalars
    x: Vectors  # x*
    z: Rows  # f.inner(x*)
    slope: Vectors  # of l1 |x| at x*
    push: Vectors  # against the bound at x*, zero elsewhere
    scale: Scalars  # F*, but no less than a thousandth of what is gained from zero
    weight: Scalars  # of the instance in the loss: hard ones weigh less

    def select(self, index: Tensor) -> "Goal":
        return Goal(self.problem.select(index), *(tensor[index] for tensor in self[1:]))

    def tensors(self) -> list[Tensor]:
        return [*self.problem.tensors(), *self[1:]]


def log_gap(goal: Goal, x: Vectors, z: Rows) -> Scalars:
    """log((F(x) - F*) / scale + 1e-10), z = f.inner(x), x within the bounds.

    F(x) - F* = [f(x) - f(x*) - <grad f(x*), x - x*>] + sum_j [l2/2 (x_j - x*_j)^2 + (l1 |x_j| - slope_j x_j)
    + push_j (x*_j - x_j)], where slope_j = l1 sign(x*_j) on the support and |slope_j| <= l1 elsewhere: no term is
    negative, so nothing cancels.
    """
    f, r = goal.problem.f, pieces_of(goal.problem)
    assert isinstance(f, LinearModel)
    rest = (r.l1 * x.abs() - goal.slope * x).clamp(min=0) + (goal.push * (goal.x - x)).clamp(min=0)
    rest = rest + r.l2 / 2 * (x - goal.x).square()
    return torch.log((f.bregman(z - goal.z, goal.z) + rest.sum(1)) / goal.scale + FLOOR)


def inner(problem: Problem, x: Vectors) -> Rows:
    assert isinstance(problem.f, LinearModel)
    return problem.f.inner(problem.centred(x))


def inside(problem: Problem, x0: Vectors) -> Vectors:
    """x0, moved into the domain of r where it has one."""
    return problem.prox(x0, torch.full_like(x0[:, :1], torch.finfo(x0.dtype).tiny)) if problem.r.restricts else x0


@torch.no_grad()
def solved_problems(family: Family, count: int, generator: torch.Generator, dtype: torch.dtype) -> Goal:
    """Up to `count` problems of a family, those that restarted FISTA cannot solve in `TOO_SLOW` iterations left out.

    Of `GivenProblems` all are kept whose solution is found at all.
    """
    if isinstance(family, GivenProblems):
        return _given(family.sample(count, generator, dtype), generator)
    parts, efforts = [], []
    for start in range(0, count, CHUNK):
        problem = family.sample(min(CHUNK, count - start), generator, dtype)
        part, solvable = _solved(problem)
        effort = _effort(part, _normal(part, generator))
        keep = solvable & (effort <= TOO_SLOW)
        parts.append(part.select(keep))
        efforts.append(effort[keep])
    effort = torch.cat(efforts)
    if len(effort) == 0:
        raise TrainingError(f"no problem of {family} is solved in {TOO_SLOW} iterations; choose easier ones")
    slow = effort > SLOW
    share = min(1.0, RARE * count / max(int(slow.sum()), 1))
    keep = ~slow | (torch.rand(len(effort), generator=generator, device=effort.device) < share)
    weight = (100 / effort[keep].clamp(min=1)).clamp(0.2, 3.0).sqrt().to(dtype)
    whole = _joined(parts).select(keep)
    return whole._replace(weight=weight / weight.mean())


def validation_problems(family: Family, count: int, generator: torch.Generator, dtype: torch.dtype) -> Goal:
    """`solved_problems` that training does not see."""
    if isinstance(family, GivenProblems):
        return _given(family.sample_validation(count, generator, dtype), generator)
    return solved_problems(family, count, generator, dtype)


def _given(problem: Problem, generator: torch.Generator) -> Goal:
    whole, solvable = _solved(problem, given=True)
    if not bool(solvable.any()):
        raise TrainingError(
            f"no solution of {problem!r} was found in {LONG:,} iterations; scale the data, or raise lam"
        )
    whole = whole.select(solvable)
    weight = (100 / _effort(whole, torch.zeros_like(whole.x)).clamp(min=1)).clamp(0.2, 3.0).sqrt().to(problem.dtype)
    return whole._replace(weight=weight / weight.mean())


def _solved(problem: Problem, given: bool = False) -> tuple[Goal, Tensor]:
    """The solutions, found in float64, and which of them are certain; `given` problems by all that `solve` has."""
    f, shape = problem.f, shape_of(problem)
    known = isinstance(f, LinearModel) and not f.guesses_curvature and problem.shift is None
    if not known or shape in (Shape.GROUPS, Shape.OWN):
        raise ConfigError(
            f"training on a stream needs a loss with an L, of A x, and a separable penalty, got {problem!r}"
        )
    exact = problem.to(dtype=torch.float64)
    if given:
        found = solve(exact, max_iter=LONG, tol=1e-11)
    else:
        found = solve(exact, FISTA(restart=True), max_iter=4000, tol=1e-11, certify=False, check_every=50)
    x, r = found.x, pieces_of(exact)
    needed = -(exact.grad(x) + r.l2 * x)
    slope = torch.where(x != 0, r.l1 * torch.sign(x), torch.maximum(torch.minimum(needed, r.l1), -r.l1))
    beyond = needed - slope
    push = torch.where(x <= r.low, beyond.clamp(max=0), torch.where(x >= r.high, beyond.clamp(min=0), 0.0))
    scale = torch.maximum(found.objective, LEAST * (exact.scale()[0] - found.objective))
    there = (x, inner(exact, x), slope, push, scale, torch.ones_like(scale))
    goal = Goal(problem, problem.step_size(), *(tensor.to(problem.dtype) for tensor in there))
    return goal, found.converged.to(problem.device) & (scale > 0)


def _effort(goal: Goal, x0: Vectors) -> Tensor:
    """Iterations (B,) of restarted FISTA to a relative gap of 1e-9; more than `TOO_SLOW` where they are not enough."""
    optimizer = FISTA(restart=True)
    effort = torch.full_like(goal.scale, TOO_SLOW + LOOK)
    state = optimizer.init(goal.problem, inside(goal.problem, x0), step_size=goal.step_size)
    for after in iterate(goal.problem, optimizer, state, TOO_SLOW):
        if after.k % LOOK == 0:
            there = log_gap(goal, after.x, inner(goal.problem, after.x)) < math.log(1e-9 + FLOOR)
            effort = torch.where(there & (effort > TOO_SLOW), float(after.k), effort)
            if bool((effort <= TOO_SLOW).all()):
                break
    return effort


def _normal(goal: Goal, generator: torch.Generator) -> Tensor:
    return torch.randn(goal.x.shape, generator=generator, dtype=goal.x.dtype, device=goal.x.device)


def _joined(parts: list[Goal]) -> Goal:
    """One batch of all parts."""
    if len(parts) == 1:
        return parts[0]
    whole = parts[0].select(
        torch.zeros(sum(len(p.scale) for p in parts), dtype=torch.long, device=parts[0].scale.device)
    )
    for mine, *others in zip(whole.tensors(), *(part.tensors() for part in parts), strict=True):
        mine.copy_(torch.cat(others))
    return whole
