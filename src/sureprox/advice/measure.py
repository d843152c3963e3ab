"""How long each solver takes on samples of the problems, within a budget of time."""

import time
from collections.abc import Callable, Sequence

import torch

from sureprox.advice.result import Timing
from sureprox.advice.solvers import OutOfTimeError, Solver
from sureprox.base.words import brief
from sureprox.evaluation.experiment import Stopwatch
from sureprox.problems import Problem
from sureprox.solve.stopping import StoppingRule

FIRST, GROWTH = 4, 4  # problems of the first sample, and how many times larger each next one is
ALONE = 16  # problems that tell enough about a solver that takes them one by one
REPEATS = 3  # of which the quickest counts
START = 0.5  # share of the budget for the first round
PATIENCE = 1.0  # seconds that everyone is given
BEHIND = 2.0  # times the quickest: who cannot do better than this is not measured further


class UnsolvedError(Exception):
    """A solver that does not reach the gap asked for."""


class Runner:
    """A solver and its times: seconds of samples of 4, 16, 64, ... problems."""

    def __init__(self, solver: Solver, batch: int) -> None:
        self.solver = solver
        self.batch = batch
        self.times: dict[int, float] = {}
        self.note = ""

    @property
    def count(self) -> int:
        """Problems of the largest sample."""
        return max(self.times, default=0)

    @property
    def whole(self) -> float:
        """Seconds for all problems."""
        return self.expected(self.batch)

    def expected(self, count: int) -> float:
        """Seconds for so many problems, estimated: batched solvers by the slope between the two largest samples."""
        if not self.times:
            return float("inf")
        last = self.count
        slope = self.times[last] / last
        if self.solver.batched and len(self.times) > 1:
            before = sorted(self.times)[-2]
            slope = max(self.times[last] - self.times[before], 0.0) / (last - before)
        return self.times[last] + slope * (count - last)

    @property
    def least(self) -> float:
        """Seconds that all problems take at least: more problems in a batch may cost next to nothing, not less."""
        return self.times[self.count] if self.solver.batched and self.times else self.whole

    def timing(self) -> Timing:
        if not self.times:
            return Timing(self.solver.name, self.solver.call, note=self.note or "not measured")
        per_problem = self.times[self.count] / self.count
        return Timing(self.solver.name, self.solver.call, per_problem, self.whole, self.count, self.note)


class Race:
    """Everyone on a few problems, then those who can still win, and the baseline, on more and more of them."""

    def __init__(
        self, problem: Problem, sample: int, tol: float, budget: float, told: Callable[[str], None] = lambda name: None
    ) -> None:
        self.problem = problem
        self.most = min(sample, problem.batch) if problem.selectable else problem.batch
        self.tol = tol
        self.budget = budget
        self.end = 0.0
        self.told = told

    def part(self, count: int) -> Problem:
        """`count` instances, evenly spaced."""
        problem = self.problem
        if count >= problem.batch:
            return problem
        return problem.select(torch.arange(count, device=problem.device) * problem.batch // count)

    def run(self, solvers: Sequence[Solver], baseline: str) -> list[Timing]:
        self.end = time.perf_counter() + self.budget
        runners = [Runner(solver, self.problem.batch) for solver in solvers]
        first = min(FIRST, self.most) if self.problem.selectable else self.most
        for i, runner in enumerate(runners):
            best = min(other.whole for other in runners)
            share = 1.0 if runner.solver.batched else first / self.problem.batch  # of `best`, spent on this sample
            limit = max(PATIENCE, BEHIND * best * share)
            left = self._left() - (1 - START) * self.budget
            self._attempt(runner, first, min(limit, left / (len(runners) - i)))
        best = min(runner.whole for runner in runners)
        chosen = [r for r in runners if r.times and (r.least <= BEHIND * best or r.solver.name == baseline)]
        chosen.sort(key=lambda runner: runner.solver.name != baseline)  # first, so that time does not run out before
        for i, runner in enumerate(chosen):
            self._climb(runner, time.perf_counter() + self._left() / (len(chosen) - i), BEHIND * best)
        for runner in sorted(chosen, key=lambda runner: runner.whole)[:2]:  # what is left decides between the best
            self._climb(runner, self.end, BEHIND * best)
        return [runner.timing() for runner in runners]

    def _left(self) -> float:
        return max(self.end - time.perf_counter(), 0.0)

    def _climb(self, runner: Runner, deadline: float, enough: float) -> None:
        """Larger and larger samples while there is time, and while the solver can still win."""
        most = self.most if runner.solver.batched else min(self.most, ALONE)
        while runner.count < most and not runner.note:
            count = min(GROWTH * runner.count, most)
            left = deadline - time.perf_counter()
            if left < runner.expected(count) or (len(runner.times) > 1 and runner.least > enough):
                return
            self._attempt(runner, count, left)

    def _attempt(self, runner: Runner, count: int, limit: float) -> None:
        if limit <= 0:
            runner.note = "no time left"
            return
        self.told(runner.solver.name)
        began = time.perf_counter()
        try:
            runner.times[count] = self._best_time(runner.solver, self.part(count), began + limit)
        except OutOfTimeError:
            runner.note = f"stopped after {time.perf_counter() - began:.1f} s on {count} problems"
        except UnsolvedError as error:
            runner.note = str(error)
            runner.times.clear()  # who fails on some does not win by the others
        except Exception as error:  # another package's failure is a finding, not a reason to stop
            runner.note = f"failed, {brief(error, 190)}"
            runner.times.clear()

    def _best_time(self, solver: Solver, problem: Problem, deadline: float) -> float:
        """Seconds of the quickest of some runs; the first also finds a tolerance that is tight enough."""
        prepared = solver.prepare(problem)
        rule = StoppingRule(problem, None, self.tol)
        times: list[float] = []
        while len(times) < REPEATS:
            watch = Stopwatch(problem.device)
            watch.start()
            try:
                x = solver.run(prepared, deadline)
            except OutOfTimeError:
                if times:
                    break
                raise
            watch.stop()
            solved = rule.measure(x.to(problem.device)).converged
            if bool(solved.all()):
                times.append(watch.seconds)
                if sum(times) > PATIENCE or time.perf_counter() + watch.seconds > deadline:
                    break  # long runs need no repeating
            elif not solver.tighten():
                missed = int((~solved).sum())
                raise UnsolvedError(f"{missed} of {problem.batch} problems not solved to {self.tol:g}")
            else:
                times.clear()
        return min(times)
