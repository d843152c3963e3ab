"""Adapters for a user's own smooth part or penalty: any object with the right three methods will do."""

import copy
import inspect
from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Steps, Vectors
from sureprox.problems.batch import BatchData
from sureprox.problems.operators.base import Operator
from sureprox.problems.penalties import Penalty
from sureprox.problems.smooth import Smooth


class Foreign(BatchData):
    """Holds a user's object. Its tensor attributes are moved with it; it is never cut into smaller batches."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def _map(
        self,
        change: Callable[[str, Tensor], Tensor],
        change_part: Callable[[str, BatchData], BatchData] = lambda name, part: part,
    ) -> Self:
        clone = copy.copy(self)
        clone.inner = copy.copy(self.inner)
        for name, value in self._tensors().items():
            setattr(clone.inner, name, change(name, value))
        for name, part in self._parts().items():
            setattr(clone.inner, name, change_part(name, part))
        return clone

    def _tensors(self) -> dict[str, Tensor]:
        held = getattr(self.inner, "__dict__", {})
        return {name: value for name, value in held.items() if isinstance(value, Tensor)}

    def _parts(self) -> dict[str, BatchData]:
        held = getattr(self.inner, "__dict__", {})
        return {name: value for name, value in held.items() if isinstance(value, BatchData)}


class ForeignSmooth(Foreign, Smooth):
    """f from an object with value(x), grad(x) and lipschitz().

    The batch size is the length of lipschitz(); n is taken from `shape`, `n` or the last dimension of `A`.
    """

    def __init__(self, inner: Any) -> None:
        super().__init__(inner)
        bound = inner.lipschitz()
        if not isinstance(bound, Tensor) or bound.ndim != 1:
            raise InputError(f"{type(inner).__name__}.lipschitz() must return a tensor (B,), one L per instance")
        self.bound = bound
        self.size = (bound.shape[0], _width(inner))

    @property
    def shape(self) -> tuple[int, int]:
        return self.size

    @property
    def like(self) -> Tensor:
        return self.bound

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        clone = super().to(device, dtype)
        clone.bound = self.bound.to(device=device, dtype=dtype)
        return clone

    def value(self, x: Vectors) -> Scalars:
        return _tensor(self.inner.value(x))

    def grad(self, x: Vectors) -> Vectors:
        return _tensor(self.inner.grad(x))

    def lipschitz(self, exact: bool = False) -> Scalars:
        if exact and "exact" in inspect.signature(self.inner.lipschitz).parameters:
            return _tensor(self.inner.lipschitz(exact=True))
        return _tensor(self.inner.lipschitz())


class ForeignPenalty(Foreign, Penalty):
    """r from an object with value(x), prox(v, step) and subdiff(x)."""

    def value(self, x: Vectors) -> Scalars:
        return _tensor(self.inner.value(x))

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        return _tensor(self.inner.prox(v, step))

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        low, high = self.inner.subdiff(x)
        return low, high


def adopt_smooth(f: Any) -> Smooth:
    """f itself if it is a complete `Smooth`, else an adapter around it."""
    if isinstance(f, Smooth) and type(f).shape is not Smooth.shape:
        return f
    _require("f", f, ("value", "grad", "lipschitz"))
    return ForeignSmooth(f)


def adopt_penalty(r: Any) -> Penalty:
    """r itself if it is a `Penalty`, else an adapter around it."""
    if isinstance(r, Penalty):
        return r
    _require("r", r, ("value", "prox", "subdiff"))
    return ForeignPenalty(r)


def _require(name: str, part: Any, methods: tuple[str, ...]) -> None:
    if isinstance(part, type):
        raise InputError(f"{name} is the class {part.__name__}; pass an object made of it")
    missing = [method for method in methods if not callable(getattr(part, method, None))]
    if missing:
        kind = type(part).__name__
        raise InputError(f"{name} is a {kind} without {', '.join(missing)}; it needs {', '.join(methods)}")


def _tensor(value: Any) -> Tensor:
    if not isinstance(value, Tensor):
        raise InputError(f"your own part returned a {type(value).__name__}; every method must return a torch tensor")
    return value


def _width(inner: Any) -> int:
    n, matrix = getattr(inner, "n", None), getattr(inner, "A", None)
    if isinstance(n, int):
        return n
    if not isinstance(inner, Smooth) and isinstance(getattr(inner, "shape", None), tuple):
        return int(inner.shape[-1])
    if isinstance(matrix, Operator) or (isinstance(matrix, Tensor) and matrix.ndim >= 2):
        return matrix.shape[-1]
    raise InputError(f"{type(inner).__name__} does not say how many coordinates it has; give it an attribute n")
