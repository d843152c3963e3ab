"""The penalty r of a problem: value, proximal operator in a diagonal metric, bounds of the subdifferential.

Write your own by subclassing `Penalty`; to get a duality gap as well, implement `HasPenaltyDual`.
"""

from abc import abstractmethod
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Steps, Vectors
from sureprox.problems import checks
from sureprox.problems.batch import BatchData, repeated_rows


class Penalty(BatchData):
    """A batch of convex separable functions r(x) = sum_j r_j(x_j)."""

    finite_everywhere: ClassVar[bool] = False

    @property
    def is_finite(self) -> bool:
        """Whether r is known to be finite everywhere: a class says so itself (`finite_everywhere = True`)."""
        return self.states("finite_everywhere")

    def __init_subclass__(cls, **options: Any) -> None:
        """A class that does not define `difference` itself has the plain one: its parent's belongs to another r."""
        super().__init_subclass__(**options)
        if "difference" not in vars(cls):
            cls.difference = Penalty.difference  # type: ignore[method-assign]

    @abstractmethod
    def value(self, x: Vectors) -> Scalars:
        """r(x)."""

    @abstractmethod
    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """argmin_x r(x) + sum_j (x_j - v_j)^2 / (2 step_j)."""

    @abstractmethod
    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        """(low, high): the subdifferential of r at x is the box [low, high]."""

    def stacked(self, copies: int) -> Self:
        """The same functions for `copies` points per instance, rows i * copies + j. See `can_stack`."""
        raise NotImplementedError

    def difference(self, x: Vectors, y: Vectors) -> Scalars:
        """r(x) - r(y)."""
        return self.value(x) - self.value(y)


@runtime_checkable
class HasPenaltyDual(Protocol):
    """What the duality gap needs to know about r*.

    The class of r must define `fenchel_young` itself: a subclass may be another function, so that it has no gap until
    it names its parent's, `fenchel_young = Parent.fenchel_young`.
    """

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """(low, high): all s with r*(-s g) finite."""
        ...

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """r(x) + r*(-s g) + s <g, x> >= 0, computed without cancellation."""
        ...


class L1(Penalty):
    """r(x) = lam |x|_1, lam >= 0 a number or one per instance (B,)."""

    batched = ("lam",)
    stackable = True
    finite_everywhere = True

    def __init__(self, lam: Any) -> None:
        # a plain number is kept in float64, so that `Problem` rounds it once, to its own precision
        tensor = lam if isinstance(lam, Tensor) else checks.numbers("lam", lam, torch.float64)
        if not tensor.is_floating_point():
            tensor = tensor.double()
        if tensor.ndim > 1:
            raise InputError(f"lam has shape {tuple(tensor.shape)}; pass a number or shape (B,)")
        bad = ~(torch.isfinite(tensor.detach()) & (tensor.detach() >= 0))
        if bool(bad.any()):
            raise InputError(f"lam is {float(tensor.detach()[bad][0]):g} somewhere; it must be finite and >= 0")
        self.lam = tensor

    def stacked(self, copies: int) -> Self:
        return self._map(lambda name, value: value if value.ndim == 0 else repeated_rows(value, copies))

    def value(self, x: Vectors) -> Scalars:
        return self.lam * x.abs().sum(1)

    def difference(self, x: Vectors, y: Vectors) -> Scalars:
        """lam sum_j (|x_j| - |y_j|): the terms of close points are small, so nothing is lost in the sum."""
        return self.lam * (x.abs() - y.abs()).sum(1)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """Soft threshold: sign(v) max(|v| - lam step, 0)."""
        return soft_threshold(v, self._column * step)

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        """lam sign(x) where x != 0, [-lam, lam] where x = 0."""
        slope = self._column * torch.sign(x)
        kink = self._column * (x == 0)
        return slope - kink, slope + kink

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """|s| <= lam / max_j |g_j|: then |s g_j| <= lam for all j."""
        largest = g.abs().amax(1)
        limit = torch.where(largest > 0, self.lam / largest, torch.inf)
        return -limit, limit

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """sum_j (lam |x_j| + s g_j x_j), every term >= 0 where |s g_j| <= lam."""
        terms = self._column * x.abs() + scale.unsqueeze(1) * g * x
        return terms.clamp(min=0).sum(1)

    @property
    def _column(self) -> Tensor:
        return self.lam.unsqueeze(-1)


class WeightedL1(Penalty):
    """r(x) = sum_j w_j |x_j|, weights w >= 0 of shape (n,), or (B, n) for weights of their own for each instance.

    A weight of zero leaves its coordinate free, such as an intercept. `Problem.duality_gap` then says something only
    where the gradient vanishes there; a solve is judged by `free_gap` instead (`StoppingRule`).
    """

    batched = ("weights",)
    stackable = True
    finite_everywhere = True

    def __init__(self, weights: Any) -> None:
        tensor = checks.as_tensor("weights", weights)
        if tensor.ndim not in (1, 2):
            raise InputError(f"weights has shape {tuple(tensor.shape)}; pass (n,) or (B, n)")
        checks.require_finite("weights", tensor)
        if bool((tensor < 0).any()):
            raise InputError(f"weights is {float(tensor.detach().min()):g} somewhere; it must be >= 0")
        self.weights = tensor

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return super()._is_cut(name, value) and not (name == "weights" and value.ndim == 1)

    def stacked(self, copies: int) -> Self:
        return self._map(lambda name, value: value if value.ndim == 1 else repeated_rows(value, copies))

    def value(self, x: Vectors) -> Scalars:
        return (self.weights * x.abs()).sum(1)

    def difference(self, x: Vectors, y: Vectors) -> Scalars:
        """sum_j w_j (|x_j| - |y_j|), small terms for close points."""
        return (self.weights * (x.abs() - y.abs())).sum(1)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """Soft threshold: sign(v) max(|v| - w step, 0)."""
        return soft_threshold(v, self.weights * step)

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        """w_j sign(x_j) where x_j != 0, [-w_j, w_j] where x_j = 0."""
        slope = self.weights * torch.sign(x)
        kink = self.weights * (x == 0)
        return slope - kink, slope + kink

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """|s| <= min_j w_j / |g_j|: then |s g_j| <= w_j for all j."""
        size = g.abs()
        limit = torch.where(size > 0, self.weights / size, torch.inf).amin(1)
        return -limit, limit

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """sum_j (w_j |x_j| + s g_j x_j), every term >= 0 where |s g_j| <= w_j."""
        terms = self.weights * x.abs() + scale.unsqueeze(1) * g * x
        return terms.clamp(min=0).sum(1)


class Zero(Penalty):
    """r(x) = 0."""

    batched = ()
    stackable = True
    finite_everywhere = True

    def stacked(self, copies: int) -> Self:
        return self

    def value(self, x: Vectors) -> Scalars:
        return torch.zeros_like(x[:, 0])

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        return v

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        return torch.zeros_like(x), torch.zeros_like(x)

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """Only s = 0, unless g = 0."""
        limit = torch.where(g.abs().amax(1) > 0, 0.0, torch.inf).to(g.dtype)
        return -limit, limit

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        return torch.zeros_like(x[:, 0])


def soft_threshold(v: Tensor, threshold: Tensor) -> Tensor:
    """sign(v) max(|v| - threshold, 0), as v minus its projection on [-threshold, threshold]: fewer passes over v."""
    clipped = torch.minimum(v, threshold)
    if clipped.requires_grad or torch.compiler.is_dynamo_compiling():
        return v - torch.maximum(clipped, -threshold)
    torch.maximum(clipped, -threshold, out=clipped)  # memory of our own: nobody else has seen it
    return torch.sub(v, clipped, out=clipped)
