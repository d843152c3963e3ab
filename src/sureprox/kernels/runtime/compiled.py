"""An optimizer whose step is one compiled function of tensors."""

import os
import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from types import FunctionType
from typing import Any, TypeVar

import torch
from torch import Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.optimizers import Optimizer, State
from sureprox.optimizers.base import S, observed_step
from sureprox.problems import Problem

T = TypeVar("T")


def compiler_available(device: torch.device) -> bool:
    """Whether `torch.compile` has what it needs: Triton on a GPU, a C++ compiler on a CPU."""
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return bool(has_triton())
    return shutil.which(os.environ.get("CXX", "c++")) is not None


class Compiled(Optimizer[S]):
    """The same optimizer, its step compiled by `torch.compile` without graph breaks.

    For optimizers whose step does not depend on the step number k: the learned ones on `CoordinateNetwork`, ISTA and
    FISTA (these two without `observed_step`). The first step of each shape, dtype, device and gradient mode compiles,
    which takes seconds to a minute.
    """

    def __init__(self, optimizer: Optimizer[S], mode: str | None = None, operations: Operations = PLAIN) -> None:
        self.inner = optimizer
        self.operations = operations
        self._step = torch.compile(with_own_code(_step), fullgraph=True, dynamic=False, mode=mode)
        self._observed = torch.compile(with_own_code(_observed_step), fullgraph=True, dynamic=False, mode=mode)

    def init(self, problem: Problem, x0: Tensor, **options: Any) -> S:
        return self.inner.init(problem, x0, **options)

    def step(self, problem: Problem, state: S) -> S:
        names = tensor_fields(state)
        values = self._step(self.inner, problem, type(state), names, tuple(getattr(state, name) for name in names))
        return replace(state, k=state.k + 1, **dict(zip(names, values, strict=True)))

    def observed_step(self, problem: Problem, state: S) -> tuple[Tensor, S]:
        """F at the point of `state`, and the next state (see `sureprox.optimizers.base`)."""
        names = tensor_fields(state)
        values = tuple(getattr(state, name) for name in names)
        objective, after = self._observed(self.inner, problem, self.operations, type(state), names, values)
        return objective, replace(state, k=state.k + 1, **dict(zip(names, after, strict=True)))


def _step(
    optimizer: Optimizer[S], problem: Problem, kind: type[S], names: tuple[str, ...], values: tuple[Tensor, ...]
) -> tuple[Tensor, ...]:
    """One step as a function of tensors alone; k is fixed, so that it is not compiled anew for every k."""
    after = optimizer.step(problem, kind(k=0, **dict(zip(names, values, strict=True))))
    return tuple(getattr(after, name) for name in names)


def _observed_step(
    optimizer: Optimizer[S],
    problem: Problem,
    operations: Operations,
    kind: type[S],
    names: tuple[str, ...],
    values: tuple[Tensor, ...],
) -> tuple[Tensor, tuple[Tensor, ...]]:
    state = kind(k=0, **dict(zip(names, values, strict=True)))
    objective, after = observed_step(optimizer, problem, state, operations)
    return objective, tuple(getattr(after, name) for name in names)


def with_own_code(function: Callable[..., T]) -> Callable[..., T]:
    """A copy of `function`: torch.compile counts recompilations per code object, and each optimizer has its own."""
    assert isinstance(function, FunctionType)
    return FunctionType(function.__code__.replace(), function.__globals__)


def tensor_fields(state: State) -> tuple[str, ...]:
    """Names of the tensor fields of a state."""
    return tuple(f.name for f in fields(state) if isinstance(getattr(state, f.name), Tensor))
