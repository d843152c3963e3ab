"""Processes that kill themselves with SIGKILL at a chosen call while they write, and what is found afterwards.

    PYTHONPATH=tests python tests/faults/kill_points.py manifest|model|search DIRECTORY

Prints JSON: for each point what was found. Children are forked from a process that has one thread only.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import sureprox as sp
from sureprox.many.shards import Shards
from sureprox.optimizers import read_card, save
from sureprox.training import Choice, Range
from sureprox.training.jobs import Ending, Outcome
from sureprox.training.study import Study, quiet
from sureprox.training.trials import Told
from training_cases import bitwise, network, weights_of

SETTINGS = {"tol": 1e-6}
SPACE = {"learning_rate": Range(1e-4, 1.0, log=True), "clip": Choice((0.0, 0.1, 1.0)), "batch": Range(1, 64)}
TRIALS = 13  # the sampler looks at the trials before from the eleventh on


def killed(owner: Any, name: str, call: int, work: Callable[[], object], after: bool = False) -> bool:
    """Whether a child that kills itself at this call of owner.name, before or `after` it is done, got so far."""
    child = os.fork()
    if child:
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        assert code in (0, -signal.SIGKILL), f"a child ended with {code}"
        return code != 0
    code, seen, original = 1, 0, getattr(owner, name)

    def counted(*arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen == call and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        value = original(*arguments)
        if seen == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return value

    try:
        setattr(owner, name, counted)
        work()
        code = 0
    finally:
        os._exit(code)


def begin(out: Path) -> list[str]:
    shards = Shards(out)
    with shards.locked():
        shards.begin(SETTINGS)
    return sorted(path.name for path in out.iterdir())


def manifest(directory: Path) -> dict[str, Any]:
    """What is in the directory once a second run has begun there."""
    found: dict[str, Any] = {}
    for owner, name, calls in ((os, "fsync", 2), (Path, "replace", 1)):
        for call in range(1, calls + 1):
            out = directory / f"{name}-{call}"
            assert killed(owner, name, call, partial(begin, out))
            left = sorted(path.name for path in out.iterdir())
            found[out.name] = {"left": left, "then": begin(out)}
    return found


def model(directory: Path) -> dict[str, Any]:
    """Whose card and whose weights are loaded: over an older model, one whose card has no sha256, and none."""
    old, new = network(seed=0), network(seed=1)
    found: dict[str, Any] = {}
    for before in ("model", "no sha256", "nothing"):
        for owner, name, calls in ((os, "fsync", 3), (Path, "replace", 2)):
            for call in range(1, calls + 1):
                path = directory / before / f"{name}-{call}" / "model"
                if before != "nothing":
                    save(old, path, notes="old")
                if before == "no sha256":
                    card = json.loads(path.with_suffix(".json").read_text())
                    path.with_suffix(".json").write_text(json.dumps(card | {"sha256": ""}))
                assert killed(owner, name, call, partial(save, new, path, notes="new"))
                found[f"{before}, {name} {call}"] = loaded(path, {"old": old, "new": new})
    return found


def loaded(path: Path, models: dict[str, Any]) -> list[str]:
    try:
        weights = weights_of(sp.load(path))
    except sp.SureproxError as error:
        return [str(error)[:8]]
    return [read_card(path).notes, *(name for name, model in models.items() if bitwise(weights, weights_of(model)))]


def trials(directory: Path, count: int) -> list[dict[str, Any]]:
    """The values of `count` trials, the losses of which depend on the values alone."""
    directory.mkdir(exist_ok=True)
    study = Study(directory, SPACE, {"clip": 1.0}, 0, {"space": "the same"})
    waiting = study.under_way()
    while len(study.rows()) < count or waiting:
        number, values = waiting.popitem() if waiting else study.ask()
        loss = abs(float(values["learning_rate"]) - 0.01) + float(values["clip"])
        outcome = Outcome(f"{number:04d}", Ending.COMPLETED, loss, best_batch=4, batches=8)
        study.tell(number, Told(outcome, ((0, 2 * loss), (4, loss))))
    return [row.as_dict() for row in study.rows()]


def search(directory: Path) -> dict[str, Any]:
    """The trials of a search killed at each line that the first or the last trial writes to the journal."""
    from optuna.storages.journal import JournalFileBackend

    with quiet():
        whole = trials(directory / "whole", TRIALS)
        assert trials(directory / "before", TRIALS - 1) == whole[:-1]
        different, kills = [], 0
        for count, journal in ((1, b""), (TRIALS, (directory / "before" / "study.journal").read_bytes())):
            call, alive = 0, False
            while not alive:
                call += 1
                out = directory / f"{count}-{call}"
                out.mkdir()
                (out / "study.journal").write_bytes(journal)
                alive = not killed(JournalFileBackend, "append_logs", call, partial(trials, out, count), after=True)
                kills += not alive
                if trials(out, count) != whole[:count]:
                    different.append(out.name)
    return {"kills": kills, "different": different}


if __name__ == "__main__":
    print(json.dumps({"manifest": manifest, "model": model, "search": search}[sys.argv[1]](Path(sys.argv[2]))))
