"""Seconds per iteration against the batch size: plain and compiled steps, ISTA, and the floor, in one run.

The floor is the time to read every A once, or twice, at the speed of a copy measured in the same run. Compilation and
capture are in `first`, apart.

    python benchmarks/iteration_speed.py [--device cuda] [--batches 8,32,128,512,1024,4096] [--shared] [--names ...]
"""

import argparse
import sys

import torch

from sureprox.evaluation.speed import FAST, Timing, measured
from sureprox.evaluation.speed_records import SpeedRecord
from sureprox.report.speed import markdown

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
    batches = [int(batch) for batch in options.batches.split(",")]
    names = options.names.split(",")
    how = {"shared": options.shared, "steps": options.steps, "rounds": options.rounds}
    record = SpeedRecord(**measured(device, batches, names, show, **how), where={})
    print(markdown(record))
    name = "iteration_speed" + ("_shared" if options.shared else "") + f"_{device.type}"
    command = " ".join(["python benchmarks/iteration_speed.py", *sys.argv[1:]])
    print(write_record(name, {"command": command, **record.as_dict()}))


if __name__ == "__main__":
    main()
