"""Steps without the overhead of Python: compiled by `torch.compile`, and on a GPU recorded and replayed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee import Certified
from sureprox.guarantee.guaranteed import is_check
from sureprox.guarantee.planned import Planned
from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.compiled import with_own_code
from sureprox.kernels.runtime.reuse import own_copy, taken_over
from sureprox.kernels.runtime.structure import Structure, bare, restored, structure, tensors
from sureprox.optimizers import Optimizer
from sureprox.optimizers.base import S
from sureprox.problems import Problem
from sureprox.problems.stacked import Stacked

SMALLEST = 8  # a batch is not cut below this: a batch of one would be compiled anew
_recording = threading.Lock()  # held by the one thread that records
RING = 4  # steps recorded one after the other; the last one writes what the first one reads


class Accelerated(Optimizer[S]):
    """The same steps, on a GPU replayed; `compiled`: by `torch.compile`, for any batch size.

    For optimizers whose step does not depend on the step number k, and for `Certified` around one. On a GPU the state
    of a step is overwritten `RING` steps later: copy one to keep it.

    `reads_the_problem`: what is recorded reads A, b and lam themselves. It then reads a copy of the problem
    (`own_copy`), and once a run has come to rest the next problem of that form is copied over it.

    One run at a time: several threads need one each.
    """

    reuses_memory = True
    patience = 50
    smallest = SMALLEST

    def __init__(
        self,
        planned: Planned[S],
        compiled: bool,
        reads_the_problem: bool = False,
    ) -> None:
        self.planned = planned
        self.optimizer = planned.optimizer
        self.compiled = compiled
        self.reads_the_problem = reads_the_problem
        self._problem: Problem | None = None  # whose steps are being taken
        self._mine: Problem | None = None  # the copy of it that the steps read, if there is one
        self._target: Problem | Stacked | None = None  # as the steps see it
        self._replay: Replay | None = None
        self._resting = False

    @cached_property
    def _advance(self) -> Any:
        return torch.compile(with_own_code(_advanced), fullgraph=True) if self.compiled else _advanced

    def init(self, problem: Problem, x0: Tensor, **options: Any) -> S:
        self._problem = None  # a new run: its numbers may have changed since the last one
        return self.planned.init(problem, x0, **options)

    def step(self, problem: Problem, state: S) -> S:
        if self._target is None or self._problem is not problem:
            self._receive(problem)
        target = self._target
        assert target is not None
        if problem.device.type != "cuda":
            shape = structure(state)
            values = tuple(value.contiguous() for value in tensors(state, shape))  # one layout, compiled once
            _mark(problem.batch, problem.n, target, values)
            made = self._advance(self.planned, target, shape, values)
            after: S = restored(state, shape, iter(made))
        else:
            if self._replay is None or not self._replay.fits(state):
                self._replay = Replay(self._advance, self.planned, target, problem, state)
            after = self._replay.step(state)
        if isinstance(self.optimizer, Certified) and is_check(after.k):
            return self.optimizer.pull_back(problem, after)  # type: ignore[arg-type,return-value]
        return after

    def rest(self, problem: Problem) -> None:
        if self._mine is not None and self._problem is problem:
            self._problem, self._resting = None, True

    def _receive(self, problem: Problem) -> None:
        """Prepare the steps on another problem than before."""
        if not (self._resting and self._mine is not None and taken_over(self._mine, problem)):
            self._mine = own_copy(problem) if self.reads_the_problem else None
            self._target, self._replay = self._seen(problem if self._mine is None else self._mine), None
        self._problem, self._resting = problem, False

    def _seen(self, problem: Problem) -> Problem | Stacked:
        """What a step is given: made here, where torch.compile need not follow."""
        return self.optimizer.stack(problem) if isinstance(self.optimizer, Certified) else problem


class Replay:
    """`RING` steps on one problem, each a CUDA graph that reads the state which the one before it has written."""

    def __init__(
        self,
        advance: Any,
        planned: Planned[Any],
        target: Problem | Stacked,
        problem: Problem,
        state: Any,
    ) -> None:
        self.shape = structure(state)
        first = tuple(value.contiguous().clone() for value in tensors(state, self.shape))
        compiled = advance is not _advanced
        if compiled:
            _mark(problem.batch, problem.n, target, first)
        self.states = [first]
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.last: Any = None
        self.place = 0
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        pool, made = torch.cuda.graph_pool_handle(), cuda.Results({})
        with torch.cuda.stream(stream):
            values = first
            for _ in range(RING if compiled else 1):  # compiles and loads what is still to be compiled and loaded
                values = advance(planned, target, self.shape, values)
            for place in range(RING):
                graph = torch.cuda.CUDAGraph()
                given = shortcuts(first, self.states, made) if place == RING - 1 else {}
                with cuda.results(given) as made, recorded(graph, pool):
                    after = advance(planned, target, self.shape, self.states[place])
                    if place == RING - 1:
                        copy_over(first, after)
                self.graphs.append(graph)
                self.states.append(after if place < RING - 1 else first)
        torch.cuda.current_stream().wait_stream(stream)

    def fits(self, state: Any) -> bool:
        if state is self.last:
            return True
        return structure(state) == self.shape and all(
            mine.shape == value.shape for mine, value in zip(self.states[0], tensors(state, self.shape), strict=True)
        )

    def step(self, state: Any) -> Any:
        if state is not self.last:
            self.place = 0
            torch._foreach_copy_(self.states[0], tensors(state, self.shape))
        self.graphs[self.place].replay()
        self.place = (self.place + 1) % RING
        self.last = restored(state, self.shape, iter(self.states[self.place]))
        return self.last


@contextmanager
def recorded(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Kernels launched within are recorded.

    As `torch.cuda.graph`, which also collects garbage and empties PyTorch's cache, and so takes longer than a solve.
    """
    with _recording:
        graph.capture_begin(pool=pool, capture_error_mode="thread_local")  # other threads may wait for the device
        try:
            yield
        finally:
            graph.capture_end()


def shortcuts(first: tuple[Tensor, ...], states: list[tuple[Tensor, ...]], last: cuda.Results) -> dict[int, Tensor]:
    """Which results of kernels the step that closes the ring can write where the ring begins, by number.

    `last`: the results of the step before, which has made the last of `states`. What that step reads stays as it is.
    """
    busy = {value.data_ptr() for value in states[-1]}
    numbers = {address: number for number, address in enumerate(last.places)}
    return {
        numbers[value.data_ptr()]: mine
        for mine, value in zip(first, states[-1], strict=True)
        if value.data_ptr() in numbers and mine.data_ptr() not in busy and mine.is_contiguous()
    }


def copy_over(to: tuple[Tensor, ...], values: tuple[Tensor, ...]) -> None:
    """Copy what is not there already."""
    for mine, value in zip(to, values, strict=True):
        if mine.data_ptr() != value.data_ptr():
            mine.copy_(value)


def _advanced(planned: Planned[Any], target: Any, shape: Structure, values: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """One step as a function of tensors alone."""
    state = bare(shape, iter(values))
    if isinstance(planned.optimizer, Certified):
        after: Any = planned.optimizer.advance(target, state)
    else:
        after = planned.step(target, state)
    return tuple(value.contiguous() for value in tensors(after, shape))  # one layout, compiled once


def _mark(batch: int, n: int, target: Problem | Stacked, values: tuple[Tensor, ...]) -> None:
    """Tell torch.compile which sizes will change: the batch, alone or times the points or coordinates of each."""
    problem = target.problem if isinstance(target, Stacked) else target
    data = list(problem.tensors())
    if isinstance(target, Stacked):
        parts = [vars(part).values() for part in (target, target.linear, target.r) if part is not None]
        data += [value for part in parts for value in part if isinstance(value, Tensor)]
    for value in data:
        if value.ndim and value.shape[0] % batch == 0:
            torch._dynamo.maybe_mark_dynamic(value, 0)
    for value in values:
        for place, size in enumerate((batch, batch * n)):  # a second size that happens to be the batch stays as it is
            if value.ndim > place and value.shape[place] == size:
                torch._dynamo.maybe_mark_dynamic(value, place)
