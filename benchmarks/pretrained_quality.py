"""Iterations of the pretrained optimizers to a mean relative gap of 1e-3, 1e-6 and 1e-9, on fresh problems, float64.

The start is standard normal, then moved by s on every coordinate. FISTA and restarted FISTA run beside them.

    python benchmarks/pretrained_quality.py [--runs DIR] [--instances 256] [--record pretrained_quality] [NAME ...]

To choose between several trainings use other problems than those of the record (--seed; nothing is written then).
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import torch

import sureprox as sp
from sureprox.optimizers import FISTA, Optimizer, read_card
from sureprox.problems import Problem
from sureprox.training.config import FAMILIES

from _record import write_record

SHIFTS = (0, 10, -10, 100, -100)
LEVELS = (1e-3, 1e-6, 1e-9)
MOST = 500
SEED = 20261115  # used neither in training nor for choosing anything


def counts(problem: Problem, optimizer: Optimizer[Any], x0: torch.Tensor, best: torch.Tensor) -> list[int | None]:
    """First iteration at which the mean over the instances of (F - F*)/F* is at most each level."""
    found: list[int | None] = [None] * len(LEVELS)
    with torch.no_grad():
        state = optimizer.init(problem, x0, generator=torch.Generator(x0.device).manual_seed(0))
        for after in sp.iterate(problem, optimizer, state, MOST):
            gap = float(((problem.objective(after.x) - best) / best).mean())
            found = [
                k if k is not None else after.k if gap <= level else None
                for k, level in zip(found, LEVELS, strict=True)
            ]
            if None not in found or not gap < 1e30:
                break
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--runs", type=Path, help="read RUNS/NAME/model instead of the shipped weights")
    parser.add_argument("--instances", type=int, default=256)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--record", default="pretrained_quality", help="name of the record")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    table: dict[str, Any] = {}
    for family_name in ("lasso", "logistic"):
        names = [n for n in options.names or sp.pretrained() if n.partition("/")[2].partition("-")[0] == family_name]
        if not names:
            continue
        paths = {name: options.runs / name / "model" if options.runs else name for name in names}
        described = dict(read_card(paths[names[0]]).family)
        family = FAMILIES[described.pop("name")](**described)
        generator = torch.Generator(device).manual_seed(options.seed)
        problem = family.sample(options.instances, generator, torch.float64)
        x0 = family.start(options.instances, generator, torch.float64)
        best = sp.reference(problem).objective
        optimizers: dict[str, Optimizer[Any]] = {"FISTA": FISTA(), "FISTA with restart": FISTA(restart=True)}
        optimizers |= {name: sp.load(path, device) for name, path in paths.items()}
        for name, optimizer in optimizers.items():
            row = {f"s={s}": counts(problem, optimizer, x0 + s, best) for s in SHIFTS}
            table[f"{family_name}: {name}"] = row
            print(f"{family_name}: {name}", row, flush=True)
    if options.seed == SEED:
        command = " ".join(["python benchmarks/pretrained_quality.py", *sys.argv[1:]])
        numbers = {"instances": options.instances, "levels": LEVELS, "iterations": table}
        print(write_record(options.record, {"command": command} | numbers))


if __name__ == "__main__":
    main()
