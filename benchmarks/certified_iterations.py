"""Iterations to 1e-6 of optimizers alone, certified and in the cheap mode, and of restarted FISTA, float64.

The first k at which an instance has (F(x_k) - F*)/F* <= 1e-6, for the pretrained optimizers of both families on
problems of both, starts moved by s, and for random weights. Null: not within 500 iterations.

    python benchmarks/certified_iterations.py [--device cpu] [--instances 6]
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.guarantee import Certified, CertifiedCheap
from sureprox.optimizers import FISTA, L2OPA, GoMathL2O, Optimizer
from sureprox.problems import Problem
from sureprox.sources import LassoFamily, LogisticFamily

from _record import write_record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the cases that the tests try too

from certified_cases import random_weights, trained

SHIFTS = (0.0, 10.0, -10.0, 100.0, -100.0)
FEW = (0.0, 10.0)  # for weights of the other family and random ones
MOST, LEVEL, SEED = 500, 1e-6, 20261116


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


def summary(found: Tensor) -> dict[str, float | None]:
    """Median and largest; None: not reached."""
    return {"median": finite(found.median()), "largest": finite(found.max())}


def finite(number: Tensor) -> float | None:
    return round(float(number), 4) if bool(torch.isfinite(number)) else None


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
                if s not in FEW and not name.endswith(f"/{family.name}"):
                    continue
                plain = counts(problem, optimizer, x0 + s, best)
                certified = counts(problem, Certified(optimizer), x0 + s, best)
                cheap = counts(problem, CertifiedCheap(optimizer), x0 + s, best)
                reached = torch.isfinite(plain)
                row = {
                    "plain": summary(plain),
                    "certified": summary(certified),
                    "cheap": summary(cheap),
                    "restarted FISTA": summary(classical),
                    "certified over plain, where plain arrives, largest": (
                        finite((certified / plain)[reached].max()) if bool(reached.any()) else None
                    ),
                    "certified over restarted FISTA, median": finite((certified / classical).median()),
                    "certified over restarted FISTA, largest": finite((certified / classical).max()),
                    "cheap over restarted FISTA, median": finite((cheap / classical).median()),
                }
                table[f"{family.name}, s={s:g}: {name}"] = row
                print(f"{family.name}, s={s:g}: {name}", row, flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--instances", type=int, default=6)
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    table = iterations(options.device, options.instances)
    over = [row["certified over plain, where plain arrives, largest"] for row in table.values()]
    late = [row["certified over restarted FISTA, median"] for row in table.values() if row["plain"]["median"] is None]
    path = write_record(
        "certified_iterations",
        {
            "instances": options.instances,
            "level": LEVEL,
            "certified over plain, where plain arrives, largest": max(r for r in over if r is not None),
            "certified over restarted FISTA where plain fails, largest median": max(r for r in late if r is not None),
            "iterations": table,
        },
    )
    print(path)


if __name__ == "__main__":
    main()
