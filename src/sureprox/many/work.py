"""One part: load it, solve it chunk by chunk, write its shard. Runs here or on a worker."""

import uuid
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.many.memory import Needed, free_memory, memory_needed
from sureprox.many.parts import Part
from sureprox.many.shards import Shards
from sureprox.many.solved import Solved, joined, largest_relative
from sureprox.optimizers import Optimizer
from sureprox.problems import Problem
from sureprox.solve.solve import prepare, solve


@dataclass(frozen=True)
class Settings:
    """How every part is solved; `options` go to `solve`."""

    optimizer: Optimizer[Any] | str | None
    options: dict[str, Any]  # max_iter, tol, certify, ...
    device: str | None = None
    chunk: int | None = None
    memory: int | None = None
    threads: int | None = None  # of torch, in a process that has several beside it
    out: Path | None = None
    run: str = field(default_factory=lambda: uuid.uuid4().hex)  # the same in every copy of these, on all workers


@dataclass(frozen=True)
class Task:
    index: int
    part: Part
    settings: Settings


@dataclass(frozen=True)
class Done:
    """What is known of a shard without opening it."""

    index: int
    counts: dict[str, int]
    worst: float  # largest gap relative to the objective; infinite where none is known
    solved: Solved | None = None  # None: it is in the shard

    @property
    def size(self) -> int:
        return sum(self.counts.values())


def solve_part(task: Task) -> Done:
    """Solve a part, unless its shard is there: a worker may die between writing and saying so."""
    settings = task.settings
    shards = None if settings.out is None else Shards(settings.out)
    if shards is not None and shards.path(task.index).exists():
        return found(shards, task.index)
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    try:
        # before the problems are loaded: if their file changes now, the label is not that of the file, and is refused
        label = "" if shards is None else task.part.label
        solved = _solved(task)
    except InputError as error:
        raise InputError(f"shard {task.index}: {error}") from None
    if shards is None:
        return _done(solved, keep=True)
    shards.write(task.index, solved, label)
    return _done(solved, keep=False)


def found(shards: Shards, index: int) -> Done:
    """The same from a shard that was written before."""
    return _done(shards.read(index), keep=False)


def _solved(task: Task) -> Solved:
    settings = task.settings
    problem, x0 = task.part.load()
    if x0 is not None:
        x0 = problem.start(x0)
    device = torch.device(settings.device or problem.device)
    size = fitting(problem, settings, device) if problem.selectable else problem.batch
    certify, engine = settings.options.get("certify", "auto"), settings.options.get("engine", "auto")
    solutions = []
    for start in range(0, problem.batch, size):
        piece, begin = problem, x0
        if size < problem.batch:
            index = torch.arange(start, min(start + size, problem.batch), device=problem.device)
            piece, begin = problem.select(index), None if x0 is None else x0[index]
        begin = None if begin is None else begin.to(device)
        piece = piece.to(device=device)
        prepare(piece, settings.optimizer, certify, engine)
        solution = solve(piece, settings.optimizer, begin, **settings.options)
        solutions.append(replace(solution, screening=None))  # which would keep the data of every chunk
    return joined(solutions, task.index)


_needed: dict[tuple[object, ...], Needed] = {}
MOST_KEPT = 1000  # of them


def fitting(problem: Problem, settings: Settings, device: torch.device) -> int:
    """The number given, or what `memory` allows."""
    if settings.chunk is not None:
        return settings.chunk
    one = problem.select(torch.zeros(1, dtype=torch.int64, device=problem.device))
    shapes = tuple(value.shape for value in one.tensors())
    certify, optimizer = settings.options.get("certify", "auto"), settings.optimizer
    # counted once in a run: what an optimizer holds depends on more than its type, such as the sizes of its layers
    used = "default" if optimizer is None else settings.run
    kinds = type(problem.f), type(getattr(problem.f, "A", None)), type(problem.r)
    key = (used, certify, *kinds, shapes, problem.n, problem.dtype, device)
    if key not in _needed:
        if len(_needed) >= MOST_KEPT:
            _needed.clear()
        _needed[key] = memory_needed(one.to(device=device), optimizer, certify)
    return _needed[key].fit(free_memory(device) if settings.memory is None else settings.memory)


def _done(solved: Solved, *, keep: bool) -> Done:
    """With the results themselves where they are kept nowhere else."""
    worst = largest_relative(solved.gap, solved.objective)
    return Done(solved.index, dict(solved.counts), worst, solved if keep else None)
