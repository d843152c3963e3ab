"""One segment of truncated back-propagation: unroll, average the objectives, differentiate, update the weights."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sureprox.backends import Compiled
from sureprox.optimizers import Optimizer, State
from sureprox.problems import Problem
from sureprox.solve import iterate
from sureprox.training.meta import MetaAdam


def objectives(problem: Problem, optimizer: Optimizer[Any], state: State, steps: int) -> tuple[list[Tensor], State]:
    """F (B,) after each of the next `steps` steps, and the state after them; every x is multiplied with A once."""
    values = []
    if isinstance(optimizer, Compiled):
        for _ in range(steps):
            before, state = optimizer.observed_step(problem, state)
            values.append(before)
        return [*values[1:], problem.objective(state.x)], state
    problem = problem.remembering()
    for after in iterate(problem, optimizer, state, steps):
        values.append(problem.objective(after.x))
        state = after
    return values, state


def segment_loss(
    problem: Problem, optimizer: Optimizer[Any], state: State, weights: Sequence[float]
) -> tuple[Tensor, State]:
    """sum_i w_i mean_B F(x_i) over the next len(weights) steps, and the state after them."""
    values, state = objectives(problem, optimizer, state, len(weights))
    terms = [weight * value.mean() for weight, value in zip(weights, values, strict=True)]
    return torch.stack(terms).sum(), state


def meta_gradients(
    problem: Problem, optimizer: Optimizer[Any], state: State, weights: Sequence[float], parameters: Sequence[Tensor]
) -> tuple[Tensor, tuple[Tensor, ...], State]:
    """Loss, its gradient with respect to the weights, and the state after the segment, cut off."""
    loss, after = segment_loss(problem, optimizer, state, weights)
    gradients = torch.autograd.grad(loss, list(parameters), allow_unused=True, materialize_grads=True)
    return loss.detach(), gradients, after.detach()


class PlainSegments:
    """Runs the segments of one batch of problems, step by step."""

    def __init__(self, optimizer: Optimizer[Any], meta: MetaAdam, weights: Sequence[float]) -> None:
        self.optimizer = optimizer
        self.meta = meta
        self.weights = list(weights)

    def run(self, problem: Problem, x0: Tensor, count: int, **options: Any) -> Tensor:
        """(count, 3): loss, norm of the gradient and whether the update was taken, per segment.

        From the first unsound segment on, nothing more is learned from this batch.
        """
        state = self.optimizer.init(problem, x0, **options)
        sound = torch.ones((), dtype=torch.bool, device=problem.device)
        rows = []
        for _ in range(count):
            loss, gradients, state = meta_gradients(problem, self.optimizer, state, self.weights, self.meta.parameters)
            outcome = self.meta.update(gradients, sound & torch.isfinite(loss))
            sound = outcome[1] > 0
            rows.append(torch.cat([loss.double().reshape(1), outcome]))
        return torch.stack(rows)


@torch.no_grad()
def validation_loss(problem: Problem, optimizer: Optimizer[Any], state: State, length: int) -> tuple[Tensor, Tensor]:
    """(mean of F over all iterations and instances, mean of F after the last), in float64."""
    values, _ = objectives(problem, optimizer, state, length)
    means = torch.stack(values).double().mean(1)
    return means.mean(), means[-1]
