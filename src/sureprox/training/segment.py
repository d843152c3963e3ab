"""One segment of truncated back-propagation: unroll, average the objectives, differentiate, update the weights."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sureprox.kernels import Compiled
from sureprox.optimizers import Optimizer, State
from sureprox.optimizers.base import observed_step
from sureprox.problems import Problem
from sureprox.training.meta import MetaAdam
from sureprox.training.share import Share
from sureprox.training.team import Team


def objectives(problem: Problem, optimizer: Optimizer[Any], state: State, steps: int) -> tuple[list[Tensor], State]:
    """F (B,) after each of the next `steps` steps, and the state after them.

    Every x is multiplied with A once, where the optimizer looks at x itself.
    """
    own = optimizer.inner if isinstance(optimizer, Compiled) else optimizer
    if not own.looks_at_its_point:
        return _objectives(problem, optimizer, state, steps)
    step = optimizer.observed_step if isinstance(optimizer, Compiled) else partial(observed_step, optimizer)
    values = []
    for _ in range(steps):
        before, state = step(problem, state)
        values.append(before)
    return [*values[1:], problem.objective(state.x)], state


def _objectives(problem: Problem, optimizer: Optimizer[Any], state: State, steps: int) -> tuple[list[Tensor], State]:
    """The same for an optimizer that looks elsewhere than at x, at the price of a product more in each step."""
    values = []
    for _ in range(steps):
        state = optimizer.step(problem, state)
        values.append(problem.objective(state.x))
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


class Course:
    """Whether there is still something to learn from the batch in hand, decided on the device.

    A batch ends early after a segment whose loss or gradient is not finite (`FAILED`, nothing was learned from it), or
    whose loss has grown to `DIVERGED` times the objective at the start: an untrained optimizer may diverge, and what
    comes after that is of no use, though every number is still finite.
    """

    TAKEN, FAILED, ENDED = 1.0, 0.0, -1.0
    DIVERGED = 1e4

    def __init__(self, device: torch.device) -> None:
        self.alive = torch.ones((), dtype=torch.bool, device=device)
        self.start = torch.zeros((), dtype=torch.float64, device=device)  # mean objective before the first step

    def begin(self, problem: Problem, x0: Tensor) -> None:
        self.alive.fill_(True)
        self.start.copy_(problem.objective(x0).double().mean())

    def learn(self, meta: MetaAdam, loss: Tensor, gradients: Sequence[Tensor], start: Tensor | None = None) -> Tensor:
        """Update the weights if all is well; (loss, norm of the gradient, TAKEN, FAILED or ENDED).

        `start`: the mean objective at the start over the whole batch, where this process has only a share of it.
        """
        norm, taken = meta.update(gradients, self.alive & torch.isfinite(loss))
        code = torch.where(self.alive, taken, self.ENDED)
        self.alive.copy_(self.alive & (taken > 0) & (loss <= self.DIVERGED * (self.start if start is None else start)))
        return torch.stack([loss.double(), norm, code])


class Start(NamedTuple):
    """A batch of problems and the states before the first step."""

    problem: Problem
    state: State


class PlainSegments:
    """Runs the segments of one batch of problems, step by step."""

    def __init__(
        self, optimizer: Optimizer[Any], meta: MetaAdam, weights: Sequence[float], share: Share | None = None
    ) -> None:
        self.optimizer = optimizer
        self.meta = meta
        self.weights = list(weights)
        self.share = share or Share(Team(), "batch", 1)

    def begin(self, problem: Problem, x0: Tensor, **options: Any) -> Start:
        """Take over this process's share of a batch of problems."""
        mine = self.share.part(problem)
        return Start(mine, self.share.begin(self.optimizer, problem, mine, x0, **options))

    def run(self, start: Start, count: int) -> Tensor:
        """(count, 3): what `Course.learn` says of each segment."""
        problem, state = start
        course = Course(problem.device)
        course.begin(problem, state.x)
        rows = []
        for _ in range(count):
            loss, gradients, state = meta_gradients(problem, self.optimizer, state, self.weights, self.meta.parameters)
            loss, first, *shared = self.share.mean(loss, course.start, *gradients)
            rows.append(course.learn(self.meta, loss, shared, first))
        return torch.stack(rows)


@torch.no_grad()
def validation_loss(problem: Problem, optimizer: Optimizer[Any], state: State, length: int) -> tuple[Tensor, Tensor]:
    """(mean of F over all iterations and instances, mean of F after the last), in float64."""
    values, _ = objectives(problem, optimizer, state, length)
    means = torch.stack(values).double().mean(1)
    return means.mean(), means[-1]
