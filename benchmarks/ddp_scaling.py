"""Seconds of a training batch with one process and with two, one thread each, and whether both train the same weights.

Strong scaling: the same batch of problems, divided. Weak scaling: twice the batch. Rounds take turns, and the fastest
batch counts, since other work on the machine only ever adds time; CPU seconds of a process, which leave out both that
and the waiting for each other, are given too. So is what the cost model of docs/scale.md predicts from its parts, each
measured alone.

    python benchmarks/ddp_scaling.py
"""

import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

ROUNDS = 3
BATCH = 32
RUNS = {"one": (1, BATCH), "half": (1, BATCH // 2), "two": (2, BATCH), "two_weak": (2, 2 * BATCH)}
COUNTED = 20  # batches of a round
REPEATS = 200  # exchanges in a row


def main() -> None:
    load = os.getloadavg()[0]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in RUNS}
    for round_ in range(ROUNDS):
        for name, (processes, batch) in RUNS.items():
            found[name].append(launch(processes, batch))
            print(f"round {round_}, {name}: fastest batch {min(found[name][-1]['batches']):.4f} s", flush=True)
    best = {name: min(min(run["batches"]) for run in runs) for name, runs in found.items()}
    median = {name: statistics.median(t for run in runs for t in run["batches"]) for name, runs in found.items()}
    busy = {name: min(min(run["busy"]) for run in runs) for name, runs in found.items()}
    draw = {name: min(run["draw"] for run in found[name]) for name in ("half", "two")}
    exchange = min(run["exchange"] for run in found["two"])
    segments = found["one"][0]["segments"]
    message = found["two"][0]["message_bytes"]
    extra = draw["two"] - draw["half"] + segments * exchange  # everybody draws the whole batch, and they must agree
    weights = found["one"][0]["weights"], found["two"][0]["weights"]
    numbers = {
        "problems": found["one"][0]["problems"],
        "threads_per_process": 1,
        "note": "fastest of all batches of all rounds, medians beside them",
        "load_average_before": load,  # above the number of cores, wall-clock times are those of a queue
        "batch": BATCH,
        "segments_per_batch": segments,
        "weights": found["one"][0]["count"],
        "message_bytes": message,
        "fastest_seconds_per_batch": best,
        "median_seconds_per_batch": median,
        "fastest_cpu_seconds_per_batch_and_process": busy,
        "draw_seconds": draw,
        "exchange_seconds": exchange,
        "strong_efficiency": best["one"] / (2 * best["two"]),
        "weak_efficiency": best["one"] / best["two_weak"],
        "strong_efficiency_by_cpu_time": busy["one"] / (2 * busy["two"]),
        "weak_efficiency_by_cpu_time": busy["one"] / busy["two_weak"],
        "predicted_cpu_seconds_of_two": busy["half"] + extra,
        "predicted_strong_efficiency": busy["one"] / (2 * (busy["half"] + extra)),
        "weights_compared_after_batch": [found[name][0]["best_batch"] for name in ("one", "two")],
        "largest_difference_of_weights": max(abs(a - b) for a, b in zip(*weights, strict=True)),
    }
    from _record import write_record

    print(json.dumps(numbers, indent=2))
    print(write_record("ddp_scaling", numbers))


def launch(processes: int, batch: int) -> dict[str, Any]:
    """One run by torchrun; what its first process has measured."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "times.json"
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        subprocess.run([*torchrun, __file__, str(batch), str(out)], env=environment, check=True)
        content: dict[str, Any] = json.loads(out.read_text())
        return content


def work(batch: int, out: Path) -> None:
    """What every process does; the first one writes."""
    import torch

    from sureprox.training import preset, train
    from sureprox.training.share import Share
    from sureprox.training.team import join

    torch.set_num_threads(1)
    torch.manual_seed(0)
    recipe = preset("tiny")
    family = replace(recipe.family, m=100, n=200, nonzeros=20)  # type: ignore[type-var]
    config = replace(
        recipe.training, batch=batch, batches=COUNTED, epochs=1, segment=5, length=10,
        validate_every=10 * COUNTED, validation=2,
    )  # fmt: skip
    optimizer = recipe.build()
    moments: list[tuple[float, float]] = []

    def tell(event: dict[str, Any]) -> None:
        if event["event"] in ("validation", "batch"):
            moments.append((time.perf_counter(), time.process_time()))

    result = train(optimizer, family, config, device="cpu", backend="plain", listeners=[tell])
    team = join(torch.device("cpu"))
    share = Share(team, "batch", batch)
    generator = torch.Generator().manual_seed(0)

    def draw() -> None:
        problem = family.sample(batch, generator)
        x0 = family.start(batch, generator)
        mine = share.part(problem)
        begun = torch.ones(mine.batch)
        share.begin(optimizer, problem, mine, x0, begun, generator=generator)  # without L, which is divided

    def fastest(job: Any, repeats: int) -> float:
        times = []
        for _ in range(repeats):
            team.any(False)
            began = time.perf_counter()
            job()
            times.append(time.perf_counter() - began)
        return min(times)

    means = [*optimizer.parameters(), torch.zeros(()), torch.zeros(())]
    drawing, exchanging = fastest(draw, 10), fastest(lambda: share.mean(*means), REPEATS)
    if team.leads:
        measured = {
            "problems": f"lasso {family.m} x {family.n}",
            "batches": [b - a for a, b in itertools.pairwise(moment for moment, _ in moments)][1:COUNTED],
            "busy": [b - a for a, b in itertools.pairwise(busy for _, busy in moments)][1:COUNTED],
            "best_batch": result.best_batch,
            "segments": config.length // config.segment,
            "count": sum(value.numel() for value in optimizer.parameters()),
            "message_bytes": 8 * sum(value.numel() for value in means),
            "draw": drawing,
            "exchange": exchanging,
            "weights": torch.cat([value.detach().reshape(-1) for value in optimizer.parameters()]).tolist(),
        }
        out.write_text(json.dumps(measured))


if __name__ == "__main__":
    if len(sys.argv) == 3:
        work(int(sys.argv[1]), Path(sys.argv[2]))
    else:
        main()
