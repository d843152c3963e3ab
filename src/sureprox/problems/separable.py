"""The separable penalty: l1, l2 and bounds, in one class; the usual names are constructors of it."""

from typing import Any, ClassVar, Self, TypeGuard

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Steps, Vectors
from sureprox.problems import checks
from sureprox.problems.batch import repeated_rows
from sureprox.problems.penalty import Best, Penalty


class Separable(Penalty):
    """r(x) = sum_j [l1_j |x_j| + l2_j/2 x_j^2] where low_j <= x_j <= high_j for all j, else infinite.

    Each of l1, l2 >= 0, low <= high is a number, (B,) for each instance, (n,) for each coordinate, or (B, n); bounds
    may be infinite. Where B = n, pass (1, n) or (B, 1) in place of one dimension.

    What a penalty does not have is None and costs nothing. A coordinate with l1 = l2 = 0 and no bounds is free, such
    as an intercept.
    """

    batched: ClassVar[tuple[str, ...] | None] = ("l1", "l2", "low", "high")
    stackable = True
    l1: Tensor | None = None
    l2: Tensor | None = None
    low: Tensor | None = None
    high: Tensor | None = None
    placed: bool = False  # it belongs to a problem: what has one dimension is (B,), even where B = n

    def __init__(self, l1: Any = 0.0, l2: Any = 0.0, low: Any = None, high: Any = None) -> None:
        self.l1 = _weights("l1", l1)
        self.l2 = _weights("l2", l2)
        self.low = _bounds("low", low, -torch.inf)
        self.high = _bounds("high", high, torch.inf)
        if self.low is not None and self.high is not None and self.low.shape == self.high.shape:
            _require_order(self.low, self.high)

    @property
    def is_finite(self) -> bool:
        return self.states("fenchel_young") and self.low is None and self.high is None

    @property
    def restricts(self) -> bool:
        return self.low is not None or self.high is not None

    def fitted(self, batch: int, n: int) -> Self:
        clone = self._map(lambda name, value: _fitted(name, value, batch, n, self.placed))
        clone.placed = True
        if clone.low is not None and clone.high is not None:
            _require_order(*torch.broadcast_tensors(column(clone.low), column(clone.high)))
        return clone

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return super()._is_cut(name, value) and not (value.ndim == 2 and value.shape[0] == 1)

    def stacked(self, copies: int) -> Self:
        return self._map(lambda name, value: repeated_rows(value, copies) if self._is_cut(name, value) else value)

    def settled(self, x: Vectors, slack: Vectors) -> Vectors:
        for bound in (self.low, self.high):
            if bound is not None:
                x = torch.where((x - column(bound)).abs() <= slack, column(bound), x)
        return x

    def value(self, x: Vectors) -> Scalars:
        return self._within(x, self._weighted_sum(self.l1, x.abs()) + 0.5 * self._weighted_sum(self.l2, x.square()))

    def difference(self, x: Vectors, y: Vectors) -> Scalars:
        """sum_j [l1_j (|x_j| - |y_j|) + l2_j/2 (x_j - y_j)(x_j + y_j)]: no digits are lost where x is close to y."""
        change = self._weighted_sum(self.l1, x.abs() - y.abs())
        if self.l2 is not None:
            change = change + 0.5 * self._weighted_sum(self.l2, (x - y) * (x + y))
        return self._within(x, change)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """x = clip(S(v, l1 step) / (1 + l2 step), low, high), S(v, t) = sign(v) max(|v| - t, 0)."""
        if self.l1 is not None:
            v = soft_threshold(v, column(self.l1) * step)
        if self.l2 is not None:
            v = v / (1 + column(self.l2) * step)
        return self._clipped(v)

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        """l2 x + l1 sign(x), with sign(0) = [-1, 1]; down to -infinity at low, up to infinity at high."""
        slope = torch.zeros_like(x) if self.l2 is None else column(self.l2) * x
        low = high = slope
        if self.l1 is not None:
            slope = column(self.l1) * torch.sign(x) if self.l2 is None else slope + column(self.l1) * torch.sign(x)
            kink = column(self.l1) * (x == 0)
            low, high = slope - kink, slope + kink
        if self.low is not None:
            low = torch.where(x <= column(self.low), -torch.inf, low)
        if self.high is not None:
            high = torch.where(x >= column(self.high), torch.inf, high)
        return low, high

    def curvature(self, x: Vectors) -> Vectors:
        """l2."""
        return torch.zeros_like(x) if self.l2 is None else column(self.l2).expand_as(x)

    def least_slope(self, x: Vectors) -> Vectors:
        """l1, and no bound at 0 counts: r(y) - r(0) >= sum_j l1_j |y_j| wherever r(y) is finite."""
        if not is_separable(self):  # a subclass may be another function
            return super().least_slope(x)
        return torch.zeros_like(x) if self.l1 is None else column(self.l1).expand_as(x)

    def certain_zeros(self, g: Vectors, reach: Vectors) -> Tensor:
        """(B, n) bool: x_j = 0 wherever -g' is in the subdifferential at x and |g'_j - g_j| <= reach_j."""
        zero = torch.zeros_like(g)
        return self.certain_rest(zero, g, reach) & ~self.excludes_zero(zero)

    def certain_rest(self, x: Vectors, g: Vectors, reach: Vectors) -> Tensor:
        """A slope of r_j away from x_j lies outside of the open interval (low, high) of those at x_j."""
        low, high = self.subdiff(x)
        return (low < -g - reach) & (reach - g < high)

    def room(self, x: Vectors) -> Vectors:
        """The distance to 0, if l1 > 0, and to the bounds."""
        room = torch.full_like(x, torch.inf)
        if self.l1 is not None:
            room = torch.where(column(self.l1) > 0, x.abs(), room)
        for bound in (self.low, self.high):
            room = room if bound is None else torch.minimum(room, (x - column(bound)).abs())
        return room

    def excludes_zero(self, x: Vectors) -> Tensor:
        """(B, n) bool, x (B, n): the bounds leave 0 out."""
        return self._clipped(torch.zeros_like(x)) != 0

    def loose(self, x: Vectors) -> tuple[Tensor, Tensor]:
        """(up, down), (B, n) bool: l1 = l2 = 0, and there is no upper, or no lower, bound."""
        up, down = self._is_open(self.high, x), self._is_open(self.low, x)
        for part in (self.l1, self.l2):
            if part is not None:
                up, down = up & (column(part) == 0), down & (column(part) == 0)
        return up, down

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """All s with r*(-s g) finite: |s g_j| <= l1_j for every j with l2_j = 0 that -s g_j drives to no bound."""
        return self._range(g, self.l2)

    def dual_scales(self, g: Vectors, best: Best) -> list[Scalars]:
        """With l2 or bounds r* grows, which `best` knows nothing of: s = 1 is right at a solution.

        Where l2 is tiny r* is finite, and yet of no use, beyond the range that holds without it; and F itself is a gap
        where F* may be 0.
        """
        if self.l2 is None and self.low is None and self.high is None:
            return [best(*self.dual_range(g))]
        low, high = self.dual_range(g)
        one = torch.minimum(torch.maximum(torch.ones_like(low), low), high)
        return [one, best(*self.flat_range(g)), torch.zeros_like(one)]

    def flat_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """All s for which r* does not grow: the range that holds without l2, and with bounds of 0 alone."""
        return self._range(g, None)

    def scaled(self, scale: Scalars) -> "Separable":
        """scale * r, scale (B,); bounds stay."""
        l1, l2 = (None if w is None else column(w) * scale.unsqueeze(1) for w in (self.l1, self.l2))
        return Separable.trusted(l1=l1, l2=l2, low=self.low, high=self.high)

    def _range(self, g: Vectors, l2: Tensor | None) -> tuple[Scalars, Scalars]:
        bounded = self.low is not None or self.high is not None
        if l2 is None and not bounded and (self.l1 is None or self.l1.ndim < 2):
            largest = g.abs().amax(1)
            most = torch.zeros_like(largest) if self.l1 is None else self.l1
            limit = torch.where(largest > 0, most / largest, torch.inf)
            return -limit, limit
        size = g.abs()
        limit = torch.where(size > 0, (0.0 if self.l1 is None else column(self.l1)) / size, torch.inf)
        if l2 is not None:
            limit = torch.where(column(l2) > 0, torch.inf, limit)
        down, up = self._is_open(self.low, g), self._is_open(self.high, g)
        high = torch.where(torch.where(g < 0, up, down), limit, torch.inf).amin(1)
        low = torch.where(torch.where(g > 0, up, down), limit, torch.inf).amin(1)
        return -low, high

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """sum_j [l2/2 (x - y)^2 + (l1 |x| - c x) + v (y - x)], every term >= 0.

        With p = -s g, y is where p y - r(y) is largest, and p = c + l2 y + v splits p into a slope c of l1 |.| at y,
        the slope of the square and v, which pushes against the bound at which y lies, and is 0 elsewhere. Without l2
        and bounds, y = 0, c = p.
        """
        p = -scale.unsqueeze(1) * g
        l1 = torch.zeros_like(x[:, :1]) if self.l1 is None else column(self.l1)
        if self.l2 is None and self.low is None and self.high is None:
            return (l1 * x.abs() - p * x).clamp(min=0).sum(1)
        l2 = torch.zeros_like(x[:, :1]) if self.l2 is None else column(self.l2)
        inside = torch.minimum(torch.maximum(p, -l1), l1)
        beyond = p - inside
        # Without curvature y runs to the bound; where there is none either, what is beyond l1 is rounding.
        stopped = torch.where(beyond > 0, ~self._is_open(self.high, x), ~self._is_open(self.low, x))
        far = torch.where(stopped, torch.where(beyond == 0, 0.0, torch.sign(beyond) * torch.inf), 0.0)
        y = self._clipped(torch.where(l2 > 0, beyond / torch.where(l2 > 0, l2, 1.0), far))
        c = torch.where(y == 0, inside, torch.sign(y) * l1)
        push = torch.where(self._at_bound(y), (p - c - l2 * y) * (y - x), 0.0)
        terms = l2 / 2 * (x - y).square() + (l1 * x.abs() - c * x).clamp(min=0) + push.clamp(min=0)
        return terms.sum(1)

    def _clipped(self, x: Vectors) -> Vectors:
        if self.low is not None:
            x = torch.maximum(x, column(self.low))
        return x if self.high is None else torch.minimum(x, column(self.high))

    def _within(self, x: Vectors, value: Scalars) -> Scalars:
        """`value`, and infinity where x is outside of the bounds."""
        for outside in (
            None if self.low is None else x < column(self.low),
            None if self.high is None else x > column(self.high),
        ):
            if outside is not None:
                value = torch.where(outside.any(1), torch.inf, value)
        return value

    def _at_bound(self, x: Vectors) -> Tensor:
        at = torch.zeros_like(x, dtype=torch.bool)
        for bound in (self.low, self.high):
            if bound is not None:
                at = at | (x == column(bound))
        return at

    @staticmethod
    def _is_open(bound: Tensor | None, like: Vectors) -> Tensor:
        """(B, n) bool: there is no such bound."""
        if bound is None:
            return torch.ones_like(like, dtype=torch.bool)
        return torch.isinf(column(bound)).expand_as(like)

    @staticmethod
    def _weighted_sum(weights: Tensor | None, terms: Vectors) -> Scalars:
        if weights is None:
            return torch.zeros_like(terms[:, 0])
        return weights * terms.sum(1) if weights.ndim < 2 else (weights * terms).sum(1)


class L1(Separable, constructor=True):
    """r(x) = lam |x|_1, lam >= 0 a number or one per instance (B,)."""

    batched = ("lam",)
    lam: Tensor

    def __init__(self, lam: Any) -> None:
        tensor = _number("lam", lam)
        if tensor.ndim > 1:
            raise InputError(f"lam has shape {tuple(tensor.shape)}; pass a number or shape (B,)")
        _require_weights("lam", tensor)
        self.lam = tensor

    @property
    def l1(self) -> Tensor:  # type: ignore[override]
        return self.lam

    def fitted(self, batch: int, n: int) -> Self:
        if self.lam.ndim == 1 and len(self.lam) != batch:
            raise InputError(f"lam has shape ({len(self.lam)},); f has a batch of {batch}: pass ({batch},)")
        return self


class WeightedL1(Separable, constructor=True):
    """r(x) = sum_j w_j |x_j|, weights w >= 0 of shape (n,), or (B, n) for weights of their own for each instance.

    A weight of zero leaves its coordinate free, such as an intercept. `Problem.duality_gap` then says something only
    where the gradient vanishes there; a solve is judged by `free_gap` instead (`StoppingRule`).
    """

    batched = ("weights",)
    weights: Tensor

    def __init__(self, weights: Any) -> None:
        tensor = checks.as_tensor("weights", weights)
        if tensor.ndim not in (1, 2):
            raise InputError(f"weights has shape {tuple(tensor.shape)}; pass (n,) or (B, n)")
        checks.require_finite("weights", tensor)
        if bool((tensor < 0).any()):
            raise InputError(f"weights is {float(tensor.detach().min()):g} somewhere; it must be >= 0")
        self.weights = tensor

    @property
    def l1(self) -> Tensor:  # type: ignore[override]
        return self.weights.unsqueeze(0) if self.weights.ndim == 1 else self.weights

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return super()._is_cut(name, value) and not (name == "weights" and value.ndim == 1)

    def fitted(self, batch: int, n: int) -> Self:
        if tuple(self.weights.shape) not in ((n,), (batch, n)):
            raise InputError(f"weights has shape {tuple(self.weights.shape)}; f needs ({n},) or ({batch}, {n})")
        return self


class ElasticNet(Separable, constructor=True):
    """r(x) = l1 |x|_1 + l2/2 |x|^2."""

    def __init__(self, l1: Any, l2: Any) -> None:
        super().__init__(l1, l2)


class NonNegative(Separable, constructor=True):
    """r(x) = l1 sum_j x_j where x >= 0, else infinite."""

    def __init__(self, l1: Any = 0.0) -> None:
        super().__init__(l1, low=0.0)


class Box(Separable, constructor=True):
    """r(x) = 0 where low <= x <= high, else infinite."""

    def __init__(self, low: Any, high: Any) -> None:
        super().__init__(low=low, high=high)


class Zero(Separable, constructor=True):
    """r(x) = 0."""

    def __init__(self) -> None:
        super().__init__()


EXACT = (Separable, L1, WeightedL1, ElasticNet, NonNegative, Box, Zero)  # exactly these, and none of their subclasses


def is_separable(r: Penalty) -> TypeGuard[Separable]:
    """Whether r is exactly one of the penalties of this file."""
    return type(r) in EXACT


def column(value: Tensor) -> Tensor:
    """A number, (B,) as (B, 1), or (1, n), (B, n) as they are: what goes with points (B, n)."""
    return value.unsqueeze(1) if value.ndim == 1 else value


def soft_threshold(v: Tensor, threshold: Tensor) -> Tensor:
    """sign(v) max(|v| - threshold, 0), as v minus its projection on [-threshold, threshold]: fewer passes over v."""
    clipped = torch.minimum(v, threshold)
    if clipped.requires_grad or torch.compiler.is_dynamo_compiling():
        return v - torch.maximum(clipped, -threshold)
    torch.maximum(clipped, -threshold, out=clipped)  # memory of our own: nobody else has seen it
    return torch.sub(v, clipped, out=clipped)


def _number(name: str, value: Any) -> Tensor:
    """A plain number is kept in float64, so that `Problem` rounds it once, to its own precision."""
    return checks.real(name, value)


def _require_weights(name: str, tensor: Tensor) -> None:
    bad = ~(torch.isfinite(tensor.detach()) & (tensor.detach() >= 0))
    if bool(bad.any()):
        raise InputError(f"{name} is {float(tensor.detach()[bad][0]):g} somewhere; it must be finite and >= 0")


def _weights(name: str, value: Any) -> Tensor | None:
    """l1 or l2, None for the number 0."""
    if value is None or (isinstance(value, int | float) and value == 0):
        return None
    tensor = _number(name, value)
    if tensor.ndim > 2:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; pass a number, (B,), (n,) or (B, n)")
    _require_weights(name, tensor)
    return tensor


def _bounds(name: str, value: Any, none: float) -> Tensor | None:
    """low or high, None where there is none."""
    if value is None or (isinstance(value, int | float) and value == none):
        return None
    tensor = _number(name, value)
    if tensor.ndim > 2:
        raise InputError(f"{name} has shape {tuple(tensor.shape)}; pass a number, (B,), (n,) or (B, n)")
    bad = torch.isnan(tensor.detach()) | (tensor.detach() == -none)
    if bool(bad.any()):
        raise InputError(f"{name} is {float(tensor.detach()[bad][0]):g} somewhere; it must be a number or {none:g}")
    return tensor


def _require_order(low: Tensor, high: Tensor) -> None:
    wrong = low.detach() > high.detach()
    if bool(wrong.any()):
        pair = float(low.detach()[wrong][0]), float(high.detach()[wrong][0])
        raise InputError(f"low is {pair[0]:g} and high is {pair[1]:g} somewhere; low must not be above high")


def _fitted(name: str, value: Tensor, batch: int, n: int, placed: bool) -> Tensor:
    """(), (B,), (1, n) or (B, n): what one dimension means is decided by its length, once."""
    shape = tuple(value.shape)
    if placed and shape == (batch,):
        return value
    if value.ndim == 1 and shape != (batch,) and shape == (n,) and not placed:
        return value.unsqueeze(0)
    if value.ndim == 1 and shape == (batch,) and batch == n > 1:
        raise InputError(f"{name} has shape {shape}, and batch and n are both {n}; pass (1, {n}) or ({batch}, 1)")
    if shape not in ((), (batch,), (batch, 1), (1, n), (batch, n), (1, 1)):
        raise InputError(f"{name} has shape {shape}; this problem needs a number, ({batch},), ({n},) or ({batch}, {n})")
    if value.ndim == 2 and value.shape[1] == 1 and n > 1:
        return value.reshape(-1) if len(value) == batch else value.reshape(())
    return value
