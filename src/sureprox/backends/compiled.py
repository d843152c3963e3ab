"""An optimizer whose step is one compiled function of tensors."""

import os
import shutil
from dataclasses import fields, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import Optimizer, State
from sureprox.optimizers.base import S
from sureprox.problems import Problem


def compiler_available(device: torch.device) -> bool:
    """Whether `torch.compile` has what it needs: Triton on a GPU, a C++ compiler on a CPU."""
    if device.type == "cuda":
        from torch.utils._triton import has_triton

        return bool(has_triton())
    return shutil.which(os.environ.get("CXX", "c++")) is not None


class Compiled(Optimizer[S]):
    """The same optimizer, its step compiled by `torch.compile` without graph breaks.

    For optimizers whose step does not depend on the step number k: the learned ones on `CoordinateNetwork`, ISTA and
    FISTA. The first step of each shape, dtype, device and gradient mode compiles (seconds to a minute).
    """

    def __init__(self, optimizer: Optimizer[S], mode: str | None = None) -> None:
        self.inner = optimizer
        self._compiled = torch.compile(self._pure, fullgraph=True, dynamic=False, mode=mode)

    def init(self, problem: Problem, x0: Tensor, **options: Any) -> S:
        return self.inner.init(problem, x0, **options)

    def step(self, problem: Problem, state: S) -> S:
        names = tensor_fields(state)
        values = self._compiled(problem, type(state), names, tuple(getattr(state, name) for name in names))
        return replace(state, k=state.k + 1, **dict(zip(names, values, strict=True)))

    def _pure(
        self, problem: Problem, kind: type[S], names: tuple[str, ...], values: tuple[Tensor, ...]
    ) -> tuple[Tensor, ...]:
        after = self.inner.step(problem, kind(k=0, **dict(zip(names, values, strict=True))))
        return tuple(getattr(after, name) for name in names)


def tensor_fields(state: State) -> tuple[str, ...]:
    """Names of the tensor fields of a state."""
    return tuple(f.name for f in fields(state) if isinstance(getattr(state, f.name), Tensor))
