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
from sureprox.support.newton import Polish, polished

STALLED = 10  # iterations in a row in which float32 moved by its rounding only
ROUNDING = 1e-14  # relative error of an objective in float64
FEW = 1 / 4  # of a batch: so many instances are cut out to be measured


class Run:
    """Which instances still run, and what is known about each.

    `measured`: what is known about x0. `limits`: the iterations all or each (B,) may take; those with none are left
    alone. `polish`: the instances whose support is nearly known are finished by it.
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
        self.stalled = torch.zeros_like(self.diverged)  # float32 cannot take it any further
        self.done = self.best.converged | (self.limits <= 0)
        self.step_norm = torch.zeros(batch, dtype=torch.float64, device=device)
        self.history: dict[str, list[Tensor]] = {name: [] for name in record}
        self.refined = torch.zeros_like(self.diverged)  # solved by a point that float32 cannot hold
        self.exact: Tensor | None = None  # (B, n) in float64: these points
        self.found: Found | None = None  # what was found lower without solving

    def take(self, rows: Tensor, points: Tensor, rule: StoppingRule, wanted: Tensor, track: Track) -> Measurement:
        """Those of the instances `rows` that `points` (R, n), in float64, solve are done, where `wanted` (R,).

        A point is taken if its certificate says so and if it is not above the best one so far, so that what holds for
        this one holds for it. Where that is lost by rounding to the precision of the problem, it stays in float64. One
        that is lower than the best one but does not pass is kept in mind, and is the answer if nothing lower follows.
        What was measured at the points is returned.
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
            x0 = trusted(self.x.clone())  # whatever an optimizer writes on its point, the answer is none of it
            state = self.optimizer.init(self.problem, x0, generator=generator, step_size=step_size)
        # no step is known where L is beyond what the precision can hold: such an instance goes no further
        self.diverged = self.diverged | (unusable_steps(state.step_size) & ~self.done)
        self.done = self.done | self.diverged
        if bool(self.done.all()):
            return
        problem = self._iterated(state, check_every, callback)
        self.optimizer.rest(problem)

    def _iterated(self, state: State, check_every: int, callback: Callable[[Progress], None] | None) -> Problem:
        """Iterate until all instances are done, which they are not yet; those left at the end, as a problem."""
        problem, rule = self.problem, self.rule
        rows = torch.arange(self.problem.batch, device=self.problem.device)  # instance of each row still in the batch
        patience = self.optimizer.patience if problem.device.type == "cuda" else 0
        while True:
            running = ~taken(self.done, rows)
            ready = problem.selectable and state.k >= patience
            if ready and self.optimizer.smallest <= int(running.sum()) <= len(rows) // 2:
                patience = 2 * state.k if patience else 0  # as long again
                rows, state = rows[running], state.select(running)
                problem, rule = problem.select(running), rule.select(running)
            safe = isinstance(state, GuaranteedState)  # its point is never lost
            start = state.clone() if self.optimizer.reuses_memory and not safe else state
            left = self._allowed() - state.k
            for _ in range(min(check_every, left) - 1):
                state = self.optimizer.step(problem, state)
            before = _shown(state).x
            state = self.optimizer.step(problem, state)
            seen = rule.measure(_shown(state).x)
            if check_every > 1 and problem.selectable and not safe:
                self._retrace(rows, problem, rule, start, state.k, ~self.done[rows] & ~_finite(state.x, seen))
            running = ~taken(self.done, rows)
            self._update(rows, problem, _shown(state), before, seen)
            del seen  # its gradient is as large as x
            if self.polish is None and not rule.all_by_gap:
                self._take_last(rows, state, rule, running)
            if isinstance(state, AuditedState):
                self._take_best(rows, state, rule, running)
            if self.polish is not None:
                self._polish(self.polish, problem, rule, rows, state.k, running)
            self._record()
            if callback is not None:
                callback(self._progress(state.k))
            if bool(self.done.all()):
                return problem

    def _take_last(self, rows: Tensor, state: State, rule: StoppingRule, running: Tensor) -> None:
        """Where KKT residuals have a say in what is solved, the last point of restarted FISTA may be the answer too.

        A guaranteed method keeps the point with the lowest F, and values of F have half the digits of residuals.
        """
        if isinstance(state, GuaranteedState) and state.last is not None:
            self.take(rows, state.last.double(), rule, running, Track.RESTARTED)

    def _take_best(self, rows: Tensor, state: AuditedState, rule: StoppingRule, running: Tensor) -> None:
        """What ends unsolved is the lower of the points measured and of the best one that the audits have seen."""
        ended = running & taken(self.done & ~self.best.converged, rows)
        for code in torch.unique(state.track[ended]).tolist():
            self.take(rows, state.x.double(), rule, ended & (state.track == code), TRACKS[code])

    def _allowed(self) -> int:
        """Iterations until the first instance that still runs has to stop."""
        return self.max_iter if self.even else int(torch.where(self.done, self.max_iter, self.limits).min())

    def _retrace(
        self, rows: Tensor, problem: Problem, rule: StoppingRule, state: State, last: int, lost: Tensor
    ) -> None:
        """Walk the instances that were lost between two checks again, each step checked, to find where."""
        if not bool(lost.any()):
            return
        rows, problem, rule, state = rows[lost], problem.select(lost), rule.select(lost), state.select(lost)
        before = state.x
        while state.k < last:
            state = self.optimizer.step(problem, state)
            self._update(rows, problem, state, before, rule.measure(state.x))
            before = state.x

    def _update(self, rows: Tensor, problem: Problem, state: State, before: Tensor, seen: Measurement) -> None:
        """Take over what was measured at the point of `state` for the rows that still run."""
        running = ~taken(self.done, rows)
        finite, alone = _finite(state.x, seen), not isinstance(state, AuditedState)
        good = running & finite
        if not alone:  # the point shown may be worse than those before, and the best one is never lost
            good = good & (seen.converged | (seen.objective <= taken(self.best.objective, rows)))
        self.x = put(self.x, rows, good, state.x)
        self.best = self.best.put(rows, good, seen)
        self.iterations = put(self.iterations, rows, running, torch.full_like(rows, state.k))
        norms = torch.linalg.vector_norm((state.x - before).detach().double(), dim=1)
        self.step_norm = put(torch.zeros_like(self.step_norm), rows, good, norms)  # who stopped stands still
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
        """Try to end those of the `running` rows of `problem`, the instances `rows`, that are worth it.

        What fails is tried once more, from where it came out and with what its certificate has found there.
        """
        wanted = running & ~taken(self.best.converged | self.diverged, rows)
        index, cost = polish.due(problem, rows, taken(self.x, rows), k, wanted, taken(self.stalled, rows))
        if not len(index):
            return
        tried = taken(rows, index)
        polish.charge(tried, cost)
        given = problem if polish.is_lasso else rule.problem
        x = taken(self.x, tried)
        if not polish.is_lasso and self.found is not None:  # Newton's method goes on where it got to
            x = self.found.lower_than(x, taken(self.best.objective, tried), tried)
        points = polished(given, x, taken(self.best.grad, tried), index, self.operations)
        g = self._take_polished(rows, rule, index, points)
        if bool((self.best.converged | self.diverged).all()):
            return
        moved = (points != x).any(1)  # if not, it could not be computed, nor can it now
        failed = (moved & ~self.best.converged[tried]).nonzero()[:, 0]
        if len(failed):
            polish.charge(tried[failed], cost[failed])
            index = index[failed]
            again = polished(given, points[failed], g[failed], index, self.operations)
            self._take_polished(rows, rule, index, again)

    def _take_polished(self, rows: Tensor, rule: StoppingRule, index: Tensor, points: Tensor) -> Tensor:
        """Take `points` for the rows `index` of the batch: measured with all of it, unless they are few.

        The gradients at the points are returned.
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
        """The run that goes on with `optimizer`, in float64 and from the points reached, with the stalled instances."""
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


def _shown(state: State) -> State:
    return state.shown() if isinstance(state, GuaranteedState) else state


def _finite(x: Tensor, seen: Measurement) -> Tensor:
    """(B,) bool: the point and its objective are finite."""
    return torch.isfinite(x.detach()).all(1) & torch.isfinite(seen.objective)
