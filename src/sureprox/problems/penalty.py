"""The penalty r of a problem: value, proximal operator in a diagonal metric, subdifferential.

Write your own by subclassing `Penalty`; to get a duality gap as well, implement `HasPenaltyDual`.
"""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Steps, Vectors
from sureprox.problems.batch import BatchData

Best = Callable[[Scalars, Scalars], Scalars]  # (low, high): the s in [low, high] that is best for f alone


class Penalty(BatchData):
    """A batch of convex separable functions r(x) = sum_j r_j(x_j), unless a class says otherwise by `distance`."""

    finite_everywhere: ClassVar[bool] = False

    @property
    def is_finite(self) -> bool:
        """Whether r is known to be finite everywhere: its class sets `finite_everywhere = True`."""
        return self.states("finite_everywhere")

    @property
    def restricts(self) -> bool:
        """Whether r is known to be infinite somewhere."""
        return False

    def __init_subclass__(cls, constructor: bool = False, **options: Any) -> None:
        """A class without a `difference` of its own gets the plain one: its parent's belongs to another r.

        `constructor`: the class is another way to make its parent, the same function, and inherits what that proves.
        """
        super().__init_subclass__(**options)
        if constructor:
            for name in ("batched", "stackable", "finite_everywhere", "difference", "fenchel_young"):
                setattr(cls, name, getattr(cls, name))
        elif "difference" not in vars(cls):
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

    def distance(self, x: Vectors, g: Vectors) -> Vectors:
        """The sizes |d_j| of the shortest d with -g + d in the subdifferential of r at x."""
        low, high = self.subdiff(x)
        return torch.maximum(low + g, -g - high).clamp(min=0)

    def slope(self, x: Vectors) -> Vectors:
        """A subgradient: the middle of the subdifferential, its finite end where it has one, 0 where it has none."""
        low, high = self.subdiff(x)
        one_sided = torch.where(torch.isfinite(low), low, torch.where(torch.isfinite(high), high, 0.0))
        return torch.where(torch.isfinite(low) & torch.isfinite(high), (low + high) / 2, one_sided)

    def least_slope(self, x: Vectors) -> Vectors:
        """kappa >= 0 with r(y) - r(0) >= sum_j kappa_j |y_j| for all y (B, n) like x."""
        low, high = self.subdiff(torch.zeros_like(x))
        return torch.minimum(high, -low).clamp(min=0)

    def curvature(self, x: Vectors) -> Vectors:
        """c with r - sum_j c_j x_j^2 / 2 convex."""
        return torch.zeros_like(x)

    def certain_zeros(self, g: Vectors, reach: Vectors) -> Tensor:
        """(B, n) bool: x_j = 0 wherever -h is a subgradient of r at x and |h_j - g_j| <= reach_j for all j."""
        return torch.zeros_like(g, dtype=torch.bool)

    def certain_rest(self, x: Vectors, g: Vectors, reach: Vectors) -> Tensor:
        """(B, n) bool: y_j = x_j wherever -h is a subgradient of r at y and |h_j - g_j| <= reach_j for all j."""
        return self.certain_zeros(g, reach) & (x == 0)

    def room(self, x: Vectors) -> Vectors:
        """(B, n) how far x_j is from all points at which r_j has no second derivative; 0 if that is not known."""
        return torch.zeros_like(x)

    def excludes_zero(self, x: Vectors) -> Tensor:
        """(B, n) bool: r is infinite where x_j = 0."""
        return torch.zeros_like(x, dtype=torch.bool)

    def fitted(self, batch: int, n: int) -> Self:
        """This penalty for points (batch, n), or an error that says why it does not fit."""
        return self

    def settled(self, x: Vectors, slack: Vectors) -> Vectors:
        """x, with what is within `slack` of the border of the domain put on the border."""
        return x

    def dual_scales(self, g: Vectors, best: Best) -> list[Scalars]:
        """Of a penalty that has a `dual_range`: the s in it that is best for f, as if r* were zero there."""
        assert isinstance(self, HasPenaltyDual)
        return [best(*self.dual_range(g))]

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

    def dual_scales(self, g: Vectors, best: Best) -> list[Scalars]:
        """The s worth trying, all in `dual_range`: the gap is the smallest that one of them gives."""
        ...


@runtime_checkable
class HasLooseCoordinates(Protocol):
    """A penalty that says which coordinates it leaves without cost on an unbounded side."""

    def loose(self, x: Vectors) -> tuple[Tensor, Tensor]:
        """(up, down), (B, n) bool: r_j*(p) is infinite for all p > 0, or all p < 0, so that scaling p is no help."""
        ...
