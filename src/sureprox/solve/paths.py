"""Regularisation paths: many sizes of the penalty as few batches, from coarse to fine."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sureprox.base.defaults import TOL
from sureprox.base.errors import InputError
from sureprox.base.types import Scalars
from sureprox.problems import Problem, checks
from sureprox.problems.forms import Shape, along, form_of, largest_scale, scaled, shape_of, spread_over
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.options import require_problem
from sureprox.solve.plan import at_once
from sureprox.solve.solution import Solution
from sureprox.solve.solve import solve

FIRST = 8  # sizes of the penalty that are solved from zero; each round after it solves as many as are known by then


@dataclass(frozen=True)
class Path:
    """K sizes of the penalty for each of B instances."""

    scales: Tensor  # (B, K): the penalty of the problem is multiplied by these
    x: Tensor  # (B, K, n)
    objective: Tensor  # (B, K), as the rest
    gap: Tensor
    iterations: Tensor
    converged: Tensor  # bool


@torch.no_grad()
def path(problem: Problem, ratios: Any, **options: Any) -> Path:
    """min_x f(x) + t r(x) for t = ratio * t_max, for every one of the `ratios` (K,), and every instance.

    t_max is the smallest t for which x = 0 is a solution (for coordinates without a penalty: x = 0 in all others), so
    that for a LASSO problem t lam runs from lam_max down. All t of a round are one batch. The first round solves about
    eight ratios, evenly chosen, from zero; each of the others as many as are known by then, from the solution with the
    nearest larger ratio. `options` are those of `solve`. Least squares with a separable penalty on a CPU, for which no
    option asks for iterations, is a chain instead, from the largest t down (`sureprox.support.working_set`).
    """
    require_problem(problem)
    wanted = checks.numbers("ratios", ratios, torch.float64).reshape(-1).to(problem.device)
    if len(wanted) == 0 or not bool((torch.isfinite(wanted) & (wanted > 0)).all()):
        raise InputError("ratios must be finite numbers > 0, for example torch.logspace(0, -2, 50)")
    if problem.shift is not None or shape_of(problem) is Shape.OWN:
        raise InputError(f"the penalty of {problem!r} cannot be scaled; pass one of sureprox.penalties, not shifted")
    if "x0" in options:
        raise InputError("path starts where it has got to; leave out x0")
    most = largest_scale(problem, lambda free: solve(free, **options).x)
    order = wanted.argsort(descending=True)
    scales = most.double().unsqueeze(1) * wanted
    quick = _chained(problem, scales, order, options)
    if quick is not None:
        return quick
    made = _Made(problem, scales)
    known: list[int] = []
    for places in _rounds(len(order)):
        made.solve([int(order[place]) for place in places], [int(order[place]) for place in known], wanted, options)
        known = sorted([*known, *places])
    return Path(scales, made.x, made.objective, made.gap, made.iterations, made.converged)


def _chained(problem: Problem, scales: Tensor, order: Tensor, options: dict[str, Any]) -> Path | None:
    """By working sets, each t from the solution of the t before it; None where that is not for the problem.

    Nor is it where iterations are asked for, or something is left unsolved.
    """
    if not options.keys() <= {"tol", "floor", "engine"} or problem.requires_grad:
        return None
    operations = at_once(form_of(problem), options.get("engine", "auto"))
    if operations.solved is None:
        return None
    B, K = scales.shape
    chain = along(problem, scales[:, order])
    first = solved_at_once(chain, operations, options.get("tol", TOL), options.get("floor"), chain=K)
    if len(first.left):
        return None
    back, found = order.argsort(), first.solution
    names = ("x", "objective", "gap", "iterations", "converged")
    return Path(scales, *(getattr(found, name).unflatten(0, (B, K))[:, back] for name in names))


def _rounds(count: int) -> list[list[int]]:
    """0, ..., count - 1 in rounds: every s-th, then those in the middle between known ones, and so on."""
    step = 1
    while count > FIRST * step:
        step *= 2
    rounds, known = [list(range(0, count, step))], set(range(0, count, step))
    while step > 1:
        step //= 2
        rounds.append([place for place in range(0, count, step) if place not in known])
        known.update(rounds[-1])
    return rounds


class _Made:
    """The part of the path that is solved."""

    def __init__(self, problem: Problem, scales: Tensor) -> None:
        B, K = scales.shape
        self.problem, self.scales = problem, scales
        zero = torch.zeros(B, K, dtype=torch.float64, device=scales.device)
        self.x = torch.zeros(B, K, problem.n, dtype=problem.dtype, device=scales.device)
        self.objective, self.gap = zero, zero.clone()
        self.iterations = torch.zeros_like(zero, dtype=torch.int64)
        self.converged = torch.zeros_like(zero, dtype=torch.bool)

    def solve(self, which: list[int], known: list[int], ratios: Tensor, options: dict[str, Any]) -> None:
        """The ratios number `which`, from the nearest larger one of the `known`, from zero where there is none."""
        B, n = self.problem.batch, self.problem.n
        batch = spread_over(self.problem, len(which))
        scale: Scalars = self.scales[:, which].reshape(-1).to(self.problem.dtype)
        start = torch.zeros(B, len(which), n, dtype=self.problem.dtype, device=ratios.device)
        for place, number in enumerate(which):
            larger = [k for k in known if ratios[k] >= ratios[number]]
            if larger:
                start[:, place] = self.x[:, min(larger, key=lambda k: float(ratios[k]))]
        solution: Solution = solve(scaled(batch, scale), x0=start.flatten(0, 1), **options)
        for name in ("x", "objective", "gap", "iterations", "converged"):
            value = getattr(solution, name).to(ratios.device)
            if name == "x":
                self.x = self.x.to(value.dtype)
            getattr(self, name)[:, which] = value.reshape(B, len(which), *value.shape[1:])
