"""The interface of every optimizer: `init` makes a state, `step` returns the next one; nothing is written in place."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Generic, Self, TypeVar

import torch
from torch import Tensor

from sureprox.errors import InputError
from sureprox.problems import Problem
from sureprox.problems.checks import numbers
from sureprox.types import Scalars, Vectors

# Marks a state field of shape (layers, B * n, hidden): row i * n + j is coordinate j of instance i.
# h: Tensor = field(metadata=PER_COORDINATE)
PER_COORDINATE = {"layout": "per coordinate"}


@dataclass(frozen=True)
class State:
    """What an optimizer knows after k steps. Tensor fields have the batch first, unless marked `PER_COORDINATE`."""

    x: Vectors  # the current point
    k: int  # steps taken
    step_size: Scalars  # what stands for 1/L

    def detach(self) -> Self:
        """The same state, cut off from the gradient history."""
        return self._map(lambda value, layout: value.detach())

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`."""
        n = self.x.shape[1]

        def pick(value: Tensor, layout: str | None) -> Tensor:
            if layout is None:
                return value[index]
            layers, _, width = value.shape
            return value.reshape(layers, -1, n, width)[:, index].reshape(layers, -1, width)

        return self._map(pick)

    def _map(self, change: Callable[[Tensor, str | None], Tensor]) -> Self:
        changed: dict[str, Any] = {
            f.name: change(value, f.metadata.get("layout"))
            for f in fields(self)
            if isinstance(value := getattr(self, f.name), Tensor)
        }
        return replace(self, **changed)


S = TypeVar("S", bound=State)


class Optimizer(ABC, Generic[S]):
    """A first-order method for a batch of problems."""

    @abstractmethod
    def init(
        self,
        problem: Problem,
        x0: Vectors,
        *,
        generator: torch.Generator | None = None,
        step_size: Scalars | None = None,
    ) -> S:
        """The state at x0. `step_size` (B,) stands for 1/L; by default it is 1 / problem.lipschitz()."""

    @abstractmethod
    def step(self, problem: Problem, state: S) -> S:
        """The state after one more iteration."""


def resolve_step_size(problem: Problem, step_size: Any) -> Scalars:
    """The given step size (a number or one per instance), checked, or 1/L."""
    if step_size is None:
        return problem.step_size()
    value = numbers("step_size", step_size, problem.dtype, problem.device)
    if value.ndim == 0:
        value = value.expand(problem.batch)
    if value.shape != (problem.batch,):
        raise InputError(f"step_size has shape {tuple(value.shape)}; this problem needs ({problem.batch},)")
    bad = ~(torch.isfinite(value) & (value > 0))
    if bool(bad.any()):
        raise InputError(f"step_size is {float(value[bad][0]):g} for some instance; it must be finite and > 0")
    return value
