"""The theorem on audited solves, held against every k of more than ten thousand instance runs.

F(x_k) - F(x*) <= 2 L |x_0 - x*|^2 / (k/6 - q)^2 for k >= 18 with q rejected steps, and the sharper bound that the run
itself states; F(x_k) never rises, x_k is finite. Optimizers, problems and moves as in certified_bound.py, with fewer
moves and more iterations: audits at 16, 32 and 64, and the turns of FISTA that follow. In float64, in float32, and with
an L that is 100 times too small. Then a run of 400 iterations of every optimizer that means harm.

    python benchmarks/audited_bound.py [--batch 16] [--steps 100]
"""

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee import Audited
from sureprox.optimizers import Optimizer
from sureprox.problems import Problem

from _record import write_record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the cases that the tests try too

from certified_bound import FLAWS, add
from certified_cases import ADVERSARIES, PROBLEMS, ROUNDING, everything, make_problem, target_of, watched

SHIFTS = (0.0, 10.0, -1000.0)
VARIANTS = {  # precision, and the step size to begin with, in units of 1/L
    "float64": (torch.float64, 1.0),
    "float32": (torch.float32, 1.0),
    "float64, L 100 times too small": (torch.float64, 1e2),
}
LONG = 4  # times as many iterations for optimizers that mean harm


def runs(name: str, seed: int, batch: int) -> Iterator[tuple[str, Optimizer[Any], Problem, Tensor, Tensor, bool]]:
    """(optimizer's name, optimizer, problem, start, solution, whether anything is moved)."""
    problem = make_problem(name, batch, seed)
    target = target_of(problem)
    start = torch.randn(problem.batch, problem.n, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
    for called, optimizer, shifts in everything():
        for shift in set(shifts) & set(SHIFTS):
            yield called, optimizer, problem, start + shift, target, shift != 0
            if shift:
                yield called, optimizer, problem.shifted(shift), start, target - shift, True


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    totals: dict[str, Counter[str]] = {}
    worst: dict[str, float] = {}
    for seed, name in enumerate(PROBLEMS):
        for called, optimizer, problem, x0, target, moved in runs(name, seed, options.batch):
            for variant, (dtype, long) in VARIANTS.items():
                if dtype == torch.float32 and name.startswith("scaled"):
                    continue  # the squares of 1e12 leave the range of float32
                if long != 1 and moved:
                    continue
                more = LONG if called in ADVERSARIES and variant == "float64" else 1
                verdict = watched(
                    problem.to(dtype=dtype), Audited(optimizer), x0.to(dtype), target, more * options.steps, long
                )
                add(totals.setdefault(variant, Counter()), verdict)
                worst[variant] = max(worst.get(variant, 0.0), verdict.ratio)
                bad = {flaw: getattr(verdict, flaw) for flaw in FLAWS if getattr(verdict, flaw)}
                if bad:
                    print(f"VIOLATED: {name}, {called}, {variant}, moved: {moved}: {bad}", flush=True)
        done = sum(total["runs"] for total in totals.values())
        print(f"{name}: {done} runs so far, {time.perf_counter() - began:.0f} s", flush=True)
    path = write_record(
        "audited_bound",
        {
            "setting": {"batch": options.batch, "steps": options.steps, "problems": list(PROBLEMS)},
            "optimizers": [name for name, _, _ in everything()],
            "shifts": list(SHIFTS),
            "instance_runs": sum(total["runs"] for total in totals.values()),
            "violations": sum(total[flaw] for total in totals.values() for flaw in FLAWS),
            "tolerance": f"{ROUNDING} units of roundoff of the precision, relative to F(x_k)",
            "by_variant": {key: dict(total) | {"largest_share_of_bound": worst[key]} for key, total in totals.items()},
            "seconds": round(time.perf_counter() - began),
        },
    )
    print(path)


if __name__ == "__main__":
    main()
