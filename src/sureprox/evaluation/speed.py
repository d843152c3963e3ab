"""Seconds of an iteration, and of a solve, measured so that ratios within one run can be trusted."""

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sureprox.base.machine import cores, wait
from sureprox.guarantee import Certified
from sureprox.kernels.runtime.structure import structure, tensors
from sureprox.optimizers import FISTA, ISTA, Optimizer, State, load
from sureprox.problems import Problem, lasso
from sureprox.solve.plan import plan
from sureprox.sources import LassoFamily

# what is timed, by name: as `solve` takes its steps
FAST: dict[str, Callable[[torch.device], Optimizer[Any]]] = {
    "ista": lambda device: ISTA(),
    "fista-restart": lambda device: FISTA(restart=True),
    "go-math-l2o": lambda device: load("go-math-l2o/lasso", device),
    "sure": lambda device: load("sure/lasso", device),
    "sure-light": lambda device: load("sure/lasso-light", device),
    "certified go-math-l2o": lambda device: Certified(load("go-math-l2o/lasso", device)),
    "certified sure": lambda device: Certified(load("sure/lasso", device)),
    "certified sure-light": lambda device: Certified(load("sure/lasso-light", device)),
}
PLAIN = ("ista", "go-math-l2o", "sure", "certified go-math-l2o", "certified sure")  # also without kernels
COMPILED = ("ista", "go-math-l2o", "certified go-math-l2o")  # also by torch.compile, on a GPU: kernels leave much to it
WARM = 8  # steps before the clock starts


@dataclass(frozen=True)
class Timing:
    """Seconds per iteration: the best and the median of several rounds; `first`: those of the first step, which may
    build or compile."""

    name: str
    mode: str  # the engine: "plain", "kernels" or "compiled"
    batch: int
    best: float
    median: float
    first: float
    state: int = 0  # bytes of what a step takes and returns, the problem apart; 0 where it was not counted


@torch.no_grad()
def time_steps(
    optimizer: Optimizer[Any], problem: Problem, x0: Tensor, step_size: Tensor, steps: int, rounds: int
) -> tuple[float, float, float]:
    """(best, median, first) seconds per step."""
    device = problem.device
    wait(device)
    began = time.perf_counter()
    state = optimizer.step(problem, optimizer.init(problem, x0, step_size=step_size))
    wait(device)
    first = time.perf_counter() - began
    for _ in range(WARM):
        state = optimizer.step(problem, state)
    times = []
    for _ in range(rounds):
        wait(device)
        began = time.perf_counter()
        for _ in range(steps):
            state = optimizer.step(problem, state)
        wait(device)
        times.append((time.perf_counter() - began) / steps)
    return min(times), statistics.median(times), first


def contests(device: torch.device, names: Sequence[str]) -> list[tuple[str, str, Optimizer[Any]]]:
    """(name, engine, optimizer) of everything that is timed."""
    found = []
    for name in names:
        optimizer = FAST[name](device)
        on_gpu = device.type == "cuda"
        engines = [
            engine for engine, those in (("plain", PLAIN), ("compiled", COMPILED if on_gpu else ())) if name in those
        ]
        found += [(name, engine, optimizer) for engine in [*engines, "kernels"]]
    return found


def iteration_times(
    device: torch.device,
    batches: Sequence[int],
    names: Sequence[str],
    told: Callable[[Timing], None],
    *,
    family: LassoFamily,
    shared: bool = False,
    steps: int = 40,
    rounds: int = 5,
) -> list[Timing]:
    """Every optimizer at every batch size, float32; `shared`: one A for the whole batch."""
    made = contests(device, names)
    timings = []
    for batch in batches:
        generator = torch.Generator(device).manual_seed(batch)
        problem, x0 = sample(family, batch, generator, shared), family.start(batch, generator)
        step_size = problem.step_size()
        for name, engine, optimizer in made:
            with plan(problem, optimizer, engine=engine).stepping() as stepping:
                times = time_steps(stepping, problem, x0, step_size, steps, rounds)
                size = state_bytes(stepping.init(problem, x0, step_size=step_size))
            timing = Timing(name, engine, batch, *times, size)
            timings.append(timing)
            told(timing)
    return timings


def state_bytes(state: State) -> int:
    return sum(value.numel() * value.element_size() for value in tensors(state, structure(state)))


def measured(
    device: torch.device,
    batches: Sequence[int],
    names: Sequence[str],
    told: Callable[[Timing], None],
    *,
    shared: bool,
    steps: int,
    rounds: int,
) -> dict[str, Any]:
    """All of a `SpeedRecord` but where it was made: LASSO of the paper's size, or 64 x 128 with a shared A."""
    if device.type == "cpu":
        torch.set_num_threads(cores())
    family = LassoFamily(m=64, n=128, nonzeros=13) if shared else LassoFamily()
    bandwidth = copy_bandwidth(device)
    timings = iteration_times(device, batches, names, told, family=family, shared=shared, steps=steps, rounds=rounds)
    protocol = f"best and median of {rounds} rounds of {steps} iterations"
    sizes = {"m": family.m, "n": family.n, "shared": shared}
    return {**sizes, "protocol": protocol, "bandwidth": bandwidth, "timings": tuple(timings)}


def sample(family: LassoFamily, batch: int, generator: torch.Generator, shared: bool) -> Problem:
    if not shared:
        return family.sample(batch, generator)
    one = family.sample(1, generator).f
    A = one.A[0]  # type: ignore[attr-defined]
    truth = torch.randn(batch, family.n, generator=generator, device=generator.device)
    rank = torch.rand(batch, family.n, generator=generator, device=generator.device).argsort(1).argsort(1)
    return lasso(A, (truth * (rank < family.nonzeros)) @ A.mT, family.lam)


def copy_bandwidth(device: torch.device) -> float:
    """Bytes per second, read and written, of copying a large block."""
    block = torch.empty(2**28 if device.type == "cuda" else 2**25, device=device)
    target = torch.empty_like(block)
    times = []
    for _ in range(10):
        wait(device)
        began = time.perf_counter()
        target.copy_(block)
        wait(device)
        times.append(time.perf_counter() - began)
    return 2 * block.numel() * block.element_size() / min(times)
