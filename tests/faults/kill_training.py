"""Train in child processes that are killed at random moments, and compare with a run that never was.

    PYTHONPATH=tests python tests/faults/kill_training.py KILLS DIRECTORY

Prints JSON: how many children were killed and finished, how far each killed one had come, and what differed.
"""

import json
import os
import random
import shutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sureprox.optimizers import LearnedOptimizer, Sure
from sureprox.sources import LassoMixture
from sureprox.training import Recipe, StreamConfig, read_log, train
from training_cases import LASSO, bitwise, layerwise_config, left_behind, network, small_config, timeless


def sure() -> Sure:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Sure(coordinate=3, instance=4)


STREAM = StreamConfig(
    segment=4, batch=5, batches=40, pool=12, horizon=12, warm_up=3, length=6, validate_every=4, validation=6,
    checkpoint_every=1,
)  # fmt: skip
# a checkpoint after every batch or two: many of the kills then come while one is written
RUNS: dict[str, tuple[Callable[[], LearnedOptimizer[Any]], Any, Any]] = {
    "unrolled": (network, LASSO, small_config(batches=30, checkpoint_every=1)),
    "layerwise": (lambda: network("ada-lista"), LASSO, layerwise_config(steps=30, checkpoint_every=2)),
    "streamed": (sure, LassoMixture(m=12, n=16), STREAM),
}


def child(kind: str, out: Path) -> int:
    """Start or resume the run in a process of its own; its id."""
    number = os.fork()
    if number:
        return number
    code = 1
    try:
        make, family, config = RUNS[kind]
        train(make(), family, config, out, device="cpu", backend="plain")
        code = 0
    finally:
        os._exit(code)


def wait(number: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(number, 0)[1])


def difference(kind: str, out: Path, whole: Path) -> str:
    """In words, how what a run has left differs from the whole one; empty if it does not."""
    make, family, config = RUNS[kind]
    optimizer = make()
    recipe = Recipe(optimizer.kind, optimizer.arguments, family, config)
    mine, theirs = left_behind(out, recipe), left_behind(whole, recipe)
    names = ("weights", "best weights", "momentum")
    found = [name for name, a, b in zip(names, mine, theirs, strict=False) if not bitwise(a, b)]
    if not torch.equal(mine[3], theirs[3]):
        found.append("generator")
    if timeless(read_log(out / "log.jsonl")) != timeless(read_log(whole / "log.jsonl")):
        found.append("log")
    if (out / "model.safetensors").read_bytes() != (whole / "model.safetensors").read_bytes():
        found.append("model")
    left = {path.name for path in out.iterdir()} - {path.name for path in whole.iterdir()}
    return ", ".join(found + sorted(left))


def main() -> None:
    torch.set_num_threads(1)
    kills, directory = int(sys.argv[1]), Path(sys.argv[2])
    chance = random.Random(0)
    seconds = {}
    for kind, (make, family, config) in RUNS.items():
        train(make(), family, config, directory / "first", device="cpu", backend="plain")  # what is imported lazily
        shutil.rmtree(directory / "first")
        began = time.monotonic()
        assert wait(child(kind, directory / kind)) == 0
        seconds[kind] = time.monotonic() - began
    killed, finished, moments, different = 0, 0, [], []
    while killed < kills:
        kind = list(RUNS)[finished % len(RUNS)]
        out = directory / f"{kind}-{finished}"
        # a few kills for each run, some of them before it has even begun
        for _ in range(chance.randrange(1, 6)):
            number = child(kind, out)
            time.sleep(chance.uniform(0, 0.7 * seconds[kind]))
            os.kill(number, signal.SIGKILL)
            code = wait(number)
            assert code in (-signal.SIGKILL, 0), f"a child ended with {code}"
            if code == 0:  # it was quicker
                break
            killed += 1
            log = out / "log.jsonl"
            moments.append(log.read_bytes().count(b'"event": "batch"') if log.exists() else -1)
        code = wait(child(kind, out))
        assert code == 0, f"going on ended with {code}"
        finished += 1
        if found := difference(kind, out, directory / kind):
            different.append(f"{out.name}: {found}")
    print(json.dumps({"killed": killed, "finished": finished, "moments": moments, "different": different}))


if __name__ == "__main__":
    main()
