"""Squares with a limited slope: Huber's loss, smoothed quantiles, the squared hinge."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import clip, scale_range, tiny
from sureprox.problems.losses.pointwise import Bound, Pointwise


class Clipped(Pointwise):
    """phi(z) = max_{low <= v <= high} v z - gamma/2 v^2, z = A x + offset - y, low <= 0 <= high.

    The maximum is attained at u = clip(z / gamma, low, high) = phi'(z), and phi*(v) = gamma/2 v^2 on [low, high]. So
    phi is z^2 / (2 gamma) where low <= z / gamma <= high, and goes on in straight lines.
    """

    b: Tensor  # y - offset
    gamma: float
    low: Bound
    high: Bound

    @property
    def shape(self) -> tuple[int, int]:
        return self.b.shape[0], self.n

    def inner(self, x: Vectors) -> Rows:
        """A x + offset - y."""
        return self.map.residual(x, self.b)

    def terms(self, z: Rows) -> Rows:
        u = self.slopes(z)
        return u * (z - self.gamma / 2 * u)

    def slopes(self, z: Rows) -> Rows:
        return clip(z / self.gamma, self.low, self.high)

    def curvatures(self, z: Rows) -> Rows:
        """1/gamma where the slope is not clipped, else 0."""
        u = z / self.gamma
        return ((u > self.low) & (u < self.high)).to(z.dtype) / self.gamma

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """t - step clip(t / (gamma + step), low, high)."""
        return t - step * clip(t / (self.gamma + step), self.low, self.high)

    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        """With d = phi'(z) - v and e = |z - gamma phi'(z)|, D >= gamma/2 d^2 + |d| e.

        So |d| <= sqrt(2 rise / gamma): phi'' = 1/gamma where no such v is clipped. And D = d^2 (gamma + 2 e/|d|) / 2 at
        least, where the largest |d| gives the least factor.
        """
        u, e = self.slopes(z), self._beyond(z, self.low, self.high).abs()
        reach = (2 * rise / self.gamma).sqrt()
        inside = (u - reach > self.low) & (u + reach < self.high)
        beyond = e * (e + (e.square() + 2 * self.gamma * rise).sqrt())
        most = torch.where(e > 0, rise / (self.gamma * rise + beyond), 1 / self.gamma)
        return inside.to(z.dtype) / self.gamma, most

    @property
    def curvature_bound(self) -> float:
        return 1 / self.gamma

    @property
    def steepest(self) -> Bound:
        if isinstance(self.low, Tensor) and isinstance(self.high, Tensor):
            return torch.maximum(-self.low, self.high)
        return max(-self.low, self.high)

    @property
    def dual_domain(self) -> tuple[Bound, Bound]:
        return self.low, self.high

    def conjugates(self, v: Rows) -> Rows:
        return torch.where((v >= self.low) & (v <= self.high), self.gamma / 2 * v.square(), torch.inf)

    def divergence(self, z: Rows, v: Rows) -> Rows:
        """gamma/2 (u - v)^2 + (u - v) (z - gamma u): where z - gamma u is not zero, u is the end on its side."""
        gaps = self._gaps(z, self.slopes(z) - v)
        return torch.where((v >= self.low) & (v <= self.high), gaps, torch.inf)

    def dual_gaps(self, z: Rows, scale: Scalars) -> Rows:
        return self._gaps(z, (1 - scale).unsqueeze(1) * self.slopes(z))

    def _gaps(self, z: Rows, d: Rows) -> Rows:
        """`divergence` from d = u - v."""
        return self.gamma / 2 * d.square() + (d * self._beyond(z, self.low, self.high)).clamp(min=0)

    def _beyond(self, z: Rows, low: Bound, high: Bound) -> Rows:
        """z - gamma clip(z / gamma, low, high), exactly zero where nothing is clipped."""
        return z - clip(z, self.gamma * low, self.gamma * high)

    def rises(self, d: Rows, at: Rows) -> Rows:
        """gamma/2 D^2 + D E: the slope changes by D, and E is how far at + d lies beyond the ends."""
        u = self.slopes(at)
        low, high = self.low - u, self.high - u  # the slope may change by so much
        move = d + self._beyond(at, self.low, self.high)
        change = clip(move / self.gamma, low, high)
        return self.gamma / 2 * change.square() + (change * self._beyond(move, low, high)).clamp(min=0)

    def slope_bound(self, size: Tensor) -> Tensor:
        """The smaller of |z| max(w) / gamma and sqrt(sum_i (w_i max |phi'|)^2)."""
        return torch.minimum(size * self.steepness, super().slope_bound(size))

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        return self.best_scale(self.slopes(z), low, high)

    def best_scale(self, v: Rows, low: Scalars, high: Scalars) -> Scalars:
        """argmax_s of the dual value -s <w v, b> - s^2 gamma <w v, v> / 2 on [low, high] and in the domain."""
        square = self.gamma * self.total(v.square())
        best = torch.where(square > 0, -self.total(v * self.b) / square.clamp(min=tiny(square)), 1.0)
        least, most = scale_range(v, self.low, self.high)
        return torch.minimum(torch.maximum(best, torch.maximum(least, low)), torch.minimum(most, high))

    def _data(self, y: Rows, weights: Any, offset: Any) -> None:
        """Keep checked `y`, and `weights` and `offset`, which are not checked yet."""
        self.b = y if offset is None else y - checks.offset(offset, y, self.A)
        self._weigh(weights, y)


class Huber(Clipped):
    """f(x) = sum_i w_i h(z_i), z = A x + offset - y; h(z) = z^2/2 for |z| <= delta, else delta (|z| - delta/2).

    Squares for small residuals, absolute values for outliers. L = lambda_max(A' diag(w) A). A: (B, m, n), or (m, n)
    shared by the batch; y, `weights` >= 0 and `offset`: (B, m) or (m,).
    """

    batched = ("A", "b", "weights")
    stackable = True
    fenchel_young = Pointwise.fenchel_young
    gamma = 1.0

    def __init__(self, A: Any, y: Any, delta: float = 1.0, weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        self.delta = checks.positive("delta", delta, "residuals beyond it count as outliers")
        self.low, self.high = -self.delta, self.delta
        self._data(checks.rows("y", y, self.A), weights, offset)


class Quantile(Clipped):
    """f(x) = sum_i w_i q(z_i), z = A x + offset - y: a smooth pinball loss, whose minimum estimates a quantile of y.

    The pinball loss max((1 - level) z, -level z) weighs what lies above the prediction by `level`, what lies below by
    1 - level. q is its Moreau envelope, squares where -level <= z / smoothing <= 1 - level: it is smaller, by at most
    smoothing/2 max(level, 1 - level)^2. L = lambda_max(A' diag(w) A) / smoothing. Shapes as in `Huber`; `smoothing` has
    the unit of y.
    """

    batched = ("A", "b", "weights")
    stackable = True
    fenchel_young = Pointwise.fenchel_young

    def __init__(
        self,
        A: Any,
        y: Any,
        level: float = 0.5,
        smoothing: float = 0.1,
        weights: Any = None,
        offset: Any = None,
    ) -> None:
        self.A = checks.matrix(A)
        self.level = checks.positive("level", level, "0.5 is the median")
        if self.level >= 1:
            raise InputError(f"level is {level!r}; pass a number between 0 and 1: 0.5 is the median")
        self.gamma = checks.positive("smoothing", smoothing, "it has the unit of y; small ones make hard problems")
        self.low, self.high = -self.level, 1 - self.level
        self._data(checks.rows("y", y, self.A), weights, offset)


class SquaredHinge(Clipped):
    """f(x) = sum_i w_i max(0, 1 - t_i z_i)^2, z = A x + offset, t_i = 2 y_i - 1, y_i in {0, 1}.

    The loss of scikit-learn's LinearSVC. L = 2 lambda_max(A' diag(w) A). Shapes as in `Huber`.

    1 - t z = -t (z - t): the slopes are limited by 0 on the right side of the margin.
    """

    batched = ("A", "b", "low", "high", "weights")
    stackable = True
    fenchel_young = Pointwise.fenchel_young
    gamma = 0.5

    def __init__(self, A: Any, y: Any, weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        y = checks.labels(y, self.A)
        self.low = torch.where(y > 0, -torch.inf, torch.zeros_like(y))
        self.high = torch.where(y > 0, torch.zeros_like(y), torch.inf)
        self._data(2 * y - 1, weights, offset)
