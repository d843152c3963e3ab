"""Mixed solve load for an hour on two cores: memory stays flat, and a fixed problem keeps its answer, bit by bit.

Two processes draw problems one after the other (LASSO and logistic; A shared or one each; float32 and float64; learned
and classical optimizers; certified, cheaply certified and alone; random sizes) and solve them. In between each solves
the same few probe problems again and compares the answers with its first ones, and notes how much memory it holds, how
many Python objects and tensors are alive, and how full the caches of `solve` are. Judged are the samples after warm-up.

    python benchmarks/endurance.py [--minutes 60] [--processes 2]
"""

import argparse
import gc
import hashlib
import multiprocessing
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch

import sureprox as sp
from sureprox.optimizers import FISTA, ISTA
from sureprox.problems import Problem
from sureprox.solve import plan as plans

from _record import write_record

ENTRIES = 200_000  # of all matrices of a job
WARM_UP = 0.25  # part of the run before memory is judged
FLAT = 0.05  # memory may differ so much, relative, between the first and the last third after warm-up
LEARNED = {"lasso": ["sure/lasso", "sure/lasso-light", "go-math-l2o/lasso"], "logistic": ["sure/logistic"]}
CLASSICAL: list[Callable[[], Any]] = [ISTA, FISTA, lambda: FISTA(restart=True)]
SAMPLE_EVERY = 20.0  # seconds

Sample = dict[str, Any]


def draw(chance: random.Random) -> tuple[Problem, dict[str, Any], str]:
    """A problem, how to solve it, and of which kind this is."""
    kind = chance.choice(["lasso", "logistic"])
    m, n = chance.randrange(5, 120), chance.randrange(5, 240)
    shared = chance.random() < 0.5
    batch = chance.randrange(1, max(2, min(64, ENTRIES // (m * n))))
    dtype = chance.choice([torch.float32, torch.float64])
    problem = build(kind, batch, m, n, shared, dtype, chance.randrange(2**31), chance.uniform(0.02, 0.9))
    learned = chance.random() < 0.5
    certify = chance.choice([True, "audit", "cheap", False])
    optimizer = chance.choice(LEARNED[kind]) if learned else chance.choice(CLASSICAL)()
    options = {"optimizer": optimizer, "certify": certify, "max_iter": chance.choice([20, 60, 150])}
    options["tol"] = chance.choice([1e-3, 1e-6])
    words = (kind, "shared A" if shared else "own A", str(dtype).removeprefix("torch."))
    return problem, options, ", ".join((*words, "learned" if learned else "classical", f"certify={certify}"))


def build(kind: str, batch: int, m: int, n: int, shared: bool, dtype: torch.dtype, seed: int, ratio: float) -> Problem:
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(*((m, n) if shared else (batch, m, n)), generator=g, dtype=torch.float64).to(dtype)
    target = torch.randn(batch, m, generator=g, dtype=torch.float64).to(dtype)
    make = sp.lasso if kind == "lasso" else sp.logistic
    if kind == "logistic":
        target = (target > 0).to(dtype)
    return make(A, target, ratio * make(A, target, 0.0).scale()[1])


def probe() -> str:
    """Fingerprint of the answers, certificates and iteration counts of a few fixed problems."""
    digest = hashlib.sha256()
    for kind in ("lasso", "logistic"):
        for dtype in (torch.float32, torch.float64):
            problem = build(kind, 3, 12, 24, kind == "lasso", dtype, 7, 0.1)
            for optimizer, certify in (("sure/" + kind, True), ("sure/" + kind, "cheap"), (FISTA(restart=True), False)):
                found = sp.solve(problem, optimizer, max_iter=30, certify=certify)
                for value in (found.x, found.objective, found.gap, found.iterations):
                    digest.update(value.numpy().tobytes())
    return digest.hexdigest()


def memory() -> int:
    """Resident bytes of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def sample(began: float, answers: str) -> Sample:
    gc.collect()
    objects = gc.get_objects()
    module = sys.modules["sureprox.solve.solve"]
    return {
        "seconds": time.monotonic() - began,
        "bytes": memory(),
        "objects": len(objects),
        "tensors": sum(issubclass(type(item), torch.Tensor) for item in objects),
        "loaded": module._loaded.cache_info().currsize,
        "idle": len(plans._idle),
        "answers": answers,
    }


def job(chance: random.Random) -> tuple[str, list[str]]:
    """Solve a random problem; nothing of it is alive afterwards. Its kind, and the status of each instance."""
    problem, options, kind = draw(chance)
    return kind, [str(status) for status in sp.solve(problem, **options).status]


def work(number: int, minutes: float, out: Connection) -> None:
    """One process: solve, sample, and send what was seen at the end."""
    torch.set_num_threads(1)
    chance = random.Random(number)
    began = time.monotonic()
    samples, jobs, statuses = [], Counter[str](), Counter[str]()
    due = 0.0
    while (now := time.monotonic() - began) < 60 * minutes:
        if now >= due:
            samples.append(sample(began, probe()))
            due = now + SAMPLE_EVERY
        kind, found = job(chance)
        jobs[kind] += 1
        statuses.update(found)
    samples.append(sample(began, probe()))
    out.send({"samples": samples, "jobs": jobs, "statuses": statuses})


def judged(samples: list[Sample]) -> dict[str, Any]:
    """How memory and objects changed after warm-up, and whether any answer did at any time."""
    last = samples[-1]["seconds"]
    late = [row for row in samples if row["seconds"] >= WARM_UP * last]
    third = max(len(late) // 3, 1)
    found: dict[str, Any] = {"samples": len(samples), "samples_after_warm_up": len(late)}
    for name in ("bytes", "objects", "tensors"):
        first, final = (statistics.median(row[name] for row in part) for part in (late[:third], late[-third:]))
        times, values = [row["seconds"] / 3600 for row in late], [row[name] for row in late]
        slope = statistics.linear_regression(times, values).slope if len(late) > 2 else 0.0
        found[name] = {
            "first_third": first, "last_third": final, "most": max(row[name] for row in samples),
            "change": final / first - 1, "slope_per_hour": slope,
        }  # fmt: skip
    found["caches"] = {name: sorted({row[name] for row in late}) for name in ("loaded", "idle")}
    found["answers"] = {
        "compared": len(samples),
        "different": sum(row["answers"] != samples[0]["answers"] for row in samples),
    }
    found["flat"] = all(found[name]["change"] <= FLAT for name in ("bytes", "objects", "tensors"))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Mixed solve load: memory flat, no drift in answers.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    context = multiprocessing.get_context("spawn")
    pipes = []
    for number in range(options.processes):
        receive, send = context.Pipe(duplex=False)
        process = context.Process(target=work, args=(number, options.minutes, send), daemon=True)
        process.start()
        send.close()
        pipes.append((receive, process))
    end, results = time.monotonic() + 60 * (options.minutes + 30), []
    for receive, process in pipes:
        if not receive.poll(max(end - time.monotonic(), 0)):
            sys.exit(f"process {process.pid} has not come to its end half an hour after its time")
        results.append(receive.recv())
        process.join(60)
    verdicts = [judged(result["samples"]) for result in results]
    first = {result["samples"][0]["answers"] for result in results}
    jobs, statuses = (sum((result[name] for result in results), Counter()) for name in ("jobs", "statuses"))
    good = len(first) == 1 and all(row["flat"] and not row["answers"]["different"] for row in verdicts)
    numbers = {
        "command": f"python benchmarks/endurance.py --minutes {options.minutes:g} --processes {options.processes}",
        "minutes": options.minutes,
        "jobs": sum(jobs.values()),
        "problems": sum(statuses.values()),
        "kinds_of_jobs": dict(sorted(jobs.items())),
        "statuses": dict(sorted(statuses.items())),
        "processes": verdicts,
        "same_answers_in_all_processes": len(first) == 1,
        "flat_and_without_drift": good,
    }
    for number, row in enumerate(verdicts):
        print(
            f"process {number}: {row['bytes']['first_third'] / 2**20:.0f} -> {row['bytes']['last_third'] / 2**20:.0f} "
            f"MiB ({row['bytes']['change']:+.2%}), objects {row['objects']['change']:+.2%}, "
            f"{row['answers']['different']} of {row['answers']['compared']} answers differ"
        )
    print(f"{numbers['jobs']} jobs, {numbers['problems']} problems in {options.minutes:g} minutes")
    print(write_record("endurance", numbers))
    if not good:
        raise SystemExit("memory is not flat or an answer drifted; see the record")


if __name__ == "__main__":
    main()
