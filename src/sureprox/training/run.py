"""What every training run does, whatever it learns from a batch: validate, keep the best, log, checkpoint, resume."""

import contextlib
import math
import signal
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import torch
from torch import Tensor

from sureprox.base.errors import TrainingError
from sureprox.base.files import remove_scratch
from sureprox.base.machine import machine, today
from sureprox.optimizers import LearnedOptimizer, save
from sureprox.training.checkpoint import Checkpoint, Progress
from sureprox.training.config import Recipe
from sureprox.training.events import Event, JsonLog, Listener, StopTraining, TensorBoard
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import Course
from sureprox.training.share import Share
from sureprox.training.team import Team

T = TypeVar("T")
PATIENCE = 3  # failed batches in a row after which the best weights are taken back
WRITTEN_WHOLE = ("checkpoint.pt", "model.safetensors", "model.json")  # a kill meanwhile leaves a scratch file beside


@dataclass(frozen=True)
class TrainingResult:
    """How a run ended. The optimizer passed to `train` then holds the best weights."""

    completed: bool  # False: interrupted; call again with the same arguments to go on
    batches: int
    best_validation: float
    best_batch: int
    failures: int
    seconds: float


class TrainingRun(ABC):
    """A run over `total_batches` batches. Its state changes only between two batches, so it can stop there and go on.

    A batch whose loss or gradient is not finite changes nothing from that point on, is counted, and after `PATIENCE`
    of them in a row the best weights so far are taken back and the momentum forgotten.

    In a team every process goes through the same states; what differs is whose rows of a batch it computes.
    """

    backend_name = "plain"
    network = "composed"  # of single operations, or "fused" into one kernel

    def __init__(
        self,
        recipe: Recipe,
        optimizer: LearnedOptimizer[Any],
        device: torch.device,
        out: Path | None,
        listeners: list[Listener],
        tensorboard: bool,
        team: Team | None = None,
    ) -> None:
        self.recipe = recipe
        self.config = recipe.training
        self.family = recipe.family
        self.dtype: torch.dtype = getattr(torch, self.config.dtype)
        self.device = device
        self.out = out
        self.team = team or Team()
        self.team.check_same("recipes or output directories", (recipe.as_dict(), out is None))
        self.share = Share(self.team, "batch", self.config.batch)
        self.validation_share = Share(self.team, "validation", self.config.validation)
        self.optimizer = optimizer.to(device=device, dtype=self.dtype).train()
        self.parameters = dict(optimizer.named_parameters())
        self.meta = MetaAdam(list(self.parameters.values()), self.config.clip)
        self._take_from_leader()
        self.generator = torch.Generator(device).manual_seed(self.config.seed)
        self.progress = Progress()
        self.best_weights = self._weights()
        self.stop = threading.Event()
        self.resumed: dict[str, Tensor] = {}  # `stream_state` of the checkpoint
        self._resume()
        leads = self.team.leads
        self.log = JsonLog(out / "log.jsonl", self.progress.log_bytes) if out and leads else None
        self.files: list[JsonLog | TensorBoard] = [self.log] if self.log else []
        if tensorboard and out and leads:
            self.files.append(TensorBoard(out / "tensorboard"))
        self.listeners = [*self.files, *listeners] if leads else []

    @abstractmethod
    def learn(self) -> Tensor:
        """One batch: a row (loss, norm of the gradient, code of `Course`) for each of its segments, float64.

        The rows are the same on every process of the team.
        """

    @abstractmethod
    def validate(self) -> tuple[Tensor, Tensor]:
        """(loss that decides which weights are best, loss after the last iteration) on the fixed validation set.

        Means over the rows of `validation_share` only.
        """

    def validation_generator(self) -> torch.Generator:
        """A generator of its own, so that the validation set is the same in every run and resumption."""
        return torch.Generator(self.device).manual_seed(self.config.seed + 10_000)

    def generator_state(self) -> Tensor:
        """From where the next batch is drawn."""
        return self.generator.get_state()

    def stream_state(self) -> dict[str, Tensor]:
        """What else the next batch depends on, on the CPU; all processes of the team are asked at once."""
        return {}

    def go(self) -> TrainingResult:
        config, progress = self.config, self.progress
        if progress.batch == 0:  # so that the first weights are known, however soon the run is killed
            self._checkpoint()
        about: dict[str, Any] = {"backend": self.backend_name, "network": self.network, "device": str(self.device)}
        about |= {"machine": machine(self.device), "date": today(), "processes": self.team.size}
        self.tell("start", **about, recipe=self.recipe.as_dict())
        began, spent = time.perf_counter(), progress.seconds
        try:
            if progress.batch == 0:
                self._validate()
                progress.seconds = time.perf_counter() - began
            with _interruptible(self.stop, insist=self.team.alone):
                stopping = self.team.any(self.stop.is_set())
                while progress.batch < config.total_batches and not stopping:
                    self._batch()
                    progress.seconds = spent + time.perf_counter() - began
                    last = progress.batch == config.total_batches
                    if progress.batch % config.validate_every == 0 or last:
                        self._validate()
                    stopping = self.team.any(self.stop.is_set())  # one is asked, all stop after the same batch
                    if progress.batch % config.checkpoint_every == 0 or last or stopping:
                        self._checkpoint()
            return self._end()
        finally:
            for file in self.files:
                file.close()

    def tell(self, kind: str, **about: Any) -> None:
        about = {key: float(f"{value:.7g}") if isinstance(value, float) else value for key, value in about.items()}
        event: Event = {"event": kind, "batch": self.progress.batch, "seconds": round(self.progress.seconds, 3)} | about
        for listener in self.listeners:
            try:
                listener(event)
            except StopTraining:
                self.stop.set()

    def attempt(self, work: Callable[[], T]) -> T:
        """Hook for runs that can fall back to another way of doing the same work."""
        return work()

    def _batch(self) -> None:
        rate = self.config.rate(self.progress.batch)
        self.meta.rate.fill_(rate)
        outcome = self.attempt(self.learn).tolist()  # the one place where the host waits for the device
        self.progress.batch += 1
        learned = [(loss, norm) for loss, norm, code in outcome if code == Course.TAKEN]
        failed = any(code == Course.FAILED for _, _, code in outcome)
        self.tell(
            "batch",
            loss=sum(loss for loss, _ in learned) / len(learned) if learned else None,
            gradient=max(norm for _, norm in learned) if learned else None,
            rate=rate,
            segments=len(learned),
            skipped=failed,
        )
        self._judge(failed)

    def _judge(self, failed: bool) -> None:
        progress = self.progress
        progress.failures += failed
        progress.in_a_row = progress.in_a_row + 1 if failed else 0
        if progress.failures > self.config.max_failures:
            self._checkpoint()
            self._take(self.best_weights)
            raise TrainingError(
                f"{progress.failures} batches had a non-finite loss or gradient, more than max_failures = "
                f"{self.config.max_failures}; lower the learning rate or clip the gradient (best weights are kept)"
            )
        if progress.in_a_row == PATIENCE and math.isfinite(progress.best):
            progress.in_a_row = 0
            self._take(self.best_weights)
            self.meta.reset()
            self.tell(
                "note", text=f"{PATIENCE} failed batches in a row: back to the weights of batch {progress.best_batch}"
            )

    def _validate(self) -> None:
        mean, final = (float(value) for value in self.validation_share.mean(*self.attempt(self.validate)))
        if mean < self.progress.best:
            self.progress.best, self.progress.best_batch = mean, self.progress.batch
            self.best_weights = self._weights()
        self.tell("validation", loss=_finite(mean), final=_finite(final), best=_finite(self.progress.best))

    def _end(self) -> TrainingResult:
        progress = self.progress
        completed = progress.batch == self.config.total_batches
        self.tell("end", completed=completed, failures=progress.failures, best=_finite(progress.best))
        self._take(self.best_weights)
        self.optimizer.eval()
        if completed and self.out is not None and self.team.leads:
            self._save(self.out / "model")
        self.team.any(False)  # torchrun ends all processes once one has failed: none may end before the files are there
        return TrainingResult(
            completed, progress.batch, progress.best, progress.best_batch, progress.failures, progress.seconds
        )

    def _save(self, path: Path) -> None:
        described = self.recipe.as_dict()
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        how: dict[str, Any] = {"backend": self.backend_name, "device": name}
        if not self.team.alone:
            how["processes"] = self.team.size
        save(
            self.optimizer,
            path,
            family=described["family"],
            training=described["training"] | how,
            seed=self.config.seed,
            date=today(),
            metrics={
                "validation_loss": self.progress.best,
                "best_batch": self.progress.best_batch,
                "failed_batches": self.progress.failures,
                "seconds": round(self.progress.seconds, 1),
            },
        )

    def _weights(self) -> dict[str, Tensor]:
        return {name: value.detach().cpu().clone() for name, value in self.parameters.items()}

    def _take(self, weights: dict[str, Tensor]) -> None:
        self.optimizer.take({name: value.to(self.device) for name, value in weights.items()})

    def _take_from_leader(self) -> None:
        """Whatever weights the processes were given, they begin with those of one of them."""
        weights = self.meta.weights()
        self.team.broadcast_(weights)
        self.meta.put(weights)

    def _checkpoint(self) -> None:
        if self.out is None:
            return
        stream = self.stream_state()
        self.progress.log_bytes = self.log.flush() if self.log else 0
        if self.team.leads:
            Checkpoint(
                recipe=self.recipe.as_dict(),
                progress=self.progress,
                weights=self._weights(),
                best_weights=self.best_weights,
                meta={name: value.cpu() for name, value in self.meta.state().items()},
                generator=self.generator_state(),
                stream=stream,
            ).save(self.out / "checkpoint.pt")
        self.team.any(False)  # nobody goes on, or gives up, before it is written

    def _resume(self) -> None:
        if self.out is None:
            return
        if self.team.leads:
            for name in WRITTEN_WHOLE:
                remove_scratch(self.out / name)
        path = self.out / "checkpoint.pt"
        data = self.team.bytes_of_leader(lambda: path.read_bytes() if path.exists() else None)
        if data is None:
            return
        found = Checkpoint.load(path, self.recipe.as_dict(), data)
        self._take(found.weights)
        self.meta.load({name: value.to(self.device) for name, value in found.meta.items()})
        self.generator.set_state(found.generator)
        self.progress, self.best_weights, self.resumed = found.progress, found.best_weights, found.stream


@contextlib.contextmanager
def _interruptible(stop: threading.Event, insist: bool) -> Iterator[None]:
    """SIGINT and SIGTERM ask the run to stop after the batch in hand; with `insist` a second one acts at once.

    torchrun passes on every signal that a terminal has already sent to all: there the second one is no second wish,
    and torchrun itself kills processes that take too long.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    earlier: dict[int, Any] = {}

    def ask(number: int, frame: FrameType | None) -> None:
        stop.set()
        if insist:
            signal.signal(number, earlier[number])

    for number in (signal.SIGINT, signal.SIGTERM):
        earlier[number] = signal.signal(number, ask)
    try:
        yield
    finally:
        for known, handler in earlier.items():
            signal.signal(known, handler)


def _finite(value: float) -> float | None:
    """JSON has no NaN or infinity: they become null."""
    return value if math.isfinite(value) else None
