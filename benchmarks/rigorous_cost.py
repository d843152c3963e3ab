"""What a rigorous gap costs beside `Problem.certificate`, and how much larger it is, on the paper's problems.

python benchmarks/rigorous_cost.py
"""

import time
from typing import Any

import torch

import sureprox as sp
from sureprox.problems.rigorous import rigorous_gap
from sureprox.sources.families import LassoFamily, LogisticFamily

from _record import write_record


def cost(batch: int = 64, rounds: int = 30) -> dict[str, Any]:
    """Seconds of one evaluation, the least of all rounds, taken in turns."""
    generator, table = torch.Generator().manual_seed(20286), {}
    for family in (LassoFamily(), LogisticFamily()):
        problem = family.sample(batch, generator, torch.float64)
        x = sp.solve(problem, tol=1e-8).x
        best = {"plain": float("inf"), "rigorous": float("inf")}
        calls = {
            "plain": lambda p=problem, x=x: p.certificate(x),
            "rigorous": lambda p=problem, x=x: rigorous_gap(p, x),
        }
        for _ in range(rounds):
            for name, call in calls.items():
                began = time.perf_counter()
                call()
                best[name] = min(best[name], time.perf_counter() - began)
        gap, seen = rigorous_gap(problem, x), problem.certificate(x)
        table[family.name] = best | {
            "times": best["rigorous"] / best["plain"],
            "problems": batch,
            "threads": torch.get_num_threads(),
            "median of (rigorous - plain) / F": float(((gap - seen.gap) / seen.objective).median()),
        }
    return table


if __name__ == "__main__":
    numbers = cost()
    print(numbers)
    print(write_record("rigorous_cost", numbers))
