"""Seconds of a training batch with one process and with two, one thread each, and whether both train the same weights.

Strong scaling: the same batch of problems, divided. Weak scaling: twice the batch. Rounds take turns, and the fastest
batch counts, since other work on the machine only ever adds time. Beside the measured times stands what the cost model
of docs/scale.md predicts from its parts, each measured alone.

    python benchmarks/ddp_scaling.py
"""

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

ROUNDS = 4
BATCH = 32
COUNTED = 12  # batches of a round
REPEATS = 200  # exchanges in a row


def main() -> None:
    found: dict[str, list[dict[str, Any]]] = {"one": [], "two": [], "two_weak": []}
    for round_ in range(ROUNDS):
        for name, processes, batch in (("one", 1, BATCH), ("two", 2, BATCH), ("two_weak", 2, 2 * BATCH)):
            found[name].append(launch(processes, batch))
            best = min(found[name][-1]["batches"])
            print(f"round {round_}, {name}: fastest batch {best:.4f} s", flush=True)
    best = {name: min(min(run["batches"]) for run in runs) for name, runs in found.items()}
    median = {name: statistics.median(t for run in runs for t in run["batches"]) for name, runs in found.items()}
    draw, whole_draw, exchange = (
        min(run[part] for run in found["one" if part == "draw" else "two"]) for part in ("draw", "draw", "exchange")
    )
    segments = found["one"][0]["segments"]
    message = found["two"][0]["message_bytes"]
    predicted = whole_draw + (best["one"] - draw) / 2 + segments * exchange
    weights = found["one"][0]["weights"], found["two"][0]["weights"]
    numbers = {
        "problems": found["one"][0]["problems"],
        "threads_per_process": 1,
        "note": "two cores shared with other work; fastest of all batches of all rounds, medians beside them",
        "batch": BATCH,
        "segments_per_batch": segments,
        "weights": found["one"][0]["count"],
        "message_bytes": message,
        "fastest_seconds_per_batch": best,
        "median_seconds_per_batch": median,
        "draw_seconds": {"one": draw, "two": whole_draw},
        "exchange_seconds": exchange,
        "strong_efficiency": best["one"] / (2 * best["two"]),
        "weak_efficiency": best["one"] / best["two_weak"],
        "predicted_seconds_per_batch_of_two": predicted,
        "measured_over_predicted": best["two"] / predicted,
        "batches_compared": COUNTED,
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
        recipe.training, batch=batch, batches=COUNTED, epochs=1, segment=10, length=20,
        validate_every=10 * COUNTED, validation=2,
    )  # fmt: skip
    optimizer = recipe.build()
    moments = []

    def tell(event: dict[str, Any]) -> None:
        if event["event"] in ("validation", "batch"):
            moments.append(time.perf_counter())

    train(optimizer, family, config, device="cpu", backend="plain", listeners=[tell])
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
            "batches": [b - a for a, b in zip(moments[:COUNTED], moments[1:], strict=False)][1:],
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
