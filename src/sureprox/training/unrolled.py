"""Truncated back-propagation through the steps of an optimizer, the paper's way of training."""

from typing import Any

import torch
from torch import Tensor

from sureprox.kernels import Compiled
from sureprox.optimizers import InitialState, Optimizer
from sureprox.training.backends import BackedRun
from sureprox.training.captured import CapturedSegments, capture
from sureprox.training.config import TrainingConfig
from sureprox.training.segment import PlainSegments, Start, validation_loss

WORTH_COMPILING = 2e9  # network evaluations (coordinates x iterations) from which compiling pays on a CPU


class UnrolledRun(BackedRun):
    """Every batch of fresh problems is unrolled `length` steps, the weights updated after each `segment` of them."""

    def __init__(self, backend: str, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.config, TrainingConfig)
        self.weights = self.config.loss.weights(self.config.segment)
        self.count = self.config.length // self.config.segment
        # what is trained: the same weights, perhaps started from another memory
        self.trainee = self.optimizer.sharing_weights(initial_state=InitialState(self.config.initial_state))
        self.upcoming: Start | None = None  # the next batch, where it is drawn before this one is done
        self.drawn = self.generator.get_state()  # from where the batch in hand, or the next one, is drawn
        self.validation_graph: tuple[torch.cuda.CUDAGraph, tuple[Tensor, Tensor]] | None = None
        work = self.config.total_batches * self.config.length * self.config.batch * self.family.n
        self.choose(backend, auto_on_cpu="compiled" if work > WORTH_COMPILING else "plain")
        generator = self.validation_generator()
        whole = self.family.sample(self.config.validation, generator, self.dtype)
        x0 = self.family.start(self.config.validation, generator, self.dtype)
        share = self.validation_share
        self.validation = share.part(whole)
        self.validation_state = share.begin(self.optimizer, whole, self.validation, x0, generator=generator)

    def learn(self) -> Tensor:
        # a second attempt (see `attempt`) must start where the first one did
        random, weights, meta = self.drawn, self.meta.weights(), self.meta.state()
        try:
            start = self.upcoming if self.upcoming is not None else self._draw(self.progress.batch)
            self.upcoming = None
            outcome = self.segments.run(start, self.count)
            self.drawn = self.generator.get_state()
            if isinstance(self.segments, CapturedSegments) and self.progress.batch + 1 < self.config.total_batches:
                with self.segments.beside():
                    self.upcoming = self._draw(self.progress.batch + 1)
            return outcome
        except Exception:
            self.upcoming, self.drawn = None, random
            self.generator.set_state(random)
            self.meta.put(weights)
            self.meta.load(meta)
            raise

    def generator_state(self) -> Tensor:
        return self.drawn

    def _draw(self, batch: int) -> Start:
        assert isinstance(self.config, TrainingConfig)
        if self.config.repeat and batch % self.config.batches == 0:  # from here on, what the first epoch has drawn
            self.generator.manual_seed(self.config.seed)
        problem = self.family.sample(self.config.batch, self.generator, self.dtype)
        x0 = self.family.start(self.config.batch, self.generator, self.dtype)
        return self.segments.begin(problem, x0, generator=self.generator)

    def validate(self) -> tuple[Tensor, Tensor]:
        if self.backend_name != "graph":
            return self._validation_loss()
        if self.validation_graph is None:
            self.validation_graph = capture(self._validation_loss)
        graph, losses = self.validation_graph
        graph.replay()
        return losses

    def _validation_loss(self) -> tuple[Tensor, Tensor]:
        assert isinstance(self.config, TrainingConfig)
        return validation_loss(self.validation, self.stepper, self.validation_state, self.config.length)

    def use_plain(self) -> None:
        self.stepper: Optimizer[Any] = self.optimizer
        self.segments: PlainSegments | CapturedSegments = PlainSegments(
            self.trainee, self.meta, self.weights, self.share
        )

    def use_quick(self) -> None:
        if self.backend_name == "graph":
            captured = CapturedSegments(self.trainee, self.meta, self.weights, self.share)
            self.network = captured.network
            self.stepper, self.segments = captured.optimizer, captured
        else:
            self.stepper = Compiled(self.trainee)
            self.segments = PlainSegments(self.stepper, self.meta, self.weights, self.share)
