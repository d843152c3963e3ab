"""One dictionary for a thousand instances, kept once (m, n) or copied for each instance (B, m, n).

Times one ISTA iteration of both, and of the same written by hand with `torch.bmm` on the copies ("by hand"),
alternating, in one run on one thread; the memory of the first two is the bytes of the tensors reachable from the
problem, and the growth of the peak resident set in a fresh process that builds the problem and takes ten steps.

The copies of this package are twice as fast as those by hand: on a CPU it computes A x as x' A', for which the library
is faster. The requirement is against the copies by hand.
"""

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import sureprox as sp

from _record import write_record

BATCH, M, N = 1000, 64, 128
LAM = 0.1
STEPS, ROUNDS, WARM_UP = 20, 15, 5
LIMIT = 10.0  # how many times faster than copies by hand the shared dictionary must be
VARIANTS = ("shared", "expanded")


def data() -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(M, N, generator=generator)
    A = A / torch.linalg.vector_norm(A, dim=0)
    return A, torch.randn(BATCH, M, generator=generator)


def build(variant: str, A: Tensor, b: Tensor) -> sp.Problem:
    return sp.lasso(A if variant == "shared" else A.expand(BATCH, M, N).clone(), b, LAM)


def stepper(problem: sp.Problem) -> Callable[[int], Tensor]:
    """A function that takes that many ISTA steps from the same state and returns the last point."""
    optimizer = sp.optimizers.ISTA()
    start = optimizer.init(problem, problem.start())

    def run(steps: int) -> Tensor:
        *_, state = sp.iterate(problem, optimizer, start, steps)
        return state.x

    return run


def by_hand(problem: sp.Problem) -> Callable[[int], Tensor]:
    """The same steps as anyone would write them."""
    A, b = problem.f.A, problem.f.b  # type: ignore[attr-defined]
    start, step = problem.start(), problem.step_size().unsqueeze(1)

    def run(steps: int) -> Tensor:
        x = start
        for _ in range(steps):
            residual = torch.bmm(A, x.unsqueeze(2)) - b.unsqueeze(2)
            v = x - step * torch.bmm(A.mT, residual).squeeze(2)
            x = torch.sign(v) * torch.relu(v.abs() - LAM * step)
        return x

    return run


def tensor_bytes(problem: sp.Problem) -> int:
    """Bytes of the distinct storages behind the tensors of f and r."""
    tensors = [v for part in (problem.f, problem.r) for v in vars(part).values() if isinstance(v, Tensor)]
    storages = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors}
    return sum(storages.values())


def peak_growth(variant: str) -> int:
    """Bytes by which the peak resident set of this process grows over what is resident before."""
    torch.set_num_threads(1)
    A, b = data()
    stepper(sp.lasso(A, b[:2], LAM))(2)  # libraries loaded and initialised before the measurement begins
    Path("/proc/self/clear_refs").write_text("5")  # set the peak back to what is resident now
    before = peak_resident()
    stepper(build(variant, A, b))(10)
    return peak_resident() - before


def peak_resident() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line.split()[1] for line in status.splitlines() if line.startswith("VmHWM")))


def peak_growth_in_fresh_process(variant: str) -> int | None:
    if not Path("/proc/self/clear_refs").exists():
        return None  # only Linux can set the peak back
    command = [sys.executable, __file__, "--peak", variant]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


@torch.no_grad()
def main() -> None:
    torch.set_num_threads(1)
    A, b = data()
    problems = {variant: build(variant, A, b) for variant in VARIANTS}
    runs = {variant: stepper(problem) for variant, problem in problems.items()}
    runs["by hand"] = by_hand(problems["expanded"])
    points = [run(STEPS) for run in runs.values()]
    for other in points[1:]:
        torch.testing.assert_close(other, points[0])  # the same iterates, so that the times compare the same thing
    for run in runs.values():
        run(WARM_UP)
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(ROUNDS):
        for variant in runs:
            start = time.perf_counter()
            runs[variant](STEPS)
            best[variant] = min(best[variant], (time.perf_counter() - start) / STEPS)
    ratio, own = best["by hand"] / best["shared"], best["expanded"] / best["shared"]
    held = {variant: tensor_bytes(problem) for variant, problem in problems.items()}
    peak = {variant: peak_growth_in_fresh_process(variant) for variant in VARIANTS}
    path = write_record(
        "shared_matrix",
        {
            "setting": {"batch": BATCH, "m": M, "n": N, "dtype": "float32", "threads": 1, "optimizer": "ISTA"},
            "protocol": f"best of {ROUNDS} rounds of {STEPS} iterations each, variants alternating, after warm-up",
            "milliseconds_per_iteration": {name: round(1e3 * value, 4) for name, value in best.items()},
            "times_faster": round(own, 2),
            "times_faster_than_by_hand": round(ratio, 2),
            "required_times_faster_than_by_hand": LIMIT,
            "problem_tensor_bytes": held,
            "peak_resident_growth_bytes": peak,
        },
    )
    print(f"ISTA on {BATCH} instances of {M} x {N}, float32, one thread")
    for variant in VARIANTS:
        print(
            f"{variant:>9}: {1e3 * best[variant]:7.3f} ms per iteration, {held[variant] / 1e6:6.2f} MB in the problem, "
            f"peak memory grows by {'?' if peak[variant] is None else f'{peak[variant] / 1e6:.2f} MB'}"
        )
    print(f"  by hand: {1e3 * best['by hand']:7.3f} ms per iteration")
    print(f"shared is {own:.1f} times faster than copies, {ratio:.1f} times than by hand (required: {LIMIT:.0f})")
    print(f"record: {path.relative_to(path.parents[2])}")
    if ratio < LIMIT:
        sys.exit("the shared dictionary is not fast enough")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--peak"]:
        print(peak_growth(sys.argv[2]))
    else:
        main()
