"""Solves that need no optimizer: the points of `sureprox.support.working_set`, judged as every point is."""

from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from sureprox.base.operations import Operations
from sureprox.base.types import Vectors
from sureprox.guarantee import Track
from sureprox.kernels.runtime.threads import one_thread
from sureprox.problems import Problem
from sureprox.solve.solution import Solution, Status, named
from sureprox.solve.stopping import Measurement, StoppingRule
from sureprox.support.screening import Screening


@dataclass(frozen=True)
class AtOnce:
    """`solution` holds all instances; those in `left` are not solved, and may go on from its x.

    `seen` was measured there.
    """

    solution: Solution
    seen: Measurement
    left: Tensor

    def finished(self, more: Solution) -> Solution:
        """With those that were left as `more` solves them, from where they were left: `moved` away from zero."""
        mine, index = self.solution, self.left
        away = torch.linalg.vector_norm(mine.x[index].double(), dim=1)
        kind = torch.promote_types(more.moved.dtype, mine.moved.dtype)
        more = replace(more, moved=more.moved.to(kind) + away.to(kind) * (1 + 4 * torch.finfo(kind).eps))
        merged = {}
        for field in fields(Solution):
            old, new = getattr(mine, field.name), getattr(more, field.name)
            if isinstance(old, Tensor):
                merged[field.name] = old.to(torch.promote_types(old.dtype, new.dtype)).index_copy(0, index, new)
            elif isinstance(old, np.ndarray):
                merged[field.name] = old.copy()
                merged[field.name][index.numpy()] = new
        return replace(mine, **merged)


@torch.no_grad()
def solved_at_once(
    problem: Problem,
    operations: Operations,
    tol: float,
    floor: float | None = None,
    start: Vectors | None = None,
    chain: int = 1,
) -> AtOnce:
    """What `operations.solved` finds from `start`, by default zero, where its certificate is what the rule asks for.

    The others have it too, unless zero is better.
    """
    assert operations.solved is not None
    with one_thread():
        rule = StoppingRule(problem, None, tol, floor, operations)
        x = operations.solved(problem, tol, tol if floor is None else floor, start, chain)
        seen = rule.measure(x)
        if not bool(seen.converged.all()):
            x, seen = _unless_zero_is_better(x, seen, rule)
    batch, coarse = problem.batch, x.to(problem.dtype)
    refined = (coarse.double() != x).any(1)
    zero = torch.zeros(batch, dtype=torch.int64)
    none = torch.zeros(batch, dtype=torch.float64)
    left = (~seen.converged).nonzero()[:, 0]
    solution = Solution(
        x=x if bool(refined.any()) else coarse,
        objective=seen.objective,
        gap=seen.gap,
        kkt=seen.kkt,
        iterations=zero,
        status=named((~seen.converged).long(), (Status.CONVERGED, Status.ITERATION_LIMIT)),
        history={},
        rate=torch.full_like(none, torch.inf),
        credit=none,
        moved=none,
        track=named(zero, (Track.ACTIVE_SET,)),
        pull_backs=zero,
        rejected=zero,
        refined=refined,
        engine="kernels",
    )
    return AtOnce(replace(solution, screening=Screening(problem, solution.x, solution.gap)), seen, left)


def _unless_zero_is_better(x: Vectors, seen: Measurement, rule: StoppingRule) -> tuple[Vectors, Measurement]:
    """Where x is not finite, or F is higher than at zero, which is what a solve begins with."""
    sound = torch.isfinite(x).all(1) & (seen.objective <= rule.start.objective)
    return torch.where(sound.unsqueeze(1), x, 0.0), rule.start.where(sound, seen)
