"""Problems whose solutions are known, and the logarithm of the relative gap to them, computed without cancellation."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.errors import ConfigError, TrainingError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, Shape, form_of, lam_of, loss_of
from sureprox.problems.smooth import LinearModel
from sureprox.solve.solve import iterate, solve
from sureprox.sources import Family

FLOOR = 1e-10  # added to the relative gap: nothing is to be gained below
SOLVED = 3e-10  # an instance is done when its relative gap, with the floor, is below
CHUNK = 2048  # problems solved at a time
LOOK = 5  # iterations between two looks at restarted FISTA
SLOW, TOO_SLOW = 500, 1500  # iterations of restarted FISTA to 1e-9; slow problems are made rare, too slow ones left out
RARE = 0.12  # largest share of slow problems
NEAR = 1e-2  # below this difference of margins the logistic loss is expanded


class Goal(NamedTuple):
    """Problems and what training has to know about their solutions; all tensors have the batch first."""

    problem: Problem
    step_size: Scalars
    x: Vectors  # x*
    z: Rows  # f.inner(x*)
    slope: Vectors  # grad f(x*), made to be exactly minus a subgradient of r at x*
    best: Scalars  # F*
    weight: Scalars  # of the instance in the loss: hard ones weigh less

    def select(self, index: Tensor) -> "Goal":
        return Goal(self.problem.select(index), *(tensor[index] for tensor in self[1:]))

    def tensors(self) -> list[Tensor]:
        return [*self.problem.tensors(), *self[1:]]


def log_gap(goal: Goal, x: Vectors, z: Rows) -> Scalars:
    """log((F(x) - F*) / F* + 1e-10), z = f.inner(x).

    F(x) - F* = [f(x) - f(x*) - <grad f(x*), x - x*>] + sum_j (slope_j x_j + lam |x_j|), where slope_j = -lam sign(x*_j)
    on the support and |slope_j| <= lam elsewhere: no term is negative, so nothing cancels.
    """
    rest = goal.slope * x + lam_of(goal.problem).unsqueeze(1) * x.abs()
    gap = divergence(goal.problem, z, goal.z) + rest.clamp(min=0).sum(1)
    return torch.log(gap / goal.best + FLOOR)


def divergence(problem: Problem, z: Rows, target: Rows) -> Scalars:
    """f(x) - f(x*) - <grad f(x*), x - x*> >= 0 from the inner values of both points."""
    step = z - target
    if loss_of(problem) is Loss.SQUARES:
        return 0.5 * step.square().sum(1)
    # log(1 + e^{z + s}) - log(1 + e^z) - p s with p = sigmoid(z), by its expansion where s is small
    p = torch.sigmoid(target)
    near = 0.5 * p * (1 - p) * step.square() * (1 + (1 - 2 * p) * step / 3)
    clipped = torch.where(step.abs() < NEAR, 1.0, step)  # so that no gradient of what is not used overflows
    far = torch.nn.functional.softplus(target + clipped) - torch.nn.functional.softplus(target) - p * clipped
    return torch.where(step.abs() < NEAR, near, far.clamp(min=0)).mean(1)


def inner(problem: Problem, x: Vectors) -> Rows:
    assert isinstance(problem.f, LinearModel)
    return problem.f.inner(problem.centred(x))


@torch.no_grad()
def solved_problems(family: Family, count: int, generator: torch.Generator, dtype: torch.dtype) -> Goal:
    """Up to `count` problems of a family, those that restarted FISTA cannot solve in `TOO_SLOW` iterations left out."""
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


def _solved(problem: Problem) -> tuple[Goal, Tensor]:
    """The solutions, found in float64, and which of them are certain."""
    form = form_of(problem)
    known = form.loss in (Loss.SQUARES, Loss.LOGISTIC) and not form.weighted
    if not known or form.penalty is not Shape.L1 or form.shifted:
        raise ConfigError(f"training on a stream needs LASSO or logistic problems, got {problem!r}")
    exact = problem.to(dtype=torch.float64)
    found = solve(exact, FISTA(restart=True), max_iter=4000, tol=1e-11, certify=False, check_every=50)
    g = exact.grad(found.x)
    lam = lam_of(exact).unsqueeze(1)
    slope = torch.where(found.x != 0, -lam * torch.sign(found.x), torch.maximum(torch.minimum(g, lam), -lam))
    there = (found.x, inner(exact, found.x), slope, found.objective, torch.ones_like(found.objective))
    goal = Goal(problem, problem.step_size(), *(tensor.to(problem.dtype) for tensor in there))
    return goal, found.converged.to(problem.device) & (found.objective > 0)


def _effort(goal: Goal, x0: Vectors) -> Tensor:
    """Iterations (B,) of restarted FISTA to a relative gap of 1e-9; more than `TOO_SLOW` where they are not enough."""
    optimizer = FISTA(restart=True)
    effort = torch.full_like(goal.best, TOO_SLOW + LOOK)
    state = optimizer.init(goal.problem, x0, step_size=goal.step_size)
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
    whole = parts[0].select(torch.zeros(sum(len(p.best) for p in parts), dtype=torch.long, device=parts[0].best.device))
    for mine, *others in zip(whole.tensors(), *(part.tensors() for part in parts), strict=True):
        mine.copy_(torch.cat(others))
    return whole
