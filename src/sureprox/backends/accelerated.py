"""Solving in few kernels: the step of any optimizer, certified or not, compiled, and on a GPU replayed."""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.backends.ahead import OneRead, one_read
from sureprox.backends.compiled import with_own_code
from sureprox.backends.cuda_sure import QuickSure, can_fuse_sure, fused_sure
from sureprox.backends.judge import QuickCertified, QuickStack, quick_stack
from sureprox.backends.kept import own_copy, taken_over
from sureprox.backends.network import can_fuse, fused
from sureprox.backends.normal import NormalLeastSquares, faster
from sureprox.backends.structure import Structure, bare, stepped, structure, tensors
from sureprox.optimizers import Certified, LearnedOptimizer, Optimizer, Sure
from sureprox.optimizers.base import S
from sureprox.optimizers.guaranteed import is_check
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.problems.stacked import Stacked

SMALLEST = 8  # smaller batches are not worth it, and a batch of one would be compiled anew
RING = 4  # steps recorded one after the other; the last one writes what the first one reads


def stepper(optimizer: Optimizer[Any], device: torch.device, dtype: torch.dtype) -> Optimizer[Any]:
    """The optimizer whose steps are taken on this device: the network by its own kernel where there is one."""
    if isinstance(optimizer, Certified):
        inner = stepper(optimizer.optimizer, device, dtype)
        return QuickCertified(inner) if cuda.usable(device, dtype, 0) else Certified(inner)
    if isinstance(optimizer, LearnedOptimizer) and can_fuse(optimizer, device, dtype):
        return fused(copy.deepcopy(optimizer))[0]
    if isinstance(optimizer, Sure) and can_fuse_sure(optimizer, device, dtype):
        return fused_sure(copy.deepcopy(optimizer))
    return optimizer


def all_in_kernels(optimizer: Optimizer[Any], target: Problem | Stacked) -> bool:
    """Whether a step is a few kernels of this package and products with A, so that there is nothing to compile."""
    if isinstance(optimizer, QuickCertified):
        return isinstance(target, QuickStack) and (optimizer.own or isinstance(optimizer.optimizer, QuickSure))
    if not isinstance(optimizer, QuickSure) or isinstance(target, Stacked):
        return False
    return type(target.f) in (LeastSquares, NormalLeastSquares) and type(target.r) is L1 and target.shift is None


def reads_the_problem(optimizer: Optimizer[Any], target: Problem | Stacked) -> bool:
    """Whether a step reads the tensors of the problem itself, and nothing that was made of them before."""
    if not all_in_kernels(optimizer, target):
        return False
    return not isinstance(target, QuickStack) or isinstance(target.stack, OneRead)


class Accelerated(Optimizer[S]):
    """The same optimizer, its step compiled by `torch.compile` for any batch size; on a GPU the steps are replayed.

    For optimizers whose step does not depend on the step number k, and for `Certified` around one. The first step of
    each kind of problem compiles, which takes seconds to a minute, but for Sure on LASSO problems on a GPU, whose
    kernels need no more than a few seconds. On a GPU the state of a step is overwritten `RING` steps later: whoever
    wants to keep one has to copy it.

    `compiled=False`: the operations of a step remain what they are, and on a GPU are replayed, which takes milliseconds
    to prepare and saves most of the time of a small batch. So it is in float64, in which runs only end.

    Where a step is kernels of this package alone that read A, b and lam themselves, what is replayed reads a copy of
    the problem (`own_copy`), and once a run has come to rest the next problem of that form is copied over it. Not for
    several threads at a time.
    """

    reuses_memory = True
    patience = 50

    def __init__(self, optimizer: Optimizer[S], compiled: bool = True) -> None:
        self.plain = optimizer
        self.compiled = compiled
        self._quick: dict[tuple[torch.device, torch.dtype], Optimizer[S]] = {}
        self._problem: Problem | None = None  # whose steps are being taken
        self._mine: Problem | None = None  # the copy of it that the steps read, if there is one
        self._target: Problem | Stacked | None = None  # as the steps see it
        self._replay: Replay | None = None
        self._resting = False

    @cached_property
    def _advance(self) -> Any:
        return torch.compile(with_own_code(_advanced), fullgraph=True)

    def init(self, problem: Problem, x0: Tensor, **options: Any) -> S:
        self._problem = None  # a new run: its numbers may have changed since the last one
        return self.plain.init(problem, x0, **options)

    def step(self, problem: Problem, state: S) -> S:
        worth_it = problem.batch >= SMALLEST if self.compiled else problem.device.type == "cuda"
        if not worth_it:
            return self.plain.step(problem, state)
        if self._target is None or self._problem is not problem:
            self._receive(problem)
        target = self._target
        assert target is not None
        optimizer = self._optimizer(problem)
        if problem.device.type != "cuda":
            shape = structure(state)
            values = tuple(value.contiguous() for value in tensors(state, shape))  # one layout, compiled once
            _mark(problem.batch, problem.n, target, values)
            after: S = stepped(state, shape, iter(self._advance(optimizer, target, shape, values)))
        else:
            if self._replay is None or not self._replay.fits(state):
                compiled = self.compiled and problem.dtype == torch.float32 and not all_in_kernels(optimizer, target)
                advance = self._advance if compiled else _advanced
                self._replay = Replay(advance, optimizer, target, problem, state)
            after = self._replay.step(state)
        if isinstance(optimizer, Certified) and is_check(after.k):
            return optimizer.pull_back(problem, after)  # type: ignore[arg-type,return-value]
        return after

    def rest(self, problem: Problem) -> None:
        if self._mine is not None and self._problem is problem:
            self._problem, self._resting = None, True

    def _receive(self, problem: Problem) -> None:
        """Prepare the steps on another problem than before."""
        if not (self._resting and self._mine is not None and taken_over(self._mine, problem)):
            self._mine, self._target, self._replay = None, self._seen(problem), None
            if problem.device.type == "cuda" and reads_the_problem(self._optimizer(problem), self._target):
                self._mine = own_copy(problem)
            if self._mine is not None:
                self._target = self._seen(self._mine)
        self._problem, self._resting = problem, False

    def _optimizer(self, problem: Problem) -> Optimizer[S]:
        key = problem.device, problem.dtype
        if key not in self._quick:
            self._quick[key] = stepper(self.plain, *key)
        return self._quick[key]

    def _seen(self, problem: Problem) -> Problem | Stacked:
        """What the compiled step is given: made here, where torch.compile need not follow."""
        optimizer = self._optimizer(problem)
        if not isinstance(optimizer, Certified):
            return faster(problem)
        return quick_stack(one_read(optimizer.stack(problem)), optimizer)


class Replay:
    """`RING` steps on one problem, each a CUDA graph that reads the state which the one before it has written."""

    def __init__(
        self, advance: Any, optimizer: Optimizer[Any], target: Problem | Stacked, problem: Problem, state: Any
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
                values = advance(optimizer, target, self.shape, values)
            for place in range(RING):
                graph = torch.cuda.CUDAGraph()
                given = shortcuts(first, self.states, made) if place == RING - 1 else {}
                with cuda.results(given) as made, recorded(graph, pool):
                    after = advance(optimizer, target, self.shape, self.states[place])
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
        self.last = stepped(state, self.shape, iter(self.states[self.place]))
        return self.last


@contextmanager
def recorded(graph: torch.cuda.CUDAGraph, pool: Any) -> Iterator[None]:
    """Kernels launched within are recorded.

    As `torch.cuda.graph`, which also collects garbage and empties PyTorch's cache, and so takes longer than a solve.
    """
    graph.capture_begin(pool=pool)
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


def _advanced(
    optimizer: Optimizer[Any], target: Any, shape: Structure, values: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """One step as a function of tensors alone."""
    state = bare(shape, iter(values))
    after = optimizer.advance(target, state) if isinstance(optimizer, Certified) else optimizer.step(target, state)
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
