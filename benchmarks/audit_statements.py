"""Every statement of the theory on thousands of random pairs of runs: counts and worst slacks.

Affine and nonlinear networks, quadratic and logistic f', l1 with shifts, r = 0 and histories of both kinds. A slack is
(right side - left side) / scale; below -1e-9 is a violation.

    python benchmarks/audit_statements.py [--count 40] [--seed 0]
"""

import argparse
import math
import time

import torch

from sureprox.audit.result import TOLERANCE
from sureprox.audit.statements import STATEMENTS, Verdict
from sureprox.audit.trials import grid, try_all

from _record import write_record

ENOUGH = 1000  # runs of every statement that speaks about runs


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=40, help="random pairs of runs of each kind")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    start = time.perf_counter()
    kinds = list(grid(sizes=(1, 2, 4), steps=(1, 3, 8)))
    tallies = try_all(options.count, torch.Generator().manual_seed(options.seed), iter(kinds))
    rows = {}
    print(f"{'statement':17} {'verdict':8} {'runs':>7} {'printed':>10} {'corrected':>10} {'free':>10}  as expected")
    for statement in STATEMENTS:
        tally = tallies[statement.name]
        holds = tally.worst_of("printed") >= -TOLERANCE
        right = holds == (statement.verdict is Verdict.HOLDS)
        right &= not any(tally.worst_of(side) < -TOLERANCE for side in ("corrected", "free"))
        right &= statement.check is None or tally.runs >= ENOUGH
        worst = {
            side: None if math.isnan(value) else value
            for side, value in zip(("printed", "corrected", "assumption-free"), tally.worst, strict=True)
        }
        rows[statement.name] = {
            "verdict": statement.verdict.value,
            "runs": tally.runs,
            "inequalities": tally.counts,
            "worst_slack": worst,
            "as_expected": right,
        }
        shown = " ".join(f"{value:10.1e}" for value in tally.worst)
        print(f"{statement.name:17} {statement.verdict.value:8} {tally.runs:7,} {shown}  {'yes' if right else 'NO'}")
    seconds = round(time.perf_counter() - start, 1)
    every = all(row["as_expected"] for row in rows.values())
    print(f"{len(kinds)} kinds, {seconds} s, {'everything as expected' if every else 'SOMETHING IS NOT AS EXPECTED'}")
    settings = {"count": options.count, "seed": options.seed, "kinds": len(kinds), "tolerance": TOLERANCE}
    print(write_record("audit_statements", {**settings, "seconds": seconds, "statements": rows}))
    raise SystemExit(0 if every else 1)


if __name__ == "__main__":
    main()
