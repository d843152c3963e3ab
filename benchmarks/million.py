"""A million LASSO problems with one dictionary through `solve_many`, killed twice.

Problems of 64 x 128, A normal with unit columns and shared by all, b = A x_true, x_true normal on a tenth of its
coordinates, lam = 0.1. Shard i is made from seed i where it is solved, so that nothing but its number is sent.

The run is a process of its own with a local Dask cluster, one worker on each core. It is killed with SIGKILL when a
third of the shards are there, started again, killed again at two thirds, and started once more. Then every problem is
made again and compared with its result: F and the duality gap of the x in the file, in float64, and the status. A lost,
doubled or exchanged result would show there. Shards written before a kill must be the same files afterwards.

Memory is the sum of the resident sets of the process and its workers, sampled while they run. The rate is that of the
three runs together, starts of processes included. The plain loop, `sp.solve` on one chunk after the other in this
process with one thread and with two, nothing written, is timed before and after on chunks of the same size; one problem
at a time is timed on a few.
"""

import argparse
import functools
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

import torch

import sureprox as sp

from _killed import killed, verified
from _record import write_record

M, N, LAM, SHARE = 64, 128, 0.1, 0.1
OPTIONS = {"max_iter": 2000, "certify": False}  # certify=False: each result has its duality gap all the same
LOOPED, SINGLE = 4, 100  # chunks of the plain loop, each time; problems solved one at a time


def problems(seed: int, count: int) -> sp.Problem:
    """Shard `seed`: `count` problems with the dictionary of all."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(M, N, generator=generator)
    A = A / torch.linalg.vector_norm(A, dim=0)
    generator.manual_seed(seed + 1)
    values = torch.randn(count, N, generator=generator)
    chosen = torch.rand(count, N, generator=generator) < SHARE
    return sp.lasso(A, (values * chosen) @ A.T, LAM)


def source(count: int, shard: int) -> list[functools.partial[sp.Problem]]:
    sizes = [min(shard, count - start) for start in range(0, count, shard)]
    return [functools.partial(problems, seed, size) for seed, size in enumerate(sizes)]


def optimizer() -> sp.optimizers.FISTA:
    return sp.optimizers.FISTA(restart=True)


def run(out: str, count: int, shard: int, tol: float) -> None:
    """What is killed."""
    sp.solve_many(source(count, shard), optimizer(), out=out, cluster="local", tol=tol, **OPTIONS)


def plain_loop(shard: int, tol: float) -> dict[str, float]:
    """Problems per second of `sp.solve` on one chunk after the other, by the number of threads."""
    rates = {}
    for threads in (1, 2):
        torch.set_num_threads(threads)
        began = time.perf_counter()
        for seed in range(LOOPED):
            sp.solve(problems(seed, shard), optimizer(), tol=tol, **OPTIONS)
        rates[f"{threads} thread{'s' * (threads > 1)}"] = LOOPED * shard / (time.perf_counter() - began)
    return rates


def one_at_a_time(tol: float) -> float:
    torch.set_num_threads(1)
    problem = problems(0, SINGLE)
    began = time.perf_counter()
    for index in range(SINGLE):
        sp.solve(problem.select(torch.tensor([index])), optimizer(), tol=tol, **OPTIONS)
    return SINGLE / (time.perf_counter() - began)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--shard", type=int, default=4096)
    parser.add_argument("--tol", type=float, default=1e-4)
    parser.add_argument("--run", metavar="DIR", help="only solve, into DIR: what this benchmark starts and kills")
    chosen = parser.parse_args()
    if chosen.run:
        run(chosen.run, chosen.count, chosen.shard, chosen.tol)
        return
    shards = -(-chosen.count // chosen.shard)
    one = one_at_a_time(chosen.tol)
    loops = [plain_loop(chosen.shard, chosen.tol)]
    load_before = os.getloadavg()
    scratch = Path(tempfile.mkdtemp(prefix="million-"))
    try:
        out = scratch / "out"
        arguments = ["--count", str(chosen.count), "--shard", str(chosen.shard), "--tol", str(chosen.tol)]
        runs = killed(out, [__file__, "--run", str(out), *arguments], shards, (1 / 3, 2 / 3))
        checked = verified(out, source(chosen.count, chosen.shard), chosen.tol)
    finally:
        shutil.rmtree(scratch)
    loops.append(plain_loop(chosen.shard, chosen.tol))
    mean = {name: sum(loop[name] for loop in loops) / len(loops) for name in loops[0]}
    rate = chosen.count / sum(runs["seconds"])  # type: ignore[arg-type]
    path = write_record(
        "million",
        {
            "setting": {
                "problems": chosen.count,
                "m": M,
                "n": N,
                "A": "shared",
                "dtype": "float32",
                "optimizer": "FISTA(restart=True)",
                "tol": chosen.tol,
                "shard": chosen.shard,
                "cluster": "local, one process of one thread on each core",
                **OPTIONS,
            },
            "killed": runs,
            "verified": checked,
            "problems_per_second": {
                "solve_many, both kills included": round(rate),
                "plain loop over chunks, before and after": [
                    {name: round(value) for name, value in loop.items()} for loop in loops
                ],
                "plain loop, one problem at a time": round(one, 1),
            },
            "times_plain_loop": {name: round(rate / value, 2) for name, value in mean.items()},
            "times_one_at_a_time": round(rate / one, 1),
            "load_average_at_start": [round(value, 1) for value in load_before],
        },
    )
    print(f"{checked['problems']:,} problems, {checked['not_solved']} not solved, {rate:.0f} a second;", end=" ")
    print(f"plain loop {', '.join(f'{value:.0f} ({name})' for name, value in mean.items())}, one at a time {one:.1f}")
    print(f"record: {path.relative_to(path.parents[2])}")
    if checked["problems"] != chosen.count or checked["not_solved"] or checked["scratch_files_left"]:
        sys.exit("not every problem was solved and written exactly once")


if __name__ == "__main__":
    main()
