"""What an iteration costs on a CPU: learned optimizers by the compiled kernels and by the plain step, against ISTA.

Short rounds of all of them alternate, the best round of each counts, and ratios are taken within the run. ISTA is timed
three times: with two batched products of matrices and columns, as PyTorch computes them (`torch.bmm`); as `solve` runs
it, the first product transposed, which PyTorch computes several times faster; and with the one-read gradient of the
kernels. The first call (compile) and the load of a kept library are timed apart, in fresh processes.

    python benchmarks/cpu_speed.py [--threads 2] [--batch 32] [--steps 5] [--rounds 100]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

import sureprox as sp
from sureprox.guarantee import Certified
from sureprox.kernels import native_status
from sureprox.kernels.products.cpu import gradient
from sureprox.kernels.runtime.library import library
from sureprox.optimizers import ISTA, Optimizer, Sure
from sureprox.optimizers.base import State
from sureprox.problems import LeastSquares, Problem
from sureprox.sources import LassoFamily

from _record import write_record

SEED = 20261117
FIRST_CALL = """
import json, time, torch, sureprox as sp
from sureprox.problems import LassoFamily
family, generator = LassoFamily(), torch.Generator().manual_seed(0)
problem, x0 = family.sample(32, generator), family.start(32, generator)
optimizer = sp.load("go-math-l2o/lasso")
with torch.no_grad():
    began = time.perf_counter()
    state = optimizer.init(problem, x0)
    times = [time.perf_counter() - began]
    for _ in range(3):
        began = time.perf_counter()
        state = optimizer.step(problem, state)
        times.append(time.perf_counter() - began)
print(json.dumps(times))
"""
TINY = """
import json, time, torch, sureprox as sp
generator = torch.Generator().manual_seed(0)
A = torch.randn(20, 40, generator=generator)
A /= A.norm(dim=0)
truth = torch.where(torch.arange(40) < 4, torch.randn(40, generator=generator), 0.0)
began = time.perf_counter()
solution = sp.solve(sp.lasso(A, A @ truth, 0.1), {})
print(json.dumps([time.perf_counter() - began, int(solution.iterations[0])]))
"""


class ColumnISTA(ISTA):
    """ISTA on A x and A'z as batched products of a matrix and a column."""

    def step(self, problem: Problem, state: State) -> State:
        f, step = problem.f, state.step_size.unsqueeze(1)
        assert isinstance(f, LeastSquares)
        z = torch.bmm(f.A, state.x.unsqueeze(2)) - f.b.unsqueeze(2)
        g = torch.bmm(f.A.mT, z).squeeze(2)
        return replace(state, x=problem.prox(torch.addcmul(state.x, step, g, value=-1), step), k=state.k + 1)


class OneReadISTA(ISTA):
    """ISTA on the one-read gradient."""

    def step(self, problem: Problem, state: State) -> State:
        step, g = state.step_size.unsqueeze(1), gradient(problem, state.x)
        return replace(state, x=problem.prox(torch.addcmul(state.x, step, g, value=-1), step), k=state.k + 1)


@torch.no_grad()
def times(batch: int, steps: int, rounds: int, dtype: torch.dtype) -> dict[str, float]:
    """Best milliseconds per iteration on the paper's LASSO problems, 250 x 500, one A per instance."""
    generator, family = torch.Generator().manual_seed(SEED), LassoFamily()
    torch.manual_seed(SEED)
    problem, x0 = family.sample(batch, generator, dtype), family.start(batch, generator, dtype)
    learned = {
        "GO-Math-L2O": sp.load("go-math-l2o/lasso"),
        "Sure light": Sure(coordinate=0, conjugate=True),
        "Sure": Sure(),
        "Sure conjugate": Sure(conjugate=True),
    }
    modes: dict[str, Optimizer[Any]] = {
        "ISTA, two bmm": ColumnISTA(),
        "ISTA": ISTA(),
        "ISTA one read": OneReadISTA(),
        **learned,
    }
    modes["certified GO-Math-L2O"] = Certified(learned["GO-Math-L2O"])
    modes["certified Sure light"] = Certified(learned["Sure light"])
    plain = {f"{name}, plain": optimizer for name, optimizer in learned.items()}
    by_hand = {*plain, "ISTA"}  # without kernels
    assert library(build=True) is not None, native_status()
    runs = {
        name: stepper(problem, optimizer, x0, "plain" if name in by_hand else "kernels")
        for name, optimizer in (modes | plain).items()
    }
    best = dict.fromkeys(runs, float("inf"))
    for turn in range(rounds):
        for name, run in runs.items():
            if name in plain and turn % 10:  # slow, and not what is compared
                continue
            began = time.perf_counter()
            run(steps)
            best[name] = min(best[name], 1e3 * (time.perf_counter() - began) / steps)
    return best


def stepper(problem: Problem, optimizer: Optimizer[Any], x0: torch.Tensor, engine: str) -> Callable[[int], None]:
    """A function that takes that many steps from the state after three."""
    *_, state = sp.iterate(problem, optimizer, optimizer.init(problem, x0), 3, engine=engine)

    def run(steps: int) -> None:
        for _ in sp.iterate(problem, optimizer, state, steps, engine=engine):
            pass

    return run


def in_fresh_process(code: str, cache: str) -> list[float]:
    env = os.environ | {"SUREPROX_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", code], env=env, check=True, capture_output=True, text=True)
    return list(json.loads(done.stdout))


def first_calls() -> dict[str, float]:
    """Milliseconds of the first steps, with an empty and with a filled cache, and of one tiny solve in a process."""
    with tempfile.TemporaryDirectory() as cache:
        tiny = {
            f"tiny solve by {name}, nothing compiled": min(in_fresh_process(TINY.format(code), cache)[0] for _ in "123")
            for name, code in TINY_OPTIMIZERS.items()
        }
        cold, warm = (in_fresh_process(FIRST_CALL, cache) for _ in range(2))
        tiny |= {
            f"tiny solve by {name}, library kept": min(in_fresh_process(TINY.format(code), cache)[0] for _ in "123")
            for name, code in TINY_OPTIMIZERS.items()
        }
    seconds = {
        "start and first step, compiled": cold[0] + cold[1],
        "start and first step, library kept": warm[0] + warm[1],
        "later step": min(warm[2:]),
        **tiny,
    }
    return {name: round(1e3 * value, 2) for name, value in seconds.items()}


TINY_OPTIMIZERS = {
    "what solve chooses": "None",
    "restarted FISTA": "sp.optimizers.FISTA(restart=True)",
    "GO-Math-L2O": "'go-math-l2o/lasso'",
    "Sure light, untrained": "sp.optimizers.Sure(coordinate=0, conjugate=True)",
}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--no-record", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    results = {}
    for name, dtype in (("float32", torch.float32), ("float64", torch.float64)):
        rounds = options.rounds if dtype is torch.float32 else options.rounds // 4
        best = times(options.batch, options.steps, rounds, dtype)
        results[name] = {
            "milliseconds_per_iteration": {mode: round(value, 4) for mode, value in best.items()},
            "in_iterations_of_ISTA_by_torch_bmm": {
                mode: round(value / best["ISTA, two bmm"], 2) for mode, value in best.items()
            },
            "in_iterations_of_ISTA": {mode: round(value / best["ISTA"], 2) for mode, value in best.items()},
            "in_iterations_of_ISTA_one_read": {
                mode: round(value / best["ISTA one read"], 2) for mode, value in best.items()
            },
        }
        print(name, json.dumps(results[name], indent=1), flush=True)
    if options.no_record:
        return
    status = native_status().partition(" ")[0]
    setting: dict[str, Any] = {"threads": options.threads, "batch": options.batch, "m": 250, "n": 500}
    load = round(os.getloadavg()[0], 2)  # of this process and of whatever else ran
    setting |= {"kernels": status, "load_average": load}
    protocol = (
        f"best of {options.rounds} rounds of {options.steps} iterations (a quarter of it in float64), alternating"
    )
    firsts = first_calls()
    print(firsts)
    record = {"setting": setting, "protocol": protocol, **results, "milliseconds_of_first_calls": firsts}
    print(write_record("cpu_speed", record))


if __name__ == "__main__":
    main()
