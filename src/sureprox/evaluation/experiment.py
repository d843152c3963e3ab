"""One curve: an optimizer in a scenario, its relative gaps at the recorded iterations, and the time of its steps."""

import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.machine import wait
from sureprox.evaluation.datasets import Dataset
from sureprox.evaluation.metrics import gap_scale, relative_gap
from sureprox.evaluation.scenarios import Scenario
from sureprox.optimizers import Optimizer
from sureprox.problems import Problem
from sureprox.solve.plan import plan

DENSE = 100  # every iteration is recorded up to here,
SPARSE = 10  # and then every tenth
CHUNK = {"cpu": 64, "cuda": 1024}  # instances at a time: bounds the memory, changes no result


@dataclass(frozen=True)
class Trace:
    """gaps (G, B): row i is after grid[i] iterations, infinite where an instance has diverged."""

    grid: tuple[int, ...]
    gaps: Tensor
    seconds: float  # of the steps alone
    steps: int  # taken; fewer than asked for, once nothing finite is left


def grid(iterations: int) -> tuple[int, ...]:
    """The recorded iterations: 0, 1, ..., 100, 110, 120, ... and the last."""
    if iterations < 1:
        raise InputError(f"iterations is {iterations}; it must be at least 1")
    kept = {*range(min(iterations, DENSE) + 1), *range(DENSE, iterations + 1, SPARSE), iterations}
    return tuple(sorted(kept))


@torch.no_grad()
def trace(
    optimizer: Optimizer[Any],
    data: Dataset,
    scenario: Scenario,
    iterations: int,
    *,
    dtype: torch.dtype = torch.float32,
    chunk: int | None = None,
) -> Trace:
    """Steps in `dtype`, F in float64. What diverges stays diverged: nothing is clipped or left out."""
    recorded = grid(iterations)
    device = data.problem.device
    scale, _ = gap_scale(data.best)
    columns, seconds, steps = [], 0.0, 0
    for part in torch.arange(data.problem.batch, device=device).split(chunk or CHUNK[device.type]):
        whole = len(part) == data.problem.batch
        exact = scenario.problem(data.problem if whole else data.problem.select(part))
        clock = Stopwatch(device)
        values, taken = _objectives(optimizer, exact, scenario.start(data.start[part]), recorded, dtype, clock)
        columns.append(torch.stack([relative_gap(F, data.best[part], scale[part]) for F in values]))
        seconds, steps = seconds + clock.seconds, max(steps, taken)
    return Trace(recorded, torch.cat(columns, 1).cpu(), seconds, steps)


def _objectives(
    optimizer: Optimizer[Any],
    exact: Problem,
    x0: Tensor,
    recorded: tuple[int, ...],
    dtype: torch.dtype,
    clock: "Stopwatch",
) -> tuple[list[Tensor], int]:
    """F, (B,) in float64, at each of the recorded iterations, and the number of steps taken."""
    wanted = set(recorded)
    problem = exact.to(dtype=dtype)
    stepping = plan(problem, optimizer, wait=True).once()
    state = stepping.init(problem, x0.to(dtype))
    values = [exact.objective(state.x.double())]
    stepping.step(problem, state)  # not timed: the first step may allocate; it changes nothing
    clock.start()
    while state.k < recorded[-1]:
        state = stepping.step(problem, state)
        if state.k not in wanted:
            continue
        clock.stop()
        values.append(exact.objective(state.x.double()))
        if not bool(torch.isfinite(values[-1]).any()):  # a point that is not finite never becomes finite again
            values += values[-1:] * (len(recorded) - len(values))
            return values, state.k
        clock.start()
    return values, state.k


class Stopwatch:
    """Seconds between `start` and `stop`, added up; on a GPU both wait until the work in flight is done."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seconds = 0.0
        self._since = 0.0

    def start(self) -> None:
        wait(self.device)
        self._since = time.perf_counter()

    def stop(self) -> None:
        wait(self.device)
        self.seconds += time.perf_counter() - self._since
