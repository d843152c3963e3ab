"""Gradients that the classical opponents, restarted FISTA and Sure need, alone, on a dozen kinds of the battery.

    python benchmarks/rivals.py [--instances 8] [--most 3000]

A gradient is one evaluation of f and grad f, which is one iteration of each method. Proximal Newton is counted in
Newton steps, each of which costs a Hessian besides. Float64, start zero, until F - F* <= 1e-6 F*.
"""

import argparse
import math
from typing import Any

import torch

import sureprox as sp
from sureprox.evaluation.battery_kinds import KINDS
from sureprox.optimizers import FISTA, PANOC, LocalFISTA, Optimizer, OptISTA, ProxNewton, SpaRSA
from sureprox.problems import Problem

from _record import write_record

NAMES = (
    "lasso",
    "lasso-lam-0.01",
    "lasso-lam-0.2",
    "lasso-noise",
    "lasso-ar-0.9",
    "lasso-column-norms",
    "lasso-64x128",
    "lasso-dense",
    "logistic",
    "logistic-lam-0.01",
    "logistic-ar-0.9",
    "logistic-separable",
)
LEVEL = 1e-6
SEED = 20
NEWTON_STEPS = 100


def contestants(family: str) -> dict[str, Optimizer[Any]]:
    return {
        "restarted FISTA": FISTA(restart=True),
        "LocalFISTA": LocalFISTA(),
        "SpaRSA": SpaRSA(),
        "PANOC": PANOC(),
        "OptISTA, 100 steps a round": OptISTA(100),
        "Sure": sp.load(f"sure/{family}"),
        "ProxNewton, Newton steps": ProxNewton(),
    }


@torch.no_grad()
def counts(problem: Problem, optimizer: Optimizer[Any], best: torch.Tensor, most: int) -> list[int | None]:
    """Iterations of every instance until F - F* <= LEVEL F*; None where `most` are not enough."""
    found: list[int | None] = [None] * problem.batch
    for state in sp.iterate(problem, optimizer, optimizer.init(problem, problem.start()), most):
        there = problem.objective(state.x) - best <= LEVEL * best
        for i in there.nonzero()[:, 0].tolist():
            found[i] = state.k if found[i] is None else found[i]
        if None not in found:
            break
    return found


def median(found: list[int | None]) -> float | None:
    """Instances that were not solved are slower than all others; None if they are half of them."""
    ordered = sorted(float("inf") if k is None else k for k in found)
    middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
    return None if middle == float("inf") else middle


def times_sure(medians: dict[str, dict[str, float | None]]) -> dict[str, float | None]:
    """Geometric means over the kinds of gradients over those of Sure; None where a kind was not solved."""
    ratios: dict[str, list[float]] = {}
    for found in medians.values():
        gradients = {label: k or float("inf") for label, k in found.items() if not label.startswith("ProxNewton")}
        sure = gradients.pop("Sure")
        for label, k in {**gradients, "best classical": min(gradients.values())}.items():
            ratios.setdefault(label, []).append(k / sure)
    means = {label: math.prod(each) ** (1 / len(each)) for label, each in ratios.items()}
    return {label: mean if math.isfinite(mean) else None for label, mean in means.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Gradients to a relative gap of 1e-6, method by method.")
    parser.add_argument("--instances", type=int, default=8)
    parser.add_argument("--most", type=int, default=3000, help="iterations")
    options = parser.parse_args()
    medians: dict[str, dict[str, float | None]] = {}
    unsolved: dict[str, int] = {}
    for name in NAMES:
        kind = KINDS[name]
        problem = kind.sample(options.instances, torch.Generator().manual_seed(SEED)).problem
        best = sp.reference(problem).objective
        medians[name] = {}
        for label, optimizer in contestants(kind.family).items():
            most = NEWTON_STEPS if isinstance(optimizer, ProxNewton) else options.most
            found = counts(problem, optimizer, best, most)
            medians[name][label] = median(found)
            unsolved[label] = unsolved.get(label, 0) + found.count(None)
        print(name, medians[name], flush=True)
    path = write_record(
        "rivals",
        {
            "options": {**vars(options), "seed": SEED, "level": LEVEL, "start": "zero", "dtype": "float64"},
            "median_gradients": medians,
            "times_sure": times_sure(medians),
            "unsolved_instances": unsolved,
        },
    )
    print(path)


if __name__ == "__main__":
    main()
