"""The interface of every optimizer: `init` makes a state, `step` returns the next one; nothing is written in place.

A step has two halves: `query` returns the point at which the gradient is needed, `move` does the rest. Code that knows
the gradient already, or needs F at that point too, calls the halves.
"""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Self, TypeVar

import torch
from torch import Generator, Tensor

from sureprox.base.errors import InputError
from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.checks import is_trusted, numbers

# Marks a state field of shape (layers, B * n, hidden): row i * n + j is coordinate j of instance i.
# h: Tensor = field(metadata=PER_COORDINATE)
PER_COORDINATE = {"layout": "per coordinate"}


@dataclass(frozen=True)
class Batched:
    """Tensors of a batch, batch first unless marked `PER_COORDINATE`; fields that are `Batched` themselves go along."""

    def detach(self) -> Self:
        """The same, cut off from the gradient history."""
        return self._map(lambda value, layout: value.detach())

    def clone(self) -> Self:
        """The same in memory of its own."""
        return self._map(lambda value, layout: value.clone())

    def changed(self, **values: Any) -> Self:
        """`dataclasses.replace`, unchecked and in one call: for the states of every iteration."""
        made = object.__new__(type(self))
        vars(made).update(vars(self), **values)
        return made

    def _map(self, change: Callable[[Tensor, str | None], Tensor]) -> Self:
        changed: dict[str, Any] = {}
        for f in fields(self):
            value = getattr(self, f.name)
            if isinstance(value, Tensor):
                changed[f.name] = change(value, f.metadata.get("layout"))
            elif isinstance(value, Batched):
                changed[f.name] = value._map(change)
        return replace(self, **changed)


@dataclass(frozen=True)
class State(Batched):
    """What an optimizer knows after k steps."""

    x: Vectors  # the current point
    k: int  # steps taken
    step_size: Scalars  # what stands for 1/L

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`."""
        n = self.x.shape[1]

        def pick(value: Tensor, layout: str | None) -> Tensor:
            if layout is None:
                return value[index]
            layers, _, width = value.shape
            return value.reshape(layers, -1, n, width)[:, index].reshape(layers, -1, width)

        return self._map(pick)

    def replaced(self, mask: Tensor, other: Self) -> Self:
        """This state, with the instances where `mask` (B,) holds taken from `other`; k stays."""
        n = self.x.shape[1]
        changed: dict[str, Any] = {}
        for f in fields(self):
            mine, theirs = getattr(self, f.name), getattr(other, f.name)
            if isinstance(mine, Tensor) and f.metadata.get("layout") is None:
                changed[f.name] = torch.where(mask.view(-1, *[1] * (mine.ndim - 1)), theirs, mine)
            elif isinstance(mine, Tensor):
                changed[f.name] = torch.where(mask.repeat_interleave(n).view(1, -1, 1), theirs, mine)
            elif isinstance(mine, State):
                changed[f.name] = mine.replaced(mask, theirs)
        return replace(self, **changed)


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class Seen:
    """What is known about f at a point y."""

    grad: Vectors  # grad f(y)


class Optimizer(ABC, Generic[S]):
    """A first-order method for a batch of problems.

    A subclass defines `init` and either `move`, with `query` where that is not x, or all of `step`.
    """

    reuses_memory: ClassVar[bool] = False  # whether later steps overwrite a state that was returned
    patience: ClassVar[int] = 0  # iterations on a GPU before it pays to prepare the steps for a smaller batch
    smallest: ClassVar[int] = 1  # a batch is not cut below this
    uses_lipschitz: ClassVar[bool] = True  # whether `init` needs 1/L
    fails_at_bounds: ClassVar[str] = ""  # why it cannot minimise under constraints, if it cannot
    same_every_step: ClassVar[bool] = False  # a step does not look at k, nor wait for the device: it can be recorded
    looks_once: ClassVar[bool] = True  # a step needs nothing of f but its gradient at `query`, and
    looks_at_its_point: ClassVar[bool] = True  # that is the gradient at x, so that F(x) costs nothing more

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.looks_once = cls.step is Optimizer.step
        cls.looks_at_its_point = cls.looks_once and cls.query is Optimizer.query

    @abstractmethod
    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> S:
        """The state at x0. `step_size` (B,) stands for 1/L; by default it is 1 / problem.lipschitz()."""

    def query(self, state: S) -> Vectors:
        """The point at which the next step needs the gradient of f."""
        return state.x

    def move(self, problem: Problem, state: S, seen: Seen) -> S:
        """The state after one more iteration, `seen` being what is known about f at `query(state)`.

        A method that defines `step` alone computes its own gradient.
        """
        if self.looks_once:
            raise NotImplementedError(f"{type(self).__name__} defines neither move nor step")
        return self.step(problem, state)

    def step(self, problem: Problem, state: S) -> S:
        """The state after one more iteration."""
        return self.move(problem, state, Seen(problem.grad(self.query(state))))

    def require_suits(self, problem: Problem) -> None:
        """Refuse problems that this method, or any method, cannot solve."""
        f, r = problem.f, problem.r
        if f.restricts and r.is_finite:
            raise InputError(
                f"{type(f).__name__} is infinite for some x, which {type(r).__name__} does not keep x from; "
                "use a penalty with bounds, such as NonNegative()"
            )
        if self.fails_at_bounds and r.restricts:
            raise InputError(
                f"{type(self).__name__} {self.fails_at_bounds}, and this penalty has bounds; "
                "use FISTA(restart=True), or no optimizer at all: solve(problem)"
            )

    def __repr__(self) -> str:
        """FISTA(restart=True): the arguments that are attributes of the same name."""
        known = inspect.signature(type(self).__init__).parameters
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in vars(self).items() if k in known)})"

    def rest(self, problem: Problem) -> None:
        """Called at the end of a run on `problem`: no state of it will be stepped again."""


def observed_step(
    optimizer: Optimizer[S], problem: Problem, state: S, operations: Operations = PLAIN
) -> tuple[Scalars, S]:
    """F at the point of `state`, and the next state, for the price of a step: both need the same product A x.

    For optimizers that query their point.
    """
    if not optimizer.looks_at_its_point:
        kind = type(optimizer).__name__
        raise InputError(f"{kind} does not ask for the gradient at its point; call step and problem.objective instead")
    y = problem.centred(state.x)
    observe = operations.observe
    value, grad = problem.f.value_and_grad(y) if observe is None else observe(problem, state.x)
    return value + problem.r.value(y), optimizer.move(problem, state, Seen(grad))


def resolve_step_size(problem: Problem, step_size: Any) -> Scalars:
    """The given step size (a number or one per instance), checked, or 1/L."""
    if step_size is None:
        return problem.step_size()
    value = numbers("step_size", step_size, problem.dtype, problem.device)
    if value.ndim == 0:
        value = value.expand(problem.batch)
    if value.shape != (problem.batch,):
        raise InputError(f"step_size has shape {tuple(value.shape)}; this problem needs ({problem.batch},)")
    if not is_trusted(value):
        check_step_size(value)
    return value


def unusable_steps(value: Tensor) -> Tensor:
    """(B,) bool."""
    return ~(torch.isfinite(value) & (value > 0))


def usable_steps(value: Tensor) -> Tensor:
    """The step sizes, and 1 for instances that have none: these are given up before the first iteration (`Run`)."""
    return torch.where(unusable_steps(value), torch.ones_like(value), value)


def check_step_size(value: Tensor) -> None:
    bad = unusable_steps(value)
    if bool(bad.any()):
        raise InputError(f"step_size is {float(value[bad][0]):g} for some instance; it must be finite and > 0")
