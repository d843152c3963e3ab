"""Python frames per iteration of `sureprox.solve` on a CPU, now and before: frames.py [--iterations 40] [--before SRC]

LASSO problems, Sure and FISTA certified, FISTA and restarted FISTA alone, by kernels and by plain PyTorch. The frames
of two solves that differ in the number of iterations alone are subtracted, so that what happens once does not count.
SRC: `src` of a checkout of 75908fd, the last version before forms and plans, on which the same is counted.
"""

import argparse
import json
import os
import subprocess
import sys
from typing import Any

import torch

import sureprox as sp

from _record import write_record

CASES = {
    "sure/lasso, certified": ("sure/lasso", True),
    "FISTA, certified": ("fista", True),
    "FISTA, alone": ("fista", False),
    "restarted FISTA, alone": ("fista-restart", False),
}
BEFORE = "75908fd"


def frames(problem: Any, optimizer: Any, **options: Any) -> int:
    """Calls of Python functions in a solve."""
    count = 0

    def seen(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(seen)
    try:
        sp.solve(problem, optimizer, tol=1e-30, polish=False, **options)
    finally:
        sys.setprofile(None)
    return count


def per_iteration(problem: Any, optimizer: Any, steps: int, **options: Any) -> float:
    sp.solve(problem, optimizer, max_iter=2, tol=1e-30, polish=False, **options)  # what is made once is made now
    few, many = (frames(problem, optimizer, max_iter=count, **options) for count in (steps, 2 * steps))
    return round((many - few) / steps, 1)


def counted(steps: int) -> dict[str, dict[str, float]]:
    """Frames of each case, by engine; "as it was" where sureprox knows no engines yet."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(4, 50, 100, generator=generator) / 50**0.5
    b = torch.randn(4, 50, generator=generator)
    problem = sp.lasso(A, b, 0.1 * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2)))
    ways: dict[str, dict[str, Any]] = {"kernels": {"engine": "kernels"}, "plain": {"engine": "plain"}}
    if not hasattr(sp, "prepare"):  # before there were engines
        ways = {"as it was": {}}
    found: dict[str, dict[str, float]] = {}
    for name, (method, certify) in CASES.items():
        optimizer: Any = sp.optimizers.FISTA("restart" in method) if "fista" in method else method
        rows = {way: per_iteration(problem, optimizer, steps, certify=certify, **ways[way]) for way in ways}
        found[name] = rows
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--before", metavar="SRC")
    parser.add_argument("--print-only", action="store_true", help="one line of JSON, and no record")
    given = parser.parse_args()
    now = counted(given.iterations)
    if given.print_only:
        print(json.dumps(now))
        return
    record: dict[str, Any] = {"iterations": given.iterations, "frames_per_iteration": now}
    if given.before:
        command = [sys.executable, __file__, "--print-only", "--iterations", str(given.iterations)]
        environment = os.environ | {"PYTHONPATH": given.before}
        said = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
        record |= {"before": {"commit": BEFORE, "frames_per_iteration": json.loads(said)}}
        for name, rows in record["before"]["frames_per_iteration"].items():
            for way, frames_now in now[name].items():
                ratio = frames_now / rows["as it was"]
                print(f"{name}, {way}: {frames_now} frames per iteration, {ratio:.2f} times as many as before")
    print(f"written to {write_record('frames', record)}")


if __name__ == "__main__":
    main()
