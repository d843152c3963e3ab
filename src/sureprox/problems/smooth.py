"""The smooth part f of a problem: value, gradient, smoothness constant.

Write your own by subclassing `Smooth`; to get a duality gap as well, implement `HasSmoothDual`.
"""

from abc import abstractmethod
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.batch import BatchData, defined_at, repeated_rows
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.dense import Dense
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class Smooth(BatchData):
    """A batch of convex L-smooth functions f_i on R^n."""

    @property
    def shape(self) -> tuple[int, int]:
        """(B, n). Every subclass defines it; see `ForeignSmooth` for objects that do not."""
        raise InputError(f"{type(self).__name__} does not say its size; give it a property shape -> (B, n)")

    @property
    def like(self) -> Tensor:
        """A tensor whose dtype and device are those of the data: the first of real numbers, or of complex ones."""
        held = self._tensors().values()
        for value in (*(v for v in held if v.is_floating_point()), *(v.real for v in held if v.is_complex())):
            return value
        raise InputError(f"{type(self).__name__} holds no tensor of floats; give it a property like -> Tensor")

    @property
    def guesses_curvature(self) -> bool:
        """Whether `lipschitz` is only a first guess: then steps of 1/L are safe in certified solves alone."""
        return False

    @property
    def restricts(self) -> bool:
        """Whether f is known to be infinite somewhere: then no rate is promised, only what a duality gap says."""
        return False

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that changes `value` or `grad` gets the plain `value_and_grad`: its parent's belongs to another f."""
        super().__init_subclass__(**options)
        both = defined_at(cls, "value_and_grad")
        if min(defined_at(cls, "value"), defined_at(cls, "grad")) < both:
            cls.value_and_grad = Smooth.value_and_grad  # type: ignore[method-assign]

    @abstractmethod
    def value(self, x: Vectors) -> Scalars:
        """f(x)."""

    @abstractmethod
    def grad(self, x: Vectors) -> Vectors:
        """grad f(x)."""

    def value_and_grad(self, x: Vectors) -> tuple[Scalars, Vectors]:
        """f(x) and grad f(x); where they share a product with A, it is computed once."""
        return self.value(x), self.grad(x)

    @abstractmethod
    def lipschitz(self, exact: bool = False) -> Scalars:
        """L with |grad f(x) - grad f(y)| <= L |x - y|."""


@runtime_checkable
class HasSmoothDual(Protocol):
    """f(x) = phi(A x): what the duality gap needs to know about phi, at the dual point s u, u = grad phi(A x).

    All of it is computed from z = inner(x), so that one product with A serves them all. The class of f must define
    `fenchel_young` itself: a subclass may be another function, so that it has no gap until it names its parent's,
    `fenchel_young = Parent.fenchel_young`.
    """

    def inner(self, x: Vectors) -> Rows:
        """z: A x, or what phi makes of it first, such as A x - b."""
        ...

    def value_at(self, z: Rows) -> Scalars:
        """f(x)."""
        ...

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """The best s in [low, high] (or a good one) for which phi* is finite at s u."""
        ...

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """phi(A x) + phi*(s u) - s <u, A x> >= 0, computed without cancellation."""
        ...


class LinearModel(Smooth):
    """f(x) = phi(A x), one A per instance (B, m, n) or one for all (m, n); everything is a function of z = inner(x).

    A is a tensor or an operator; `map` is the operator in either case.
    inner must be affine, so that the images of x and y give that of (1 + c) x - c y.
    """

    A: Tensor | Operator
    copies: int = 1  # points per instance, see `stacked`

    @property
    def like(self) -> Tensor:
        return self.A if isinstance(self.A, Tensor) else super().like

    @property
    def map(self) -> Operator:
        """A, for `copies` points per instance."""
        return Dense.of(self.A, self.copies) if isinstance(self.A, Tensor) else self.A.at(self.like)

    @property
    def m(self) -> int:
        """Numbers in an image."""
        return self.A.shape[-2]

    @property
    def n(self) -> int:
        return self.A.shape[-1]

    @abstractmethod
    def inner(self, x: Vectors) -> Rows:
        """z: A x, or what phi makes of it first, such as A x - b."""

    @abstractmethod
    def value_at(self, z: Rows) -> Scalars:
        """f(x)."""

    @abstractmethod
    def grad_at(self, z: Rows) -> Vectors:
        """grad f(x)."""

    def value(self, x: Vectors) -> Scalars:
        return self.value_at(self.inner(x))

    def grad(self, x: Vectors) -> Vectors:
        return self.grad_at(self.inner(x))

    def value_and_grad(self, x: Vectors) -> tuple[Scalars, Vectors]:
        z = self.inner(x)
        return self.value_at(z), self.grad_at(z)

    def repeated(self, count: int) -> Self:
        """A shared A and a single right-hand side, as a batch of `count` equal instances."""
        return self._map(lambda name, value: value if name == "A" else value.expand(count, -1))

    def stacked(self, copies: int) -> Self:
        """The same functions for `copies` points per instance, rows i * copies + j, at one read of A."""
        clone = self._map(
            lambda name, value: value if name == "A" else repeated_rows(value, copies),
            lambda name, part: part.stacked(copies) if isinstance(part, Operator) else part,
        )
        clone.copies = copies
        return clone

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`; of several points that share an A, those in `index`, each with its A."""
        if self.copies == 1:
            return super().select(index)
        points = torch.arange(self.shape[0], device=self.like.device)[index]
        rows = {"A": points // self.copies}
        clone = self._map(
            lambda name, value: value[rows.get(name, points)] if self._is_cut(name, value) else value,
            lambda name, part: part.select(points),
        )
        clone.copies = 1
        return clone

    @abstractmethod
    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """L; `largest` estimates the largest eigenvalue of A'A."""

    def _gram_norm(self, row_scale: Rows | None, exact: bool, largest: Largest) -> Scalars:
        """lambda_max(A' diag(s)^2 A), s = `row_scale` (B, m) or one."""
        return self.map.gram_norm(self.shape[0], exact, largest, row_scale)

    @abstractmethod
    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R C for columns C (B, m, k) of A, where Hessian f(x) = (R A)'(R A)."""

    @property
    @abstractmethod
    def steepness(self) -> float | Tensor:
        """c with phi'' <= c, a number or (B, 1): grad f has the Lipschitz constant c lambda_max(A'A)."""

    @property
    def row_curvature(self) -> Rows:
        """c (B, m) with Hessian f <= A' diag(c) A, or at least its diagonal."""
        like = self.like
        return torch.as_tensor(self.steepness, dtype=like.dtype, device=like.device).expand(self.shape[0], self.m)

    @abstractmethod
    def bregman(self, d: Rows, at: Rows) -> Scalars:
        """phi(at + d) - phi(at) - <grad phi(at), d> >= 0, computed without cancellation."""

    @abstractmethod
    def slope_bound(self, size: Tensor) -> Tensor:
        """An upper bound on |grad phi(z)| where |z| = size, (B, K) for K points per instance."""

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return super()._is_cut(name, value) and not (name == "A" and value.ndim == 2)  # a shared A stays whole
