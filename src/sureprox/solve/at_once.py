"""Solves that need no optimizer: the points of `sureprox.support.working_set`, judged as every point is."""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.operations import Operations
from sureprox.base.types import Vectors
from sureprox.guarantee import Track
from sureprox.kernels.runtime.threads import one_thread
from sureprox.problems import Problem
from sureprox.problems.forms import pieces_of, scaled
from sureprox.solve.solution import Solution, Status, named
from sureprox.solve.stopping import Measurement, StoppingRule
from sureprox.support import working_set
from sureprox.support.screening import Screening

LINKS = 16  # sizes of the penalty, from that at which zero is a solution down to the one wanted
SURE = 1e-3  # a gap: one that is not reached in a link will not be at the end
SHARPER = 1e-6  # of the tolerance, at the end
MOST = 1e8  # times the penalty: the first link


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
        merged: dict[str, Any] = {"guarantee": more.guarantee}
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

    Where it is not, what a second attempt finds (`_more_slowly`). The others have it too, unless zero is better.
    """
    assert operations.solved is not None
    with one_thread():
        rule = StoppingRule(problem, None, tol, floor, operations)
        x, certificate = operations.solved(problem, tol, tol if floor is None else floor, start, chain)
        seen = rule.judged(x, certificate)
        solved = bool(seen.converged.all())
        if not solved:
            x = _more_slowly(problem, operations, tol, x, ~seen.converged, rule)
            seen = rule.measure(x)
            solved = bool(seen.converged.all())
        if not solved:
            x, seen = _unless_zero_is_better(x, seen, rule)
    coarse = x.to(problem.dtype)
    refined = torch.zeros_like(seen.converged) if coarse is x else (coarse != x).any(1)
    x = x if bool(refined.any()) else coarse
    zero = torch.zeros(problem.batch, dtype=torch.int64)
    none = torch.zeros(problem.batch, dtype=torch.float64)
    left = (~seen.converged).nonzero()[:, 0]
    solution = Solution(
        x=x,
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
        grid=problem.grid,
        screening=Screening(problem, x, seen.gap),
    )
    return AtOnce(solution, seen, left)


def _more_slowly(
    problem: Problem, operations: Operations, tol: float, x: Vectors, wanted: Tensor, rule: StoppingRule
) -> Vectors:
    """x with a second attempt at the instances `wanted` (B,), where there is hope.

    Working sets change little between a penalty and one a few times smaller: so f + t r is solved for falling t, each
    from the solution before. Where coordinates are loose (`StoppingRule`) the gap may ask for smaller residuals than
    the tolerance does.
    """
    assert operations.solved is not None
    l1 = pieces_of(problem.to(dtype=torch.float64)).l1.expand(problem.batch, problem.n)
    steps = torch.where(l1 > 0, rule.problem.grad(torch.zeros_like(l1)).abs() / l1, 0.0).amax(1).clamp(1, MOST)
    fits = 2 * (x != 0).sum(1) <= working_set.MOST  # else it is for lack of room
    index = (wanted & fits & (steps > 1)).nonzero()[:, 0]
    point = torch.zeros_like(x[index])
    for k in range(LINKS - 1, 0, -1):
        if not len(index):
            break
        part = scaled(problem.select(index), steps[index] ** (k / LINKS))
        point, certificate = operations.solved(part, tol, tol, point, 1)
        going = StoppingRule(part, None, max(tol, SURE), None, operations).judged(point, certificate).converged
        index, point = index[going], point[going]
    x = x.index_copy(0, index, point)
    again = (wanted & ~rule.by_gap).index_fill(0, index, True).nonzero()[:, 0]
    if not len(again):
        return x
    more = operations.solved(problem.select(again), SHARPER * tol, SHARPER * tol, x[again], 1)
    return x.index_copy(0, again, more.x)


def _unless_zero_is_better(x: Vectors, seen: Measurement, rule: StoppingRule) -> tuple[Vectors, Measurement]:
    """Where x is not finite, or F is higher than at zero, which is what a solve begins with."""
    sound = torch.isfinite(x).all(1) & (seen.objective <= rule.start.objective)
    return torch.where(sound.unsqueeze(1), x, 0.0), rule.start.where(sound, seen)
