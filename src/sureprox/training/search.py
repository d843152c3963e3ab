"""`search`: training settings found by Optuna (`sureprox[search]`), here or on a Dask cluster; it resumes."""

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sureprox.base.cluster import done_on
from sureprox.base.connection import connected
from sureprox.base.errors import ConfigError, SureproxError
from sureprox.base.files import locked, write_atomically
from sureprox.base.machine import today
from sureprox.base.words import require_whole
from sureprox.training.api import check_fit
from sureprox.training.backends import check_backend
from sureprox.training.config import Recipe
from sureprox.training.jobs import Ending, Job, Outcome, failed
from sureprox.training.recipe_files import recipe_text
from sureprox.training.space import Space, applied, check_space, default_space, space_dict, values_of
from sureprox.training.study import Study, TrialRow, quiet
from sureprox.training.sweep import SUMMARY
from sureprox.training.trials import Told, Trial, run_trial

BEST = "best.toml"
FORMAT = 1


@dataclass(frozen=True)
class Search:
    """All trials of a study, those of earlier calls too."""

    out: Path
    trials: tuple[TrialRow, ...]
    recipe: Recipe | None  # the best; also in `out`/best.toml
    interrupted: bool = False

    @property
    def best(self) -> TrialRow | None:
        """The complete trial with the smallest validation loss."""
        return _best(self.trials)

    def rows(self) -> list[dict[str, Any]]:
        """One dict of plain values for each trial."""
        return [trial.as_dict() for trial in self.trials]


def search(
    recipe: Recipe,
    out: str | Path,
    *,
    space: Space | None = None,
    trials: int = 20,
    seed: int = 0,
    prune: bool = True,
    parallel: int | None = None,
    cluster: Any = None,
    device: str | None = None,
    backend: str = "auto",
    progress: Callable[[TrialRow], None] = lambda row: None,
) -> Search:
    """Look for the training settings with the smallest validation loss, in `trials` runs, the first with those given.

    `space` says what is varied (`Range`, `Choice`; by default `default_space`), Optuna's TPE sampler how. Each trial
    trains in `out`/trials/NUMBER. With `prune`, one whose best validation loss is worse than the median of those that
    were complete when it began, at the same batch, is ended. A trial that fails is recorded, and the search goes on.
    The best recipe is written to `out`/best.toml, all trials to `out`/summary.json.

    Called again with the same recipe and space it goes on, with the trials that were under way first; with more
    `trials` it makes more. One at a time the same seed gives the same search, interrupted or not. `parallel` trials,
    by default one for each thread of the `cluster` (as in `sweep`), depend on which of them ends first.
    """
    space = default_space(recipe) if space is None else dict(space)
    _check(recipe, space, trials, seed, parallel, backend)
    facts = {"recipe": recipe.as_dict(), "space": space_dict(space), "seed": seed, "prune": prune}
    out = Path(out)
    job = Job("", recipe, out.absolute() / "trials", device, backend, None if cluster is None else 1)
    interrupted = False
    with quiet(), contextlib.ExitStack() as held:
        with connected(cluster) as client:
            held.enter_context(locked(out))  # a cluster that is not there leaves nothing behind
            study = Study(out, space, values_of(recipe, space), seed, facts)
            asked = _asked(study, job, trials, prune, progress)
            try:
                with contextlib.closing(done_on(client, run_trial, asked, at_once=parallel)) as running:
                    for trial, value in running:
                        told = Told(failed(trial.job, value), ()) if isinstance(value, SureproxError) else value
                        interrupted = told.outcome.ending is Ending.INTERRUPTED
                        if interrupted:
                            break
                        study.tell(trial.number, told)
                        progress(_write(out, recipe, study)[trial.number])
            except KeyboardInterrupt:
                interrupted = True
        rows = _write(out, recipe, study)
    best = _best(rows)
    return Search(out, rows, None if best is None else applied(recipe, best.values), interrupted)


def _asked(study: Study, job: Job, count: int, prune: bool, progress: Callable[[TrialRow], None]) -> Iterator[Trial]:
    """The trials to run: those that were under way, then new ones, each asked for when there is a place for it."""
    earlier = iter(study.under_way().items())
    while True:
        number, values = next(earlier, (None, {}))
        if number is None:
            if len(study.rows()) >= count:
                return
            number, values = study.ask()
        name = f"{number:04d}"
        here = replace(job, name=name, out=job.out / name)
        try:
            here = replace(here, recipe=applied(job.recipe, values))
            check_fit(here.recipe.build(), here.recipe.family, here.recipe.training)
        except SureproxError as error:  # values that do not go together
            study.tell(number, Told(Outcome(name, Ending.FAILED, error=str(error)), ()))
            progress(study.rows()[number])
            continue
        yield Trial(number, here, study.complete() if prune else None)


def _check(recipe: Recipe, space: Space, trials: int, seed: int, parallel: int | None, backend: str) -> None:
    if not isinstance(recipe, Recipe):
        raise ConfigError(f"recipe is a {type(recipe).__name__}; use sureprox.training.preset or Recipe")
    check_fit(recipe.build(), recipe.family, recipe.training)
    recipe_text(recipe)  # the best one has to be written
    check_space(space, recipe)
    for name, value, least in (("trials", trials, 1), ("seed", seed, 0), ("parallel", parallel, 1)):
        if value is not None:
            require_whole(name, value, least, ConfigError)
    check_backend(backend)


def _best(rows: tuple[TrialRow, ...]) -> TrialRow | None:
    complete = [row for row in rows if row.ending is Ending.COMPLETED and row.best_validation is not None]
    return min(complete, key=lambda row: (row.best_validation, row.number), default=None)


def _write(out: Path, recipe: Recipe, study: Study) -> tuple[TrialRow, ...]:
    """The summary, and the best recipe if there is one."""
    rows = study.rows()
    best = _best(rows)
    content = {
        "format": FORMAT,
        "date": today(),
        "recipe": recipe.as_dict(),
        "space": space_dict(study.space),
        "best": None if best is None else best.number,
        "trials": [row.as_dict() for row in rows],
    }
    write_atomically(out / SUMMARY, (json.dumps(content, indent=1, allow_nan=False) + "\n").encode())
    if best is not None:
        text = f"# trial {best.number}: validation loss {best.best_validation}\n"
        write_atomically(out / BEST, (text + recipe_text(applied(recipe, best.values))).encode())
    return rows
