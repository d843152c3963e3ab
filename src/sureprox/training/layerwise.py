"""Layer-by-layer training of Ada-LISTA against reference solutions."""

import math
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import FISTA, State
from sureprox.problems import Problem
from sureprox.solve.solve import iterate, solve
from sureprox.training.config import LayerwiseConfig
from sureprox.training.run import TrainingRun
from sureprox.training.share import Share


class LayerwiseRun(TrainingRun):
    """Layer l = 1, 2, ... is added, then trained in three stages on |x_l - x*|^2 / |x*|^2, x* from restarted FISTA.

    Stage 1 learns the step and threshold of the new layer alone (and W1 and W2, with `matrices_first`), stages 2 and 3
    everything up to it with smaller rates. Only gradients of what a stage learns are kept. The problems are a fixed
    pool, drawn once; with `patience` a stage ends once so many passes over it have not improved the validation loss.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.config, LayerwiseConfig)
        generator = torch.Generator(self.device).manual_seed(self.config.seed)
        self.pool = [self._draw(self.share, generator) for _ in range(self.config.pool)]
        self.held_out = self._draw(self.validation_share, self.validation_generator())
        # of this stage: its best validation loss, and the passes over the pool since then
        self.watched = self.resumed.get("watched", torch.tensor([math.inf, 0.0], dtype=torch.float64))

    def learn(self) -> Tensor:
        assert isinstance(self.config, LayerwiseConfig)
        done = self.progress.batch
        layer, stage, step = self.config.position(done)
        if step == 0:
            self.meta.reset()
            self.watched = torch.tensor([math.inf, 0.0], dtype=torch.float64)
        if step == 0 and stage == 0 and layer > 0:  # a new layer starts where the one before it has arrived
            self._copy_layer(layer - 1, layer)
        loss = self._loss(*self.pool[done % len(self.pool)], layer + 1)
        gradients = torch.autograd.grad(loss, list(self.parameters.values()), allow_unused=True, materialize_grads=True)
        first = {f"step_sizes.{layer}", f"thresholds.{layer}"} | ({"W1", "W2"} if self.config.matrices_first else set())
        kept = [
            gradient if stage > 0 or name in first else torch.zeros_like(gradient)
            for name, gradient in zip(self.parameters, gradients, strict=True)
        ]
        whole, *kept = self.share.mean(loss.detach(), *kept)
        rates = [self.config.layer_decay ** self._above(name, layer) for name in self.parameters]
        outcome = self.meta.update(kept, torch.isfinite(whole), rates)
        if self.config.patience and (step + 1) % len(self.pool) == 0:
            self._watch(layer, step)
        return torch.cat([whole.double().reshape(1), outcome]).unsqueeze(0)

    def stream_state(self) -> dict[str, Tensor]:
        return {"watched": self.watched}

    def _above(self, name: str, layer: int) -> int:
        """How many layers there are above that of a weight; for W1 and W2, which all share, above the first."""
        return layer - int(name.rpartition(".")[2]) if "." in name else layer

    @torch.no_grad()
    def _watch(self, layer: int, step: int) -> None:
        """After a pass over the pool: go on to the last update of the stage if it has stopped improving."""
        assert isinstance(self.config, LayerwiseConfig)
        loss = float(self.validation_share.mean(self._loss(*self.held_out, layer + 1))[0])
        best, since = self.watched.tolist()
        best, since = (loss, 0.0) if loss < best else (best, since + 1)
        self.watched = torch.tensor([best, since], dtype=torch.float64)
        if since > self.config.patience:
            self.progress.batch += self.config.steps - 1 - step

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, Tensor]:
        """The loss after all layers; those not trained yet repeat the last one that is."""
        assert isinstance(self.config, LayerwiseConfig)
        layer = self.config.position(max(self.progress.batch - 1, 0))[0]
        for later in range(layer + 1, self.config.layers):
            self._copy_layer(layer, later)
        loss = self._loss(*self.held_out, self.config.layers)
        return loss, loss

    def _loss(self, problem: Problem, x0: Tensor, target: Tensor, layers: int) -> Tensor:
        state: State = self.optimizer.init(problem, x0)
        for after in iterate(problem, self.optimizer, state, layers):
            state = after
        distance = (state.x - target).square().sum(1)
        assert isinstance(self.config, LayerwiseConfig)
        return (distance / target.square().sum(1).clamp(min=1e-12) if self.config.relative else distance).mean()

    @torch.no_grad()
    def _copy_layer(self, source: int, target: int) -> None:
        for name in ("step_sizes", "thresholds"):
            self.parameters[f"{name}.{target}"].copy_(self.parameters[f"{name}.{source}"])

    @torch.no_grad()
    def _draw(self, share: Share, generator: torch.Generator) -> tuple[Problem, Tensor, Tensor]:
        problem = share.part(self.family.sample(share.total, generator, self.dtype))
        x0 = share.rows(self.family.start(share.total, generator, self.dtype))
        target = solve(problem, FISTA(restart=True), max_iter=2000, tol=1e-6, certify=False, check_every=50).x
        return problem, x0, target
