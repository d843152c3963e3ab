"""Python frames per iteration of `sureprox.solve` on a CPU: frames.py [--iterations 40]

LASSO problems, Sure certified and restarted FISTA alone, by kernels and by plain PyTorch. The frames of two solves that
differ in the number of iterations alone are subtracted, so that what happens once does not count.
"""

import argparse
import sys
from typing import Any

import torch

import sureprox as sp

CASES = {"sure/lasso, certified": ("sure/lasso", True), "restarted FISTA, alone": (None, False)}


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
    return (many - few) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=40)
    steps = parser.parse_args().iterations
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(4, 50, 100, generator=generator) / 50**0.5
    b = torch.randn(4, 50, generator=generator)
    problem = sp.lasso(A, b, 0.1 * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2)))
    ways: dict[str, dict[str, Any]] = {"kernels": {"engine": "kernels"}, "plain": {"engine": "plain"}}
    if not hasattr(sp, "prepare"):  # before there were engines
        ways = {"as it was": {}}
    for name, (method, certify) in CASES.items():
        for way, options in ways.items():
            optimizer = method or sp.optimizers.FISTA(restart=True)
            found = per_iteration(problem, optimizer, steps, certify=certify, **options)
            print(f"{name}, {way}: {found:.1f} frames per iteration")


if __name__ == "__main__":
    main()
