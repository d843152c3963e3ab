"""`solve(rigorous=True)`: the gap of a solution is a bound that rounding cannot have falsified, and decides again."""

from dataclasses import replace
from typing import Any

import torch

from sureprox.problems import Problem
from sureprox.problems.rigorous import rigorous_gap
from sureprox.solve.solution import Solution, Status
from sureprox.solve.stopping import StoppingRule

STRICTER = 0.9  # of `tol`, which the plain gap is asked to reach: what is left is room for rounding


def with_rigorous_gap(solution: Solution, problem: Problem, x0: Any, tol: float, floor: float | None) -> Solution:
    """`gap` by `rigorous_gap`; what it does not prove to be solved to `tol` (`StoppingRule`) is not converged."""
    gap = rigorous_gap(problem, solution.x.detach())
    rule = StoppingRule(problem, None if x0 is None else problem.start(x0), tol, floor)
    proved = gap <= tol * torch.maximum(solution.objective - gap, rule.floor)
    left = solution.converged.to(proved.device) & ~proved
    status = solution.status.copy()
    status[left.cpu().numpy()] = Status.ITERATION_LIMIT
    return replace(solution, gap=gap, status=status, rigorous=True)
