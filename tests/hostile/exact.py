"""One problem in long double, and how far above its minimum a point is: the truth that solves are judged by.

Nothing here comes from sureprox. Every point gives an upper bound on F*; `Exact.excess` bounds F(x) - F* from above, so
that a minimum is known to be good. A solve that is said to be closer to F* than to a point found here is caught by it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

LD = np.longdouble
EPS = float(np.finfo(LD).eps)
ROUNDS, SWEEPS = 60, 3
FAR = 1e3  # a coordinate that nothing bounds is taken to be within so many times what it was seen to be
LENGTHS = np.concatenate([LD(2) ** np.arange(0, -13, -1), LD(2) ** np.arange(1, 21)])  # the full step first
CROSSINGS = 16  # sign changes at which a step is tried to be cut


def sigmoid(t: np.ndarray) -> np.ndarray:
    return np.exp(-np.logaddexp(LD(0), -t))


@dataclass(frozen=True)
class Phi:
    """A convex function >= 0 of one number, elementwise on t (..., m): value, slope and second derivative.

    `most`: an upper bound of the second derivative near t; `size`: what the value is made of.
    """

    value: Callable[[np.ndarray], np.ndarray]
    slope: Callable[[np.ndarray], np.ndarray]
    bend: Callable[[np.ndarray], np.ndarray]
    most: Callable[[np.ndarray], np.ndarray]
    size: Callable[[np.ndarray], np.ndarray] | None = None


def _logistic_bend(t: np.ndarray) -> np.ndarray:
    return np.maximum(sigmoid(t) * (1 - sigmoid(t)), LD(1e-30))


SQUARES = Phi(lambda t: t * t / 2, lambda t: t, np.ones_like, np.ones_like)
LOGISTIC = Phi(lambda t: np.logaddexp(LD(0), t), sigmoid, _logistic_bend, lambda t: np.full_like(t, 0.25))
FLAT = 1e-8  # of its largest: the second derivative that is taken where there is none


def clipped(low: float, high: float, gamma: float) -> Phi:
    """max_v v t - gamma/2 v^2 over low <= v <= high."""
    low, high, gamma = LD(low), LD(high), LD(gamma)

    def slope(t: np.ndarray) -> np.ndarray:
        return np.clip(t / gamma, low, high)

    def bend(t: np.ndarray) -> np.ndarray:
        return np.where((t > gamma * low) & (t < gamma * high), LD(1), LD(FLAT)) / gamma

    def value(t: np.ndarray) -> np.ndarray:
        return slope(t) * (t - gamma / 2 * slope(t))

    return Phi(value, slope, bend, lambda t: np.ones_like(t) / gamma)


def hinge() -> Phi:
    """max(t, 0)^2."""

    def value(t: np.ndarray) -> np.ndarray:
        return np.maximum(t, 0) ** 2

    return Phi(
        value,
        lambda t: 2 * np.maximum(t, 0),
        lambda t: np.where(t > 0, LD(2), LD(2 * FLAT)),
        lambda t: np.full_like(t, 2),
    )


def poisson(y: np.ndarray, log: bool) -> Phi:
    """mu - y + y log(y / mu), mu = e^t or t; y (m,)."""
    entropy = np.where(y > 0, y * np.log(np.where(y > 0, y, 1)), LD(0)) - y

    def logged(t: np.ndarray) -> np.ndarray:
        return np.log(np.where(t > 0, t, 1))

    if log:
        return Phi(
            lambda t: np.exp(t) - y * t + entropy,
            lambda t: np.exp(t) - y,
            lambda t: np.maximum(np.exp(t), LD(1e-30)),
            lambda t: 3 * np.exp(t),
            lambda t: np.exp(t) + np.abs(y * t) + np.abs(entropy),
        )

    def inside(t: np.ndarray) -> np.ndarray:
        return (t > 0) | ((t == 0) & (y == 0))

    safe = LD(1e-300)
    return Phi(
        lambda t: np.where(inside(t), t - y * logged(t) + entropy, np.inf),
        lambda t: 1 - y / np.maximum(t, safe),
        lambda t: np.maximum(y / np.maximum(t, safe) ** 2, LD(1e-30)),
        lambda t: y / np.maximum(t, safe) ** 2,
        lambda t: np.abs(t) + np.abs(y * logged(t)) + np.abs(entropy),
    )


def as_long(value: Any) -> np.ndarray:
    return np.asarray(value).astype(LD)


@dataclass(frozen=True)
class Exact:
    """F(x) = sum_i c_i phi(s_i (A x - b)_i) + sum_j [w_j |x_j| + mu_j x_j^2 / 2], low <= x <= high.

    phi(t) = t^2 / 2, log(1 + e^t), ...: see `Phi`.
    """

    A: np.ndarray  # (m, n)
    b: np.ndarray  # (m,)
    c: np.ndarray  # (m,) >= 0
    s: np.ndarray  # (m,) of 1 and -1
    phi: Phi
    w: np.ndarray  # (n,) >= 0
    mu: np.ndarray  # (n,) >= 0
    low: np.ndarray  # (n,)
    high: np.ndarray  # (n,)
    sizes: np.ndarray | None = None  # (m, n): what the entries of A are made of, where that is more than they are

    def image(self, x: np.ndarray) -> np.ndarray:
        return self.s * (x @ self.A.T - self.b)

    def value(self, x: np.ndarray) -> np.ndarray:
        """F at one point (n,) or several (K, n)."""
        smooth = self.weighted(self.phi.value, x)
        outside = ((x < self.low) | (x > self.high)).any(-1)
        return np.where(outside, np.inf, smooth.sum(-1) + (self.w * np.abs(x) + self.mu * x * x / 2).sum(-1))

    def weighted(self, part: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
        """c_i part(t_i) at the images of x: zero for rows of weight zero, also where they overflow."""
        return self.weighted_at(part, self.image(x))

    def weighted_at(self, part: Callable[[np.ndarray], np.ndarray], image: np.ndarray) -> np.ndarray:
        with np.errstate(all="ignore"):
            return np.where(self.c > 0, self.c * part(image), LD(0))

    def rounding(self, x: np.ndarray, eps: float = EPS) -> float:
        """A bound on the error of F(x) in a precision of `eps`: of the images, and of the sums."""
        m, n = self.A.shape
        off = (n + 2) * eps * self._terms(x)
        slope = np.abs(self.slope(x)) + self.weighted(self.phi.most, x) * off
        size = self.value(x) + (0 if self.phi.size is None else self.weighted(self.phi.size, x).sum())
        return float((slope * off).sum() + (m + n + 4) * eps * size)

    def gap_rounding(self, x: np.ndarray, eps: float) -> float:
        """The same of a duality gap, in which errors of the images are multiplied by A x, not by the slope."""
        terms, (m, n) = self._terms(x), self.A.shape
        return self.rounding(x, eps) + float((m + n + 4) * eps * (self._slopes(x) * terms).sum())

    def pull_rounding(self, x: np.ndarray, eps: float) -> float:
        """The same of the largest component of the gradient."""
        return float((sum(self.A.shape) + 4) * eps * (self._slopes(x) @ np.abs(self.A)).max())

    def _slopes(self, x: np.ndarray) -> np.ndarray:
        """(m,) the slopes, and what they are made of."""
        return np.abs(self.slope(x)) + self.weighted(self.phi.most, x) * self._terms(x)

    def _terms(self, x: np.ndarray) -> np.ndarray:
        """(m,) what the sums of the images are made of."""
        return (np.abs(self.A) if self.sizes is None else self.sizes) @ np.abs(x) + np.abs(self.b)

    def slope(self, x: np.ndarray) -> np.ndarray:
        """d phi / d (A x), (m,)."""
        return self.s * self.weighted(self.phi.slope, x)

    def sides(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The slopes of r to the left and to the right of x."""
        left = self.mu * x + np.where(x > 0, self.w, -self.w)
        right = self.mu * x + np.where(x >= 0, self.w, -self.w)
        return np.where(x <= self.low, -np.inf, left), np.where(x >= self.high, np.inf, right)

    def pull(self, x: np.ndarray, g: np.ndarray) -> np.ndarray:
        """The smallest subgradient of F, (n,): zero at the minimum."""
        left, right = self.sides(x)
        return np.where(g + right < 0, g + right, np.where(g + left > 0, g + left, LD(0)))

    def excess(self, x: np.ndarray) -> float:
        """A bound on F(x) - F*: sum_j max_u [g_j (x_j - u) + r_j(x_j) - r_j(u)] over u that can be the minimum.

        That is w_j |u_j| <= F(x), mu_j u_j^2 <= 2 F(x), low <= u <= high; where none of them says anything, |u_j| is
        taken to be at most `FAR` times what was seen, which is not proved.
        """
        g, value = self.slope(x) @ self.A, np.maximum(self.value(x), 0)  # rounding can make it negative
        if not np.isfinite(value):
            return float("inf")
        with np.errstate(all="ignore"):
            far = FAR * (np.abs(x) + np.sqrt(2 * value) / np.sqrt((self.c[:, None] * self.A**2).sum(0)))
            reach = np.fmin(np.fmin(value / self.w, np.sqrt(2 * value / self.mu)), np.where(np.isfinite(far), far, 0))
            reach = np.where(self.w > 0, np.fmin(value / self.w, np.sqrt(2 * value / self.mu)), reach)
        low, high = np.maximum(self.low, -reach), np.minimum(self.high, reach)
        best = np.zeros_like(x)  # the highest of the bracket, at the ends and where it is flat
        for u in (low, high, np.zeros_like(x), *self._flat(g)):
            u = np.clip(u, low, high)
            best = np.maximum(best, g * (x - u) + self._penalty(x) - self._penalty(u))
        only_w = (self.mu == 0) & (self.w > 0) & ~np.isfinite(self.low) & ~np.isfinite(self.high)
        inner = np.where(only_w, g * x + self.w * np.abs(x), LD(0))
        with np.errstate(all="ignore"):
            outer = np.where(only_w, np.maximum(np.abs(g) / self.w - 1, 0), LD(0))
        # all w_j |u_j| together are at most F(x)
        return float(np.maximum(inner, 0).sum() + outer.max() * value + np.where(only_w, 0, best).sum())

    def _penalty(self, x: np.ndarray) -> np.ndarray:
        return self.w * np.abs(x) + self.mu * x * x / 2

    def _flat(self, g: np.ndarray) -> list[np.ndarray]:
        """Where g_j + r_j' = 0, if mu_j > 0."""
        shrunk = -np.sign(g) * np.maximum(np.abs(g) - self.w, 0)
        return [np.where(self.mu > 0, shrunk / np.where(self.mu > 0, self.mu, 1), 0)]

    def with_more(self, factor: float) -> "Exact":
        """The same with `factor` times the weights of the penalty: easier."""
        return replace(self, w=self.w * LD(factor))


@dataclass(frozen=True)
class Truth:
    x: np.ndarray
    value: LD
    excess: float  # a bound on value - F*


def lowest(problem: Exact, x: np.ndarray, goal: float, rounds: int = ROUNDS) -> Truth:
    """A point with F within `goal` of F*, from x; if that is not reached, from zero along falling weights too."""
    found = descended(problem, np.clip(x, problem.low, problem.high), goal, rounds)
    if found.excess <= goal or rounds < ROUNDS:
        return found
    y = np.clip(np.zeros_like(x), problem.low, problem.high)
    with np.errstate(all="ignore"):
        ratio = np.nanmax(np.abs(problem.slope(y) @ problem.A) / np.where(problem.w > 0, problem.w, np.nan), initial=1)
    for factor in np.geomspace(float(min(max(ratio, 1), 1e13)), 1, 14)[1:-1]:
        y = descended(problem.with_more(factor), y, 0.1 * goal, 6).x
    other = descended(problem, y, goal, rounds)
    return min(found, other, key=lambda truth: truth.value)


def descended(problem: Exact, x: np.ndarray, goal: float, rounds: int) -> Truth:
    """Newton steps on the coordinates that can move, and sweeps over all of them, while F falls or its excess."""
    found = Truth(x, problem.value(x), problem.excess(x))
    for _ in range(rounds):
        if found.excess <= goal:
            break
        before = found
        for entering, fine in ((False, False), (True, False), (False, True)):
            for step in newton(problem, found.x, entering, fine):
                found = searched(problem, found, step)
        if not found.value < before.value - 0.01 * found.excess:
            for _ in range(SWEEPS):
                found = better(problem, found, swept(problem, found.x)[None])
        if found is before:
            break
    return found


def better(problem: Exact, found: Truth, points: np.ndarray) -> Truth:
    """The lowest of `points` (K, n), the first on a tie, if it is below what was found; or as low, and known better."""
    values = problem.value(points)
    best = int(np.argmin(values))
    if values[best] < found.value - 64 * EPS * abs(found.value):
        return Truth(points[best], values[best], problem.excess(points[best]))
    excess = problem.excess(points[0])
    if values[0] <= found.value + 64 * EPS * abs(found.value) and excess < 0.9 * found.excess:
        return Truth(points[0], values[0], excess)
    return found


def newton(problem: Exact, x: np.ndarray, entering: bool, fine: bool) -> list[np.ndarray]:
    """-(H + mu)^+ (g + r') on the coordinates that are not at a kink, and what H does not see of it.

    With `entering`, also on those that gain most by leaving theirs.

    With H = R'R, R = U S V' and g = R'y, the step is -V S^{-1} (U'y + S^{-1} V' r'), which suffers from the condition
    of R only; or, `fine`, -V S^{-2} V'(g + r'), which suffers from that of H but keeps what g + r' is in long double.
    """
    root = np.sqrt(problem.weighted(problem.phi.bend, x))
    g = problem.slope(x) @ problem.A
    pull = problem.pull(x, g)
    curvature = ((root[:, None] * problem.A) ** 2).sum(0) + problem.mu
    with np.errstate(all="ignore"):
        gain = np.where(curvature > 0, pull * pull / curvature, LD(0))
    inside = (x > problem.low) & (x < problem.high)
    free = inside & ((x != 0) | (problem.w == 0))
    most = gain[~free].max(initial=LD(0))
    enter = ~free & (gain >= 0.5 * most) & (gain > 0)
    if entering and not enter.any():
        return []
    moving = np.flatnonzero((free | (enter if entering else False)) & (curvature > 0))
    if not len(moving):
        return []
    slope = (pull - g)[moving]
    size = np.sqrt(curvature[moving])
    R = np.concatenate([root[:, None] * problem.A[:, moving], np.diag(np.sqrt(problem.mu[moving]))]) / size
    y = np.concatenate([problem.slope(x) / np.where(root > 0, root, 1), np.zeros(len(moving), LD)])
    if fine:
        y, slope = np.zeros_like(y), pull[moving]
    unit = max(np.abs(y).max(), np.abs(slope / size).max())  # the sizes of float64 do not reach as far
    if not unit > 0:
        return []
    try:
        U, S, Vt = np.linalg.svd(R.astype(float), full_matrices=False)
    except np.linalg.LinAlgError:
        return []
    rest = (slope / size / unit).astype(float)
    seen = 1e-13 * S[0] < S
    U, S, Vt = U[:, seen], S[seen], Vt[seen]
    steps = [-Vt.T @ ((U.T @ (y / unit).astype(float) + Vt @ rest / S) / S), -(rest - Vt.T @ (Vt @ rest))]
    full = []
    for step in steps:
        if np.isfinite(step).all() and np.abs(step).max() > 0:
            full.append(np.zeros_like(x))
            full[-1][moving] = step.astype(LD) * unit / size
    return full


def searched(problem: Exact, found: Truth, step: np.ndarray) -> Truth:
    """The best point on the way along `step`; a coordinate that would change its sign, or leave its range, stops."""
    x = found.x
    with np.errstate(all="ignore"):
        crossings = np.sort(np.where(step * x < 0, -x / step, np.inf))[:CROSSINGS]
    lengths = np.concatenate([LENGTHS, crossings[np.isfinite(crossings)] * (1 + 4 * EPS)])
    there = x + lengths[:, None] * step
    there = np.where(there * x < 0, LD(0), there)
    return better(problem, found, np.clip(there, problem.low, problem.high))


def swept(problem: Exact, x: np.ndarray) -> np.ndarray:
    """Each coordinate in turn to its minimum, or to that of a quadratic above F."""
    x, z = x.copy(), problem.image(x)
    bend = problem.weighted_at(problem.phi.most, z)
    for j in range(len(x)):
        a = problem.A[:, j]
        L = (bend * a * a).sum()
        if L + problem.mu[j] <= 0:
            x[j] = np.clip(LD(0), problem.low[j], problem.high[j])
            continue
        g = (problem.s * problem.weighted_at(problem.phi.slope, z)) @ a
        v = L * x[j] - g
        to = np.sign(v) * max(abs(v) - problem.w[j], LD(0)) / (L + problem.mu[j])
        to = np.clip(to, problem.low[j], problem.high[j])
        if to != x[j]:
            z = z + problem.s * a * (to - x[j])
            x[j] = to
    return x
