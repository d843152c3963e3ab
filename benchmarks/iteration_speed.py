"""Seconds per iteration against the batch size: plain and compiled steps, ISTA, and the floor, in one run.

The floor is the time to read every A once, or twice, at the speed of a copy measured in the same run. Compilation and
capture are in `first`, apart.

    python benchmarks/iteration_speed.py [--device cuda] [--batches 8,32,128,512,1024,4096] [--shared] [--names ...]
"""

import argparse
import sys
from dataclasses import asdict

import torch

from sureprox.evaluation.speed import FAST, Timing, copy_bandwidth, iteration_times
from sureprox.problems import LassoFamily

from _record import write_record


def show(timing: Timing) -> None:
    print(
        f"{timing.batch:6d} {timing.name:22s} {timing.mode:9s} {1e3 * timing.best:9.4f} ms, median "
        f"{1e3 * timing.median:9.4f}, first step {timing.first:6.2f} s",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds per iteration against the batch size.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batches", default="8,32,128,512,1024,4096")
    parser.add_argument("--names", default=",".join(FAST))
    parser.add_argument("--shared", action="store_true", help="one 64 x 128 matrix for the whole batch")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(2)
    family = LassoFamily(m=64, n=128, nonzeros=13) if options.shared else LassoFamily()
    batches = [int(batch) for batch in options.batches.split(",")]
    bandwidth = copy_bandwidth(device)
    timings = iteration_times(
        device,
        batches,
        options.names.split(","),
        show,
        family=family,
        shared=options.shared,
        steps=options.steps,
        rounds=options.rounds,
    )
    size = 4 * family.m * family.n
    read = {str(batch): (1 if options.shared else batch) * size / bandwidth for batch in batches}
    path = write_record(
        "iteration_speed" + ("_shared" if options.shared else "") + f"_{device.type}",
        {
            "command": "python benchmarks/iteration_speed.py " + " ".join(sys.argv[1:]),
            "setting": {"m": family.m, "n": family.n, "dtype": "float32", "shared_matrix": options.shared},
            "protocol": f"best and median of {options.rounds} rounds of {options.steps} iterations",
            "copy_bytes_per_second": bandwidth,
            "seconds_to_read_all_matrices_once": read,
            "timings": [asdict(timing) for timing in timings],
        },
    )
    print(path)


if __name__ == "__main__":
    main()
