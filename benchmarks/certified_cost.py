"""What the guarantee costs: time per iteration against the plain optimizer, as ratios within one run.

Short rounds of plain, certified and cheap iterations alternate, the best round of each counts. On a GPU (`--device
cuda`, the default where there is one) the device is waited for around each round.

    python benchmarks/certified_cost.py [--device cpu] [--batch 32] [--steps 10] [--rounds 60]
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.guarantee import Certified, CertifiedCheap
from sureprox.optimizers import FISTA, Optimizer
from sureprox.problems import Problem
from sureprox.sources import LassoFamily

from _record import write_record

SEED = 20261116


def stepper(problem: Problem, optimizer: Optimizer[Any], x0: Tensor, warm: int) -> Callable[[int], None]:
    """A function that takes that many steps from the state after `warm` ones."""
    *_, state = sp.iterate(problem, optimizer, optimizer.init(problem, x0), warm)

    def run(steps: int) -> None:
        for _ in sp.iterate(problem, optimizer, state, steps):
            pass

    return run


@torch.no_grad()
def times(device: str, batch: int, steps: int, rounds: int, dtype: torch.dtype = torch.float32) -> dict[str, float]:
    """Best milliseconds per iteration of each mode, GO-Math-L2O on the paper's LASSO problems."""
    generator = torch.Generator(device).manual_seed(SEED)
    family = LassoFamily()
    problem, x0 = family.sample(batch, generator, dtype), family.start(batch, generator, dtype)
    plain = sp.load("go-math-l2o/lasso", device)
    modes = {"plain": plain, "certified": Certified(plain), "cheap": CertifiedCheap(plain), "FISTA": FISTA()}
    modes["certified FISTA"] = Certified(FISTA(restart=True))
    runs = {name: stepper(problem, optimizer, x0, 3) for name, optimizer in modes.items()}
    best = dict.fromkeys(modes, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            wait(device)
            began = time.perf_counter()
            run(steps)
            wait(device)
            best[name] = min(best[name], 1e3 * (time.perf_counter() - began) / steps)
    return best


def wait(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=10)  # a multiple of ten: the cheap mode has a FISTA step in ten
    parser.add_argument("--rounds", type=int, default=60)
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    best = times(options.device, options.batch, options.steps, options.rounds)
    ratio = {name: round(best[name] / best["plain"], 3) for name in ("certified", "cheap")}
    ratio["certified FISTA over FISTA"] = round(best["certified FISTA"] / best["FISTA"], 3)
    print({name: round(value, 3) for name, value in best.items()}, ratio, flush=True)
    path = write_record(
        "certified_cost",
        {
            "setting": {"device": options.device, "batch": options.batch, "m": 250, "n": 500, "dtype": "float32"},
            "protocol": f"best of {options.rounds} rounds of {options.steps} iterations each, modes alternating",
            "milliseconds_per_iteration": {name: round(value, 4) for name, value in best.items()},
            "times_the_cost_of_plain": ratio,
        },
    )
    print(path)


if __name__ == "__main__":
    main()
