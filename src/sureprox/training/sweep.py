"""`sweep`: many training runs, each in its own directory, here or on a Dask cluster; what is done stays done."""

import contextlib
import json
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import Any

from sureprox.base.cluster import done_on, listening
from sureprox.base.connection import connected
from sureprox.base.errors import ConfigError, SureproxError
from sureprox.base.files import locked, write_atomically
from sureprox.base.machine import today
from sureprox.training.api import check_fit
from sureprox.training.backends import check_backend
from sureprox.training.config import Recipe
from sureprox.training.jobs import Ending, Job, Outcome, failed, found, train_job
from sureprox.training.presets import preset, settings

SUMMARY = "summary.json"
FORMAT = 1
NAME = re.compile(r"[\w+=-][\w.+=-]*(/[\w+=-][\w.+=-]*)*")  # one folder or several, none of them hidden or ".."


@dataclass(frozen=True)
class Sweep:
    """What came of every recipe, in the order in which they were given."""

    out: Path
    outcomes: tuple[Outcome, ...]

    def ended(self, how: Ending | str) -> tuple[Outcome, ...]:
        """Those that are "completed", "failed", "interrupted" or "waiting"."""
        return tuple(outcome for outcome in self.outcomes if outcome.ending == how)

    @property
    def completed(self) -> bool:
        """Whether all of them are."""
        return len(self.ended(Ending.COMPLETED)) == len(self.outcomes)

    @property
    def best(self) -> Outcome | None:
        """Smallest validation loss of those that are completed; sensible where all have the same validation set."""
        known = [outcome for outcome in self.ended(Ending.COMPLETED) if outcome.best_validation is not None]
        return min(known, key=lambda outcome: outcome.best_validation or 0.0, default=None)

    def rows(self) -> list[dict[str, Any]]:
        """One dict of plain values for each recipe."""
        return [outcome.as_dict() for outcome in self.outcomes]


def sweep(
    recipes: Mapping[str, Recipe],
    out: str | Path,
    *,
    cluster: Any = None,
    device: str | None = None,
    backend: str = "auto",
    progress: Callable[[Outcome], None] = lambda outcome: None,
    watch: Callable[[str, int], None] = lambda name, batch: None,
) -> Sweep:
    """Train every recipe in the directory `out`/name, and write `out`/summary.json.

    Called again with the same recipes it goes on: a run that is complete stays as it is, one that was interrupted or
    killed goes on from its checkpoint, to the same weights as without (see `train`). A recipe that fails is told in
    its outcome and stops no other one; it is tried again by the next call. `progress` is called with the outcome of
    each, those of earlier calls first, and `watch` with the name and the batch of those under way, at every validation.
    Ctrl-C ends the runs under way with a checkpoint.

    `cluster`: None for one after another in this process, or as in `solve_many`: "local", the address of a Dask
    scheduler, a client or a cluster. Each recipe is a task, and torch uses one thread in it. That of a worker that dies
    goes on from its checkpoint on another one. Workers on other machines need to see `out` under the same path.
    `device`: by default a GPU where the worker has one.
    """
    topic = f"sureprox-sweep-{uuid.uuid4().hex}"
    threads = None if cluster is None else 1
    jobs = _jobs(recipes, Path(out).absolute(), device=device, backend=backend, threads=threads, topic=topic)
    known: dict[str, Outcome] = {name: found(job) for name, job in jobs.items()}
    known = {name: replace(was, earlier=was.ending is Ending.COMPLETED) for name, was in known.items()}
    pending = [jobs[name] for name, was in known.items() if not was.earlier]
    with contextlib.ExitStack() as held:
        with connected(cluster if pending else None) as client:
            held.enter_context(locked(Path(out)))  # a cluster that is not there leaves nothing behind
            for was in known.values():
                if was.earlier:
                    progress(was)
            _write(Path(out), recipes, known)
            with listening(client, topic, lambda told: watch(told["name"], told["batch"])):
                for outcome in _outcomes(client, pending):
                    known[outcome.name] = outcome
                    progress(outcome)
                    _write(Path(out), recipes, known)
        open_still = [name for name, was in known.items() if was.ending in (Ending.WAITING, Ending.INTERRUPTED)]
        known |= {name: found(jobs[name]) for name in open_still}  # now that the workers have let go of them
        _write(Path(out), recipes, known)
    return Sweep(Path(out), tuple(known.values()))


def _outcomes(client: Any, jobs: Sequence[Job]) -> Iterator[Outcome]:
    """As the jobs end, until all have or one was interrupted."""
    with (
        contextlib.suppress(KeyboardInterrupt),
        contextlib.closing(done_on(client, train_job, jobs, at_once=len(jobs))) as running,
    ):
        for job, value in running:
            yield failed(job, value) if isinstance(value, SureproxError) else value
            if isinstance(value, Outcome) and value.ending is Ending.INTERRUPTED:
                return


def with_seeds(recipes: Mapping[str, Recipe], seeds: tuple[int, ...]) -> dict[str, Recipe]:
    """Every recipe with every seed, as NAME/seed-0, ...; as they are if no seed is given."""
    if not seeds:
        return dict(recipes)
    return {
        f"{name}/seed-{seed}": replace(recipe, training=replace(recipe.training, seed=seed))
        for name, recipe in recipes.items()
        for seed in seeds
    }


def paper_settings(optimizer: str = "go-math-l2o", **arguments: Any) -> dict[str, Recipe]:
    """The paper's 24 training settings, under the names that `sureprox reproduce --weights` looks for.

    These are go-math-l2o/lasso-setting-1, ...; setting 7, which all other figures use, is go-math-l2o/lasso.
    """
    return {
        f"{optimizer}/lasso" + ("" if number == 7 else f"-setting-{number}"): preset(
            f"lasso-{number}", optimizer, **arguments
        )
        for number in settings()
    }


def _jobs(recipes: Mapping[str, Recipe], out: Path, *, backend: str, **how: Any) -> dict[str, Job]:
    """Everything that can be refused before the first run is."""
    if not recipes:
        raise ConfigError("no recipes are given; pass at least one")
    check_backend(backend)
    for name, recipe in recipes.items():
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise ConfigError(f"a recipe is called {name!r}; use letters, digits and . + = - _, with / between folders")
        if not isinstance(recipe, Recipe):
            raise ConfigError(f"recipe {name} is a {type(recipe).__name__}; use sureprox.training.preset or Recipe")
        try:
            check_fit(recipe.build(), recipe.family, recipe.training)
        except SureproxError as error:
            raise ConfigError(f"recipe {name}: {error}") from None
    for name in recipes:
        if inside := [str(parent) for parent in PurePosixPath(name).parents if str(parent) in recipes]:
            raise ConfigError(f"the directory of recipe {name} would lie in that of {inside[0]}; rename one of them")
    return {name: Job(name, recipe, out / name, backend=backend, **how) for name, recipe in recipes.items()}


def _write(out: Path, recipes: Mapping[str, Recipe], known: Mapping[str, Outcome]) -> None:
    rows = [outcome.as_dict() | {"recipe": recipes[name].as_dict()} for name, outcome in known.items()]
    content = {"format": FORMAT, "date": today(), "runs": rows}
    write_atomically(out / SUMMARY, (json.dumps(content, indent=1, allow_nan=False, default=str) + "\n").encode())
