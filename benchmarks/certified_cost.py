"""What the guarantee costs: time per iteration against the plain optimizer, and iterations to 1e-6.

Times are ratios within one run: rounds of plain, certified and cheap iterations alternate, the best round of each
counts. On a GPU (`--device cuda`, the default where there is one) the device is waited for around each round.
Iterations are the first k at which an instance has (F(x_k) - F*)/F* <= 1e-6, median and largest over the instances,
for pretrained optimizers on starts moved by s, and for optimizers that fail: random weights and weights of the other
family.

    python benchmarks/certified_cost.py [--device cpu] [--batch 32] [--instances 64] [--steps 20] [--rounds 10]
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.optimizers import FISTA, L2OPA, Certified, CertifiedCheap, GoMathL2O, Optimizer
from sureprox.problems import LassoFamily, LogisticFamily, Problem

from _record import write_record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from certified_cases import random_weights, trained

SHIFTS = (0.0, 10.0, -10.0, 100.0, -100.0)
MOST, LEVEL, SEED = 700, 1e-6, 20261116


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


@torch.no_grad()
def counts(problem: Problem, optimizer: Optimizer[Any], x0: Tensor, best: Tensor) -> Tensor:
    """(B,) the first k with a relative gap of 1e-6; infinite if it is not reached."""
    found = torch.full((problem.batch,), torch.inf, dtype=torch.float64, device=problem.device)
    state = optimizer.init(problem, x0)
    for after in sp.iterate(problem, optimizer, state, MOST):
        gap = (problem.objective(after.x) - best) / best
        found = torch.where(torch.isinf(found) & (gap <= LEVEL), float(after.k), found)
        if bool(torch.isfinite(found).all()) or not bool(torch.isfinite(gap).any()):
            break
    return found


def summary(found: Tensor) -> dict[str, float]:
    return {"median": float(found.median()), "largest": float(found.max())}


def iterations(device: str, instances: int) -> dict[str, Any]:
    table: dict[str, Any] = {}
    failing = {
        "go-math-l2o, random weights": random_weights(GoMathL2O, 0),
        "l2o-pa, random weights": random_weights(L2OPA, 0),
    }
    for family in (LassoFamily(), LogisticFamily()):
        generator = torch.Generator(device).manual_seed(SEED)
        problem = family.sample(instances, generator, torch.float64)
        x0 = family.start(instances, generator, torch.float64)
        best = sp.reference(problem).objective
        chosen: dict[str, Optimizer[Any]] = {name: sp.load(name, device) for name in trained()}
        chosen |= {name: optimizer.to(device) for name, optimizer in failing.items()}
        for s in SHIFTS:
            classical = counts(problem, FISTA(restart=True), x0 + s, best)
            for name, optimizer in chosen.items():
                plain = counts(problem, optimizer, x0 + s, best)
                certified = counts(problem, Certified(optimizer), x0 + s, best)
                cheap = counts(problem, CertifiedCheap(optimizer), x0 + s, best)
                reached = torch.isfinite(plain)
                row = {
                    "plain": summary(plain),
                    "certified": summary(certified),
                    "cheap": summary(cheap),
                    "restarted FISTA": summary(classical),
                    "certified over plain, where plain arrives, largest": float(
                        (certified / plain)[reached].max() if bool(reached.any()) else torch.nan
                    ),
                    "certified over restarted FISTA, median": float((certified / classical).median()),
                    "certified over restarted FISTA, largest": float((certified / classical).max()),
                    "cheap over restarted FISTA, median": float((cheap / classical).median()),
                }
                table[f"{family.name}, s={s:g}: {name}"] = row
                print(f"{family.name}, s={s:g}: {name}", row, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--instances", type=int, default=64)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    best = times(options.device, options.batch, options.steps, options.rounds)
    ratio = {name: round(best[name] / best["plain"], 3) for name in ("certified", "cheap")}
    ratio["certified FISTA over FISTA"] = round(best["certified FISTA"] / best["FISTA"], 3)
    print({name: round(value, 3) for name, value in best.items()}, ratio, flush=True)
    table = iterations(options.device, options.instances) if options.instances else {}
    path = write_record(
        "certified_cost",
        {
            "setting": {"device": options.device, "batch": options.batch, "m": 250, "n": 500, "dtype": "float32"},
            "protocol": f"best of {options.rounds} rounds of {options.steps} iterations each, modes alternating",
            "milliseconds_per_iteration": {name: round(value, 4) for name, value in best.items()},
            "times_the_cost_of_plain": ratio,
            "instances": options.instances,
            "iterations_to_1e-6": table,
        },
    )
    print(path)


if __name__ == "__main__":
    main()
