"""One trial of a search: a training run that is given up once it is worse than the median of those before it."""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from sureprox.base.errors import SureproxError
from sureprox.training.events import Event, StopTraining, read_log
from sureprox.training.jobs import Ending, Job, Outcome, found, train_job

Steps = tuple[tuple[int, float], ...]  # (batch, best validation loss so far)

STARTUP = 5  # trials that are run to their end before any is pruned
WARM_UP = 0.1  # share of a run that is not judged


@dataclass(frozen=True)
class Trial:
    """What a worker has to know. It is judged by the trials that were complete when it began, and by no others."""

    number: int
    job: Job
    earlier: tuple[Steps, ...] | None  # of complete trials; None: it is not judged


@dataclass(frozen=True)
class Told:
    outcome: Outcome
    steps: Steps


def run_trial(trial: Trial) -> Told:
    """Train, to the end or until the trial is pruned; one that was interrupted goes on."""
    worse = _judge(trial)
    pruned = False

    def judge(event: Event) -> None:
        nonlocal pruned
        if event["event"] == "validation" and event["best"] is not None:
            pruned = pruned or worse(event["batch"], event["best"])
            if pruned:
                raise StopTraining

    outcome = _given_up(trial, worse) or train_job(trial.job, [judge])
    if pruned and outcome.ending is Ending.INTERRUPTED:
        outcome = replace(outcome, ending=Ending.PRUNED)
    return Told(outcome, _steps(trial))


def _given_up(trial: Trial, worse: Callable[[int, float], bool]) -> Outcome | None:
    """The outcome of a trial that was pruned by a worker that died before it could say so."""
    with contextlib.suppress(SureproxError):  # what is wrong with the files is found again by the run
        before = found(trial.job)
        if before.ending is Ending.INTERRUPTED and any(worse(*step) for step in _steps(trial)):
            return replace(before, ending=Ending.PRUNED)
    return None


def _steps(trial: Trial) -> Steps:
    """What the log of the run says."""
    try:
        events = read_log(trial.job.out / "log.jsonl")
    except (OSError, SureproxError):  # it failed before it began
        return ()
    told = [event for event in events if event["event"] == "validation" and event["best"] is not None]
    return tuple({event["batch"]: event["best"] for event in told}.items())


def _judge(trial: Trial) -> Callable[[int, float], bool]:
    """Whether a trial whose best loss after this batch is this should be given up."""
    if not trial.earlier:
        return lambda batch, best: False
    import optuna

    warm_up = int(WARM_UP * trial.job.recipe.training.total_batches)
    pruner = optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=warm_up)
    study = optuna.create_study(pruner=pruner, storage=optuna.storages.InMemoryStorage())
    for steps in trial.earlier:
        complete: Any = optuna.trial.create_trial(value=steps[-1][1], intermediate_values=dict(steps))
        study.add_trial(complete)
    asked = study.ask()

    @cache  # what a run that goes on says again is judged once
    def worse(batch: int, best: float) -> bool:
        asked.report(best, batch)
        return bool(asked.should_prune())

    return worse
