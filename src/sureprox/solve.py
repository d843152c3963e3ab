"""`iterate`, the one loop of the project, and `solve`: stopping, status and history around it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sureprox.errors import InputError
from sureprox.optimizers import Optimizer, load
from sureprox.optimizers.base import S, State
from sureprox.problems import Problem
from sureprox.stopping import Measurement, StoppingRule

RECORDS = ("objective", "gap", "kkt", "step_norm")


class Status(StrEnum):
    """How the run of one instance ended."""

    CONVERGED = "converged"  # its certificate is below the tolerance; nothing else is called converged
    ITERATION_LIMIT = "iteration_limit"
    DIVERGED = "diverged"  # a point or its objective was not finite; x is the last one that was


@dataclass(frozen=True)
class Progress:
    """What the progress callback sees."""

    k: int
    max_iter: int
    unfinished: int
    worst_gap: float  # largest duality gap among the unfinished instances


@dataclass(frozen=True)
class Solution:
    """Per instance: x (B, n); objective, gap, kkt (B,) in float64; iterations (B,); status (B,) of `Status`.

    history[name] has shape (K + 1, B): row k describes the point that would be returned after k iterations.
    """

    x: Tensor
    objective: Tensor
    gap: Tensor
    kkt: Tensor
    iterations: Tensor
    status: npt.NDArray[np.object_]
    history: dict[str, Tensor]

    @property
    def converged(self) -> Tensor:
        """(B,) bool."""
        return torch.tensor([s is Status.CONVERGED for s in self.status])


def iterate(problem: Problem, optimizer: Optimizer[S], state: S, steps: int) -> Iterator[S]:
    """The states after 1, 2, ..., `steps` further steps. Gradients flow if they are enabled."""
    for _ in range(steps):
        state = optimizer.step(problem, state)
        yield state


def solve(
    problem: Problem,
    optimizer: Optimizer[Any] | str,
    x0: Any = None,
    max_iter: int = 1000,
    tol: float = 1e-6,
    certify: bool = False,
    record: tuple[str, ...] = (),
    *,
    generator: torch.Generator | None = None,
    step_size: Any = None,
    check_every: int = 10,
    callback: Callable[[Progress], None] | None = None,
    differentiable: bool | None = None,
) -> Solution:
    """Run `optimizer`, or the pretrained one of that name, until each certificate is below `tol` (`StoppingRule`).

    Certificates are evaluated in float64 at the start, every `check_every` iterations (every iteration if anything
    is recorded) and at the end; an instance stops at the first check that it passes, and finished instances are
    dropped from the batch once they make up half of it. `record` names what to keep for every iteration:
    "objective", "gap", "kkt", "step_norm" (|x_k - x_{k-1}|). `certify=True`, a guaranteed rate on every instance, is
    not built yet and is refused.

    `differentiable`: let gradients flow to x. By default they do if the data or x0 require them, not for the sake of
    the optimizer's weights (a thousand unrolled steps do not fit in memory; training uses `iterate`).
    """
    _check_arguments(problem, optimizer, max_iter, tol, record, check_every)
    if isinstance(optimizer, str):
        optimizer = load(optimizer, device=problem.device)
    if certify:
        raise InputError("certify is True; the certified scheme is not built yet: pass certify=False")
    start = problem.start(x0)
    if differentiable is None:
        differentiable = torch.is_grad_enabled() and (problem.requires_grad or start.requires_grad)
    with torch.set_grad_enabled(differentiable):
        run = _Run(problem, optimizer, start, max_iter, tol, tuple(record))
        return run.finish(generator, step_size, 1 if record else check_every, callback)


class _Run:
    """The bookkeeping of one solve: which instances still run, and what is known about each."""

    def __init__(
        self,
        problem: Problem,
        optimizer: Optimizer[Any],
        x0: Tensor,
        max_iter: int,
        tol: float,
        record: tuple[str, ...],
    ) -> None:
        self.problem = problem
        self.optimizer = optimizer
        self.max_iter = max_iter
        self.rule = StoppingRule(problem, x0.detach(), tol)
        self.x = x0.clone()  # what is returned is never the caller's own tensor
        device, batch = problem.device, problem.batch
        self.best = self.rule.measure(x0)
        self.iterations = torch.zeros(batch, dtype=torch.int64, device=device)
        self.diverged = torch.zeros(batch, dtype=torch.bool, device=device)
        self.done = self.best.converged.clone()
        self.step_norm = torch.zeros(batch, dtype=torch.float64, device=device)
        self.history: dict[str, list[Tensor]] = {name: [] for name in record}

    def finish(
        self,
        generator: torch.Generator | None,
        step_size: Any,
        check_every: int,
        callback: Callable[[Progress], None] | None,
    ) -> Solution:
        state = self.optimizer.init(self.problem, self.x, generator=generator, step_size=step_size)
        problem, rule = self.problem, self.rule
        rows = torch.arange(self.problem.batch, device=self.problem.device)  # instance of each row still in the batch
        self._record()
        while state.k < self.max_iter and not bool(self.done.all()):
            running = ~self.done[rows]
            if problem.selectable and int(running.sum()) * 2 <= len(rows):
                rows, state = rows[running], state.select(running)
                problem, rule = problem.select(running), rule.select(running)
            start, before = state, state.x
            for after in iterate(problem, self.optimizer, state, min(check_every, self.max_iter - state.k)):
                before, state = state.x, after
            seen = rule.measure(state.x)
            lost = ~self.done[rows] & ~_finite(state.x, seen)
            if check_every > 1 and problem.selectable and bool(lost.any()):
                self._retrace(rows[lost], problem.select(lost), rule.select(lost), start.select(lost), state.k)
            self._update(rows, state.x, before, state.k, seen)
            self._record()
            if callback is not None:
                callback(self._progress(state.k))
        return self._solution()

    def _retrace(self, rows: Tensor, problem: Problem, rule: StoppingRule, state: State, last: int) -> None:
        """Walk the instances that were lost between two checks again, each step checked, to find where."""
        before = state.x
        for after in iterate(problem, self.optimizer, state, last - state.k):
            self._update(rows, after.x, before, after.k, rule.measure(after.x))
            before = after.x

    def _update(self, rows: Tensor, x: Tensor, before: Tensor, k: int, seen: Measurement) -> None:
        """Take over what was measured at `x` for the rows that still run."""
        running = ~self.done[rows]
        finite = _finite(x, seen)
        good = running & finite
        index = rows[good]
        self.x = self.x.index_copy(0, index, x[good])
        self.best = Measurement(
            *(
                getattr(self.best, name).index_copy(0, index, getattr(seen, name)[good])
                for name in ("objective", "gap", "kkt", "converged")
            )
        )
        self.iterations[rows[running]] = k
        norms = torch.linalg.vector_norm((x - before).detach().double(), dim=1)
        self.step_norm = torch.zeros_like(self.step_norm).index_copy(0, index, norms[good])  # who stopped stands still
        self.diverged[rows[running & ~finite]] = True
        self.done = self.best.converged | self.diverged

    def _record(self) -> None:
        for name, values in self.history.items():
            values.append((self.step_norm if name == "step_norm" else getattr(self.best, name)).clone())

    def _progress(self, k: int) -> Progress:
        gaps = self.best.gap[~self.done]
        return Progress(k, self.max_iter, len(gaps), float(gaps.max()) if len(gaps) else 0.0)

    def _solution(self) -> Solution:
        codes = torch.where(self.diverged, 2, torch.where(self.best.converged, 0, 1)).tolist()
        names = (Status.CONVERGED, Status.ITERATION_LIMIT, Status.DIVERGED)
        status = np.empty(len(codes), dtype=object)
        status[:] = [names[code] for code in codes]
        return Solution(
            x=self.x,
            objective=self.best.objective,
            gap=self.best.gap,
            kkt=self.best.kkt,
            iterations=self.iterations,
            status=status,
            history={name: torch.stack(values) for name, values in self.history.items()},
        )


def _finite(x: Tensor, seen: Measurement) -> Tensor:
    """(B,) bool: the point and its objective are finite."""
    return torch.isfinite(x.detach()).all(1) & torch.isfinite(seen.objective)


def _check_arguments(
    problem: Problem, optimizer: Any, max_iter: int, tol: float, record: tuple[str, ...], check_every: int
) -> None:
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; make one with sureprox.lasso, logistic or Problem")
    if not isinstance(optimizer, Optimizer | str):
        raise InputError(
            f"optimizer is a {type(optimizer).__name__}; pass one of sureprox.optimizers, e.g. FISTA(), "
            "or a pretrained name"
        )
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0:
        raise InputError(f"max_iter is {max_iter!r}; it must be a whole number >= 0")
    if not isinstance(tol, int | float | np.floating) or not 0 < tol < float("inf"):
        raise InputError(f"tol is {tol!r}; it must be a number > 0")
    if isinstance(check_every, bool) or not isinstance(check_every, int | np.integer) or check_every < 1:
        raise InputError(f"check_every is {check_every!r}; it must be a whole number >= 1")
    if not isinstance(record, tuple | list):
        raise InputError(f"record is {record!r}; pass a tuple of names, for example ('objective',)")
    for name in record:
        if name not in RECORDS:
            raise InputError(f"record has {name!r}; what can be recorded is {', '.join(RECORDS)}")
