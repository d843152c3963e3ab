"""Sparse unmixing of a stream of pixels by `solve_many` in flat memory, killed once, each pixel once.

python benchmarks/unmixing_stream.py [--count 1000000] [--shard 4096]

Pixels of two to five spectra, one library of 200 x 500 (`_scenes.py`). Shard i is made from seed i where it is solved.
The run is a process of its own with a local Dask cluster, one worker on each core. It is killed with SIGKILL when half
of the shards are there and started again. Then every pixel is made again and compared with its result: F and the
duality gap of the x in the file, in float64, and the status; shards written before the kill must be the same files.
"""

import argparse
import functools
import shutil
import sys
import tempfile
from pathlib import Path

import torch

import sureprox as sp

from _killed import killed, verified
from _record import write_record
from _scenes import mixed_pixels, smooth_library

LAM, TOL = 1e-3, 1e-6
KILLED_AT = (0.5,)


def pixels(seed: int, count: int) -> sp.Problem:
    """Shard `seed`: so many pixels, with the library of all."""
    A = library()
    return sp.nonnegative(A, mixed_pixels(A.numpy(), count, seed=seed + 1), l1=LAM)


@functools.cache
def library() -> torch.Tensor:
    return torch.from_numpy(smooth_library())


def source(count: int, shard: int) -> list[functools.partial[sp.Problem]]:
    sizes = [min(shard, count - start) for start in range(0, count, shard)]
    return [functools.partial(pixels, seed, size) for seed, size in enumerate(sizes)]


def stream(count: int, shard: int) -> dict[str, object]:
    """What was measured, of a run in a directory of its own."""
    scratch = Path(tempfile.mkdtemp(prefix="unmixing-"))
    try:
        out = scratch / "out"
        pieces = source(count, shard)
        command = [__file__, "--run", str(out), "--count", str(count), "--shard", str(shard)]
        runs = killed(out, command, len(pieces), KILLED_AT)
        checked = verified(out, pieces, TOL)
    finally:
        shutil.rmtree(scratch)
    seconds: list[float] = runs["seconds"]  # type: ignore[assignment]
    return {"killed": runs, "verified": checked, "pixels_per_second": round(count / sum(seconds))}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--shard", type=int, default=4096)
    parser.add_argument("--run", metavar="DIR", help="only solve, into DIR: what this benchmark starts and kills")
    chosen = parser.parse_args()
    if chosen.run:
        sp.solve_many(source(chosen.count, chosen.shard), out=chosen.run, cluster="local", tol=TOL)
        return
    measured = stream(chosen.count, chosen.shard)
    setting = {"pixels": chosen.count, "bands": 200, "spectra": 500, "lam": LAM, "tol": TOL, "shard": chosen.shard}
    setting |= {"dtype": "float64", "cluster": "local, one process of one thread on each core"}
    write_record("unmixing_stream", {"setting": setting, **measured})
    print(measured)
    checked: dict[str, object] = measured["verified"]  # type: ignore[assignment]
    if checked["problems"] != chosen.count or checked["not_solved"] or checked["scratch_files_left"]:
        sys.exit("not every pixel was solved and written exactly once")


if __name__ == "__main__":
    main()
