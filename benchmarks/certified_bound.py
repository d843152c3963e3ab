"""The guarantee of certified solves, held against every k of more than ten thousand instance runs.

F(x_k) - F(x*) <= 2 L |x_0 - x*|^2 / (k + 1)^2, F(x_k) never rises, x_k is finite and the duality gap is never below
F(x_k) - F(x*): pretrained optimizers on both families with starts and problems moved by s, t in +-{10, 100, 1000},
random weights, optimizers that mean harm; badly scaled, correlated, shared and separable data; float64 and float32;
and an L that is 2 to 10^6 times too small, where k counts the steps that were not repeated.

    python benchmarks/certified_bound.py [--batch 8] [--steps 40]
"""

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

import torch

import sureprox as sp
from sureprox.guarantee import Certified, CertifiedCheap

from _record import write_record

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))  # the cases that the tests try too

from certified_cases import PROBLEMS, ROUNDING, Verdict, everything, make_problem, target_of, watched

VARIANTS = (  # mode, precision, and the step size to begin with, in units of 1/L
    (Certified, torch.float64, 1.0),
    (Certified, torch.float32, 1.0),
    (CertifiedCheap, torch.float64, 1.0),
    (Certified, torch.float64, 2.0),
    (Certified, torch.float64, 1e2),
    (Certified, torch.float64, 1e6),
    (CertifiedCheap, torch.float64, 1e2),
)
FLAWS = ("above_bound", "not_monotone", "not_finite", "gap_too_small")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    torch.set_num_threads(1)
    began = time.perf_counter()
    totals: dict[str, Counter[str]] = {}
    worst: dict[str, float] = {}
    for number, problem_name in enumerate(PROBLEMS):
        problem = make_problem(problem_name, options.batch, seed=number)
        target = target_of(problem)
        start = torch.randn(problem.batch, problem.n, generator=torch.Generator().manual_seed(99), dtype=torch.float64)
        for name, optimizer, shifts in everything():
            for shift in shifts:
                # the start moved by s, and the problem moved by t: solution and start both move
                moves = [(problem, start + shift, target)]
                if shift:
                    moves.append((problem.shifted(shift), start, target - shift))
                for moved, x0, goal in moves:
                    for mode, dtype, long in VARIANTS:
                        if dtype == torch.float32 and problem_name.startswith("scaled"):
                            continue  # the squares of 1e12 leave the range of float32
                        if long != 1 and shift:
                            continue
                        low = moved.to(dtype=dtype)
                        verdict = watched(low, mode(optimizer), x0.to(dtype), goal, options.steps, long)
                        small = "" if long == 1 else f", L {long:g} times too small"
                        key = f"{mode.__name__}, {str(dtype).removeprefix('torch.')}{small}"
                        add(totals.setdefault(key, Counter()), verdict)
                        worst[key] = max(worst.get(key, 0.0), verdict.ratio)
                        bad = {flaw: getattr(verdict, flaw) for flaw in FLAWS if getattr(verdict, flaw)}
                        if bad:
                            print(f"VIOLATED: {problem_name}, {name}, shift {shift:g}, {key}: {bad}", flush=True)
        runs = sum(total["runs"] for total in totals.values())
        print(f"{problem_name}: {runs} runs so far, {time.perf_counter() - began:.0f} s", flush=True)
    for key, total in totals.items():
        print(f"{key}: {dict(total)}, largest share of the bound {worst[key]:.3f}")
    path = write_record(
        "certified_bound",
        {
            "setting": {"batch": options.batch, "steps": options.steps, "problems": list(PROBLEMS)},
            "optimizers": [name for name, _, _ in everything()],
            "pretrained": sp.pretrained(),
            "instance_runs": sum(total["runs"] for total in totals.values()),
            "violations": sum(total[flaw] for total in totals.values() for flaw in FLAWS),
            "tolerance": f"{ROUNDING} units of roundoff of the precision, relative to F(x_k)",
            "by_mode": {key: dict(total) | {"largest_share_of_bound": worst[key]} for key, total in totals.items()},
            "seconds": round(time.perf_counter() - began),
        },
    )
    print(path)


def add(total: Counter[str], verdict: Verdict) -> None:
    for name in ("runs", *FLAWS, "rejected", "pull_backs"):
        total[name] += getattr(verdict, name)


if __name__ == "__main__":
    main()
