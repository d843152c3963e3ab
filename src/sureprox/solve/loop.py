"""The loop of a solve, and its bookkeeping."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.guarantee.audited import AuditedState
from sureprox.guarantee.certified import CertifiedState, credit
from sureprox.guarantee.guaranteed import TRACKS, GuaranteedState, Track
from sureprox.optimizers import Optimizer
from sureprox.optimizers.base import State, unusable_steps, usable_steps
from sureprox.problems import Problem
from sureprox.problems.batch import taken
from sureprox.problems.checks import trusted
from sureprox.solve.found import Found, nothing_found
from sureprox.solve.solution import Progress, Solution, Status, named
from sureprox.solve.stopping import Measurement, StoppingRule, put
from sureprox.support.newton import Polish, approached, polished

STALLED = 10  # iterations in a row in which float32 moved by its rounding only
ROUNDING = 1e-14  # relative error of an objective in float64
FEW = 1 / 4  # of a batch: at most this part is measured apart from the rest


class Run:
    """The instances of a solve: which still run, and the best point of each with what is known about it.

    `measured`: what is known about x0. `limits`: the most iterations of all instances, or of each (B,); an instance
    with limit 0 is not touched. `polish`: finishes the instances whose support is nearly known.
    """

    def __init__(
        self,
        problem: Problem,
        optimizer: Optimizer[Any],
        x0: Tensor,
        measured: Measurement,
        limits: int | Tensor,
        rule: StoppingRule,
        record: tuple[str, ...],
        polish: Polish | None = None,
        operations: Operations = PLAIN,
    ) -> None:
        self.problem = problem
        self.operations = operations
        self.optimizer = optimizer
        device, batch = problem.device, problem.batch
        self.even = isinstance(limits, int)
        self.limits = torch.full((batch,), limits, device=device) if isinstance(limits, int) else limits
        self.max_iter = limits if isinstance(limits, int) else int(limits.max())
        self.rule = rule
        self.polish = polish
        self.before = 0  # iterations of an earlier run that this one continues
        self.x = trusted(x0.clone())  # what is returned is never the caller's own tensor
        self.best = measured
        zero = torch.zeros(batch, dtype=torch.int64, device=device)
        self.iterations, self.pull_backs, self.rejected = zero, zero, zero
        self.step_size = torch.ones(batch, dtype=torch.float64, device=device)
        self.track = torch.full_like(zero, TRACKS.index(Track.START))
        self.weight = torch.zeros(batch, dtype=torch.float64, device=device)
        self.credit = torch.zeros_like(self.weight)
        self.moved = torch.zeros_like(self.weight)
        self.diverged = torch.zeros(batch, dtype=torch.bool, device=device)
        self.stalled = torch.zeros_like(self.diverged)  # float32 makes no more progress
        self.done = self.best.converged | (self.limits <= 0)
        self.step_norm = torch.zeros(batch, dtype=torch.float64, device=device)
        self.history: dict[str, list[Tensor]] = {name: [] for name in record}
        self.refined = torch.zeros_like(self.diverged)  # solved, but not by the point rounded to float32
        self.exact: Tensor | None = None  # (B, n) in float64: the points of those instances
        self.found: Found | None = None  # points lower than x whose certificates do not pass

    def take(self, rows: Tensor, points: Tensor, rule: StoppingRule, wanted: Tensor, track: Track) -> Measurement:
        """End the `wanted` (R,) of the instances `rows` (R,) that `points` (R, n), in float64, solve.

        A point is taken if its certificate passes and F is not above that of the best point so far: then the bounds
        that hold for that one hold for it. If rounding it to the precision of the problem would lose this, it is kept
        in float64. A point that is lower but does not pass is remembered, and returned if nothing lower follows.
        Returns what was measured at the points.
        """
        highest = taken(self.best.objective, rows) * (1 + ROUNDING)
        seen, rounded = rule.measure(points), points.to(self.x.dtype)
        solved = wanted & seen.converged & (seen.objective <= highest)
        lower = wanted & ~solved & (seen.objective < taken(self.best.objective, rows))
        if bool(lower.any()):
            self.found = nothing_found(self.x) if self.found is None else self.found
            self.found.offer(rows, points, seen, lower, TRACKS.index(track))
        best = seen
        if rounded.dtype != points.dtype:
            coarse = rule.measure(rounded)
            same = coarse.converged & (coarse.objective <= highest)
            best = seen.where(same, coarse)
            lost = (solved & ~same).nonzero()[:, 0]
            self._keep(rows[lost], points[lost])
        self.x = put(self.x, rows, solved, rounded)
        self.best = self.best.put(rows, solved, best)
        self.track = put(self.track, rows, solved, torch.full_like(rows, TRACKS.index(track)))
        self.stalled = self.stalled & ~self.best.converged
        self.done = self.done | self.best.converged
        return seen

    def _keep(self, index: Tensor, points: Tensor) -> None:
        """The answers to the instances in `index` are these points, in float64."""
        if len(index):
            self.refined = self.refined.index_fill(0, index, True)
            self.exact = (self.x.double() if self.exact is None else self.exact).index_copy(0, index, points)

    def finish(
        self,
        generator: torch.Generator | None,
        step_size: Any,
        check_every: int,
        callback: Callable[[Progress], None] | None,
        state: State | None = None,
    ) -> None:
        """Iterate from `state`, by default where the optimizer starts, until all instances are done."""
        self._record()
        if state is None and bool(self.done.all()):
            return
        if state is None:
            x0 = trusted(self.x.clone())  # an optimizer may overwrite its point: it gets a copy
            state = self.optimizer.init(self.problem, x0, generator=generator, step_size=step_size)
        # where L overflows there is no step size, and the instance ends here
        self.diverged = self.diverged | (unusable_steps(state.step_size) & ~self.done)
        self.done = self.done | self.diverged
        if bool(self.done.all()):
            return
        problem = self._iterated(state, check_every, callback)
        self.optimizer.rest(problem)

    def _iterated(self, state: State, check_every: int, callback: Callable[[Progress], None] | None) -> Problem:
        """Iterate until all instances are done; returns the problem of those still in the batch at the end."""
        problem, rule = self.problem, self.rule
        rows = torch.arange(self.problem.batch, device=self.problem.device)  # instance of each row still in the batch
        patience = self.optimizer.patience if problem.device.type == "cuda" else 0
        can_cut = problem.selectable
        while True:
            running = ~taken(self.done, rows)
            if can_cut and state.k >= patience and self.optimizer.smallest <= int(running.sum()) <= rows.shape[0] // 2:
                patience = 2 * state.k if patience else 0  # wait as many iterations again before the next cut
                rows, state = rows[running], state.select(running)
                problem, rule = problem.select(running), rule.select(running)
            safe = isinstance(state, GuaranteedState)  # it keeps the best point itself
            start = state.clone() if self.optimizer.reuses_memory and not safe else state
            left = self._allowed() - state.k
            for _ in range(min(check_every, left) - 1):
                state = self.optimizer.step(problem, state)
            before = state.shown().x if isinstance(state, GuaranteedState) else state.x
            state = self.optimizer.step(problem, state)
            shown = state.shown() if isinstance(state, GuaranteedState) else state
            seen = rule.measure(shown.x)
            running = ~taken(self.done, rows)
            if check_every > 1 and can_cut and not safe:
                lost = running & ~_finite(state.x, seen)
                if bool(lost.any()):
                    self._retrace(rows, problem, rule, start, state.k, lost)
                    running = ~taken(self.done, rows)
            self._update(rows, problem, shown, before, seen)
            del seen  # its gradient is as large as x
            if self.polish is None and not rule.all_by_gap:
                self._take_last(rows, state, rule, running)
            if isinstance(state, AuditedState):
                self._take_best(rows, state, rule, running)
            if self.polish is not None:
                self._polish(self.polish, problem, rule, rows, state.k, running)
                self._approach(self.polish, rule, rows, state.k, running)
            self._record()
            if callback is not None:
                callback(self._progress(state.k))
            if bool(self.done.all()):
                return problem

    def _take_last(self, rows: Tensor, state: State, rule: StoppingRule, running: Tensor) -> None:
        """Where convergence is judged by KKT residuals too, try the last point of restarted FISTA as well.

        A guaranteed method keeps the point with the lowest F, but rounding hides half of the digits of x in F.
        """
        if isinstance(state, GuaranteedState) and state.last is not None:
            self.take(rows, state.last.double(), rule, running, Track.RESTARTED)

    def _take_best(self, rows: Tensor, state: AuditedState, rule: StoppingRule, running: Tensor) -> None:
        """An instance that ends unsolved returns the lower of its measured points and the best point of the audits."""
        ended = running & taken(self.done & ~self.best.converged, rows)
        for code in torch.unique(state.track[ended]).tolist():
            self.take(rows, state.x.double(), rule, ended & (state.track == code), TRACKS[code])

    def _allowed(self) -> int:
        """The iteration at which the first of the running instances reaches its limit."""
        return self.max_iter if self.even else int(torch.where(self.done, self.max_iter, self.limits).min())

    def _retrace(
        self, rows: Tensor, problem: Problem, rule: StoppingRule, state: State, last: int, lost: Tensor
    ) -> None:
        """Repeat the steps since the last check for the rows that are `lost` (R,), with a check after each."""
        rows, problem, rule, state = rows[lost], problem.select(lost), rule.select(lost), state.select(lost)
        before = state.x
        while state.k < last:
            state = self.optimizer.step(problem, state)
            self._update(rows, problem, state, before, rule.measure(state.x))
            before = state.x

    def _update(self, rows: Tensor, problem: Problem, state: State, before: Tensor, seen: Measurement) -> None:
        """Store what was measured at the point of `state`, for the rows that still run."""
        running = ~taken(self.done, rows)
        finite, alone = _finite(state.x, seen), not isinstance(state, AuditedState)
        good = running & finite
        if not alone:  # the optimizer runs free: its point may be worse than an earlier one, which is then kept
            good = good & (seen.converged | (seen.objective <= taken(self.best.objective, rows)))
        self.x = put(self.x, rows, good, state.x)
        self.best = self.best.put(rows, good, seen)
        self.iterations = put(self.iterations, rows, running, torch.full_like(rows, state.k))
        norms = torch.linalg.vector_norm((state.x - before).detach().double(), dim=1)
        self.step_norm = put(torch.zeros_like(self.step_norm), rows, good, norms)  # 0 where it has stopped
        self.diverged = put(self.diverged, rows, running & ~finite & alone, torch.ones_like(finite))
        if isinstance(state, GuaranteedState):
            self.track = put(self.track, rows, good, state.track)
            known = good if alone else running
            for name in ("pull_backs", "rejected", "weight", "step_size", "moved"):
                setattr(self, name, put(getattr(self, name), rows, known, getattr(state, name)))
            if isinstance(state, CertifiedState):
                self.credit = put(self.credit, rows, good, credit(problem, state))
            if state.x.dtype == torch.float32:
                self.stalled = put(self.stalled, rows, known & (state.idle >= STALLED), torch.ones_like(good))
        else:
            self.track = put(self.track, rows, good, torch.full_like(rows, TRACKS.index(Track.OPTIMIZER)))
        self.stalled = self.stalled & ~self.best.converged
        self.done = self.best.converged | self.diverged | self.stalled | (self.iterations >= self.limits)

    def _polish(
        self, polish: Polish, problem: Problem, rule: StoppingRule, rows: Tensor, k: int, running: Tensor
    ) -> None:
        """Try to finish `running` rows by their support: those for which the try is due.

        A try that fails is repeated once, from its own result and the gradient there.
        """
        wanted = running & ~taken(self.best.converged | self.diverged, rows)
        index, cost = polish.due(problem, rows, taken(self.x, rows), k, wanted, taken(self.stalled, rows))
        if not len(index):
            return
        tried = taken(rows, index)
        polish.charge(tried, cost)
        given = problem if polish.is_lasso else rule.problem
        x = taken(self.x, tried)
        if not polish.is_lasso and self.found is not None:  # continue from Newton's last point
            x = self.found.lower_than(x, taken(self.best.objective, tried), tried)
        points = polished(given, x, taken(self.best.grad, tried), index, self.operations)
        g = self._take_polished(rows, rule, index, points)
        if bool((self.best.converged | self.diverged).all()):
            return
        moved = (points != x).any(1)  # a point that did not move could not be computed; a second try would not help
        failed = (moved & ~self.best.converged[tried]).nonzero()[:, 0]
        if len(failed):
            polish.charge(tried[failed], cost[failed])
            index = index[failed]
            again = polished(given, points[failed], g[failed], index, self.operations)
            self._take_polished(rows, rule, index, again)

    def _approach(self, polish: Polish, rule: StoppingRule, rows: Tensor, k: int, running: Tensor) -> None:
        """Try to end those of the `running` rows that have run for long."""
        index = polish.overdue(rows, k, running & ~taken(self.best.converged | self.diverged, rows))
        if len(index):
            x = taken(self.x, rows[index])
            if self.found is not None:
                x = self.found.lower_than(x, taken(self.best.objective, rows[index]), rows[index])
            self._take_polished(rows, rule, index, approached(rule.problem.select(index), x))

    def _take_polished(self, rows: Tensor, rule: StoppingRule, index: Tensor, points: Tensor) -> Tensor:
        """`take` the `points` of the rows `index`; with many of them the whole batch is measured, which needs no copy.

        Returns the gradients at the points.
        """
        wanted = torch.zeros_like(taken(self.done, rows)).index_fill(0, index, True)
        if len(index) <= FEW * len(rows):
            return self.take(rows[index], points, rule.select(index), wanted[index], Track.POLISH).grad
        if len(index) < len(rows):
            points = self.x[rows].double().index_copy_(0, index, points)
        return taken(self.take(rows, points, rule, wanted, Track.POLISH).grad, index)

    def _record(self) -> None:
        for name, values in self.history.items():
            values.append((self.step_norm if name == "step_norm" else getattr(self.best, name)).clone())

    def _progress(self, k: int) -> Progress:
        gaps = self.best.gap[~(self.best.converged | self.diverged)]
        k = min(self.before + k, self.max_iter)
        return Progress(k, self.max_iter, len(gaps), float(gaps.max()) if len(gaps) else 0.0)

    def in_float64(self, optimizer: Optimizer[Any], operations: Operations) -> "Run":
        """A run of the stalled instances in float64, from the points they have reached."""
        index = self.stalled.nonzero()[:, 0]
        rule, x, step, found = self.rule, self.x.double(), self.step_size, self.found
        left, track = torch.where(self.stalled, self.limits - self.iterations, 0), self.track
        if self.problem.selectable and len(index) < len(left):
            rule = rule.select(index)
            x, step, left, track = x[index], step[index], left[index], track[index]
            found = None if found is None else found.select(index)
        polish = None if self.polish is None else self.polish.continued(index)
        more = Run(rule.problem, optimizer, x, rule.measure(x), left, rule, tuple(self.history), polish, operations)
        more.before, more.max_iter, more.even = int(self.iterations[index].max()), self.max_iter, False
        more.step_size, more.track, more.found = usable_steps(step), track.clone(), found
        return more

    def solution(self, engine: str, guarantee: str) -> Solution:
        codes = (~self.best.converged).long().masked_fill(self.diverged, 2)
        solution = Solution(
            x=self.x if self.exact is None else torch.where(self.refined.unsqueeze(1), self.exact, self.x.double()),
            objective=self.best.objective,
            gap=self.best.gap,
            kkt=self.best.kkt,
            iterations=self.iterations,
            status=named(codes, (Status.CONVERGED, Status.ITERATION_LIMIT, Status.DIVERGED)),
            history={name: torch.stack(values) for name, values in self.history.items()},
            # an extrapolated point outside of the domain of f proves nothing, nor does a weight that has overflowed
            rate=torch.full_like(self.weight, torch.inf)
            if self.problem.f.restricts
            else 0.5 / self.weight.nan_to_num(nan=0.0, posinf=0.0),
            credit=self.credit,
            moved=self.moved,
            track=named(self.track, TRACKS),
            pull_backs=self.pull_backs,
            rejected=self.rejected,
            refined=self.refined,
            engine=engine,
            guarantee=guarantee,
        )
        unsolved = ~self.best.converged & ~self.diverged
        return solution if self.found is None else self.found.preferred(solution, unsolved)


def _finite(x: Tensor, seen: Measurement) -> Tensor:
    """(B,) bool: the point and its objective are finite."""
    return torch.isfinite(x.detach()).all(1) & torch.isfinite(seen.objective)
