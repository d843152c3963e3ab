"""One training run of several: a recipe and its directory, trained here or on a worker, and how it ended."""

import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from sureprox.base.cluster import report, unwanted
from sureprox.base.errors import SureproxError, one_line
from sureprox.optimizers import LearnedOptimizer
from sureprox.training.api import train
from sureprox.training.checkpoint import Checkpoint, Progress
from sureprox.training.config import Recipe
from sureprox.training.events import Event, Listener, StopTraining

PATIENCE = 60.0  # seconds; a worker that Dask has given up may still be about to end
_drawing = threading.Lock()  # the threads of a worker share torch's default generator


class Ending(StrEnum):
    """How far a run has come."""

    COMPLETED = "completed"
    INTERRUPTED = "interrupted"  # it goes on from its checkpoint when it is asked for again
    PRUNED = "pruned"  # ended early, by a search
    FAILED = "failed"
    WAITING = "waiting"  # not begun


@dataclass(frozen=True)
class Outcome:
    """How the run `name` ended, with the numbers of its checkpoint."""

    name: str
    ending: Ending
    best_validation: float | None = None  # None: no validation was finite
    best_batch: int = 0
    batches: int = 0
    failures: int = 0  # batches with a non-finite loss or gradient
    seconds: float = 0.0
    error: str = ""  # one line, of a run that failed
    earlier: bool = False  # completed before this call

    def as_dict(self) -> dict[str, Any]:
        """Plain values, as in the summary."""
        return asdict(self) | {"ending": str(self.ending)}


@dataclass(frozen=True)
class Job:
    """What a worker has to know to train one recipe."""

    name: str
    recipe: Recipe
    out: Path
    device: str | None = None
    backend: str = "auto"
    threads: int | None = None  # of torch, in a process that has several beside it
    topic: str = ""  # where to report how it goes; "": nowhere


def drawn(recipe: Recipe) -> LearnedOptimizer[Any]:
    """A fresh optimizer whose weights depend on the seed of the recipe alone, as `sureprox train` draws it."""
    with _drawing, torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(recipe.training.seed)
        return recipe.build()


def found(job: Job) -> Outcome:
    """How far the run in the directory of the job is; refused if it is of another recipe."""
    path = job.out / "checkpoint.pt"
    if not path.exists():
        return Outcome(job.name, Ending.WAITING)
    whole = replace(job.recipe, arguments=drawn(job.recipe).arguments)  # as `train` writes it
    progress = Checkpoint.load(path, whole.as_dict()).progress
    complete = progress.batch == job.recipe.training.total_batches and (job.out / "model.json").exists()
    return _outcome(job.name, Ending.COMPLETED if complete else Ending.INTERRUPTED, progress)


def train_job(job: Job, listeners: Sequence[Listener] = ()) -> Outcome:
    """Train what is not trained yet. Whatever goes wrong is part of the outcome, so that it stops no other job."""
    if job.threads is not None:
        torch.set_num_threads(job.threads)
    try:
        before = found(job)
        if before.ending is Ending.COMPLETED:  # a worker may die between the last batch and saying so
            return before
        recipe = job.recipe
        train(
            drawn(recipe),
            recipe.family,
            recipe.training,
            job.out,
            device=job.device,
            backend=job.backend,
            listeners=[_while_wanted, _reporter(job), *listeners],
            patience=PATIENCE,
        )
        return found(job)
    except Exception as error:
        return failed(job, error)


def failed(job: Job, error: Exception) -> Outcome:
    """With what is known of the run from its checkpoint, if that can be read."""
    text = str(error) if isinstance(error, SureproxError) else f"{type(error).__name__}: {error}"
    try:
        known = found(job)
    except Exception:  # that of the run itself is the one to tell
        known = Outcome(job.name, Ending.WAITING)
    return replace(known, ending=Ending.FAILED, error=one_line(text))


def _outcome(name: str, ending: Ending, progress: Progress) -> Outcome:
    best = progress.best if progress.best < float("inf") else None
    return Outcome(
        name, ending, best, progress.best_batch, progress.batch, progress.failures, round(progress.seconds, 3)
    )


def _reporter(job: Job) -> Listener:
    """Says at every validation how far the run is."""

    def tell(event: Event) -> None:
        if job.topic and event["event"] in ("start", "validation"):
            report(job.topic, {"name": job.name, "batch": event["batch"], "best": event.get("best")})

    return tell


def _while_wanted(event: Event) -> None:
    if event["event"] == "batch" and unwanted():
        raise StopTraining
