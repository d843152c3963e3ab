"""Every form, a loss x a penalty x a kind of A, on small random data; and its minimum, by numpy and scipy alone."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import scipy.sparse
import torch
from scipy.optimize import minimize
from scipy.special import xlogy

from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Problem, Quantile, Softmax, SquaredHinge
from sureprox.problems.operators import Function
from sureprox.problems.penalties import (
    L1,
    Box,
    GroupBall,
    GroupL2,
    NonNegative,
    Penalty,
    Separable,
    SparseGroup,
    WeightedL1,
    Zero,
)

B, M, N, K = 3, 30, 5, 3
LOSSES = (
    "least squares",
    "huber",
    "quantile",
    "squared hinge",
    "logistic",
    "poisson",
    "poisson identity",
    "softmax",
)
MATRICES = ("own", "shared", "sparse", "function")  # the last three are the same matrix

Rows = Callable[[np.ndarray, np.ndarray], np.ndarray]  # of t = A x + offset and y, elementwise


@dataclass(frozen=True)
class Phi:
    value: Rows
    slope: Rows


def _hinge(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.maximum(1 - (2 * y - 1) * t, 0)


def _quantile(t: np.ndarray, y: np.ndarray) -> np.ndarray:
    """argmax over v in [-0.7, 0.3] of v z - 0.4 v^2: the envelope of the pinball loss, level 0.7, smoothing 0.8."""
    return np.clip((t - y) / 0.8, -0.7, 0.3)


PHI = {
    "least squares": Phi(lambda t, y: (t - y) ** 2 / 2, lambda t, y: t - y),
    "huber": Phi(
        lambda t, y: np.where(abs(t - y) <= 0.7, (t - y) ** 2 / 2, 0.7 * (abs(t - y) - 0.35)),
        lambda t, y: np.clip(t - y, -0.7, 0.7),
    ),
    "quantile": Phi(lambda t, y: _quantile(t, y) * (t - y) - 0.4 * _quantile(t, y) ** 2, _quantile),
    "squared hinge": Phi(lambda t, y: _hinge(t, y) ** 2, lambda t, y: -2 * (2 * y - 1) * _hinge(t, y)),
    "logistic": Phi(lambda t, y: (np.logaddexp(0, t) - y * t) / M, lambda t, y: (0.5 * (1 + np.tanh(t / 2)) - y) / M),
    "poisson": Phi(lambda t, y: np.exp(t) - y * t - y + xlogy(y, y), lambda t, y: np.exp(t) - y),
    "poisson identity": Phi(lambda t, y: t - y + xlogy(y, y) - xlogy(y, t), lambda t, y: 1 - y / t),
}


@dataclass(frozen=True)
class Data:
    """float64; A is (B, M, N) or (M, N)."""

    loss: str
    A: np.ndarray
    y: np.ndarray  # (B, M)
    weights: np.ndarray | None  # (B, M); where A is shared there are none
    offset: np.ndarray | None  # (B, M), or (B, M, K)

    @property
    def n(self) -> int:
        return N * (K if self.loss == "softmax" else 1)

    def f(self, i: int, x: np.ndarray) -> tuple[float, np.ndarray]:
        """Value and gradient at x (n,)."""
        A = self.A[i] if self.A.ndim == 3 else self.A
        w = 1.0 if self.weights is None else self.weights[i]
        offset = 0.0 if self.offset is None else self.offset[i]
        if self.loss == "softmax":
            t, own = A @ x.reshape(K, N).T + offset, np.eye(K)[self.y[i].astype(int)]
            top = t.max(1)
            total = np.log(np.exp(t - top[:, None]).sum(1)) + top
            slope = np.exp(t - total[:, None]) - own
            return float((w * (total - (own * t).sum(1))).sum()), ((w * slope.T) @ A).ravel()
        t, phi = A @ x + offset, PHI[self.loss]
        return float((w * phi.value(t, self.y[i])).sum()), (w * phi.slope(t, self.y[i])) @ A


@dataclass(frozen=True)
class Truth:
    """r(x) = sum_j [w_j |x_j| + mu_j/2 x_j^2] + sum_g c_g |x_g|, low <= x <= high, |x_g| <= radius_g; for an instance.

    Numbers, or (n,).
    """

    w: Any = 0.0
    mu: Any = 0.0
    low: Any = -np.inf
    high: Any = np.inf
    groups: tuple[tuple[int, ...], ...] = ()
    c: tuple[float, ...] = ()
    radius: float | None = None

    def value(self, x: np.ndarray) -> float:
        norms = sum(c * np.linalg.norm(x[list(g)]) for g, c in zip(self.groups, self.c, strict=True))
        return float((self.w * np.abs(x) + self.mu / 2 * x**2).sum() + norms)


GROUPS = ((0, 3), (1, 2))  # 4 is in none, nor is any coordinate beyond
GROUP_WEIGHTS = (1.0, 0.5)


@dataclass(frozen=True)
class Case:
    """The penalty of a batch where lam is (B,), and that of one instance."""

    make: Callable[[np.ndarray, int], Penalty]  # (lam, n)
    truth: Callable[[float, int], Truth]
    inside: bool = False  # it keeps x >= 0


def _steps(n: int) -> np.ndarray:
    """(n,): one coordinate free, the others of several sizes."""
    return np.concatenate([[0.0], np.linspace(0.5, 2, n - 1)])


def _tensor(value: Any) -> torch.Tensor:
    return torch.as_tensor(np.asarray(value), dtype=torch.float64)


def _lows(n: int) -> np.ndarray:
    return np.where(np.arange(n) % 3 == 0, -np.inf, -0.05)


def _highs(n: int) -> np.ndarray:
    return np.where(np.arange(n) % 3 == 1, 0.1, np.inf)


PENALTIES = {
    "l1": Case(lambda lam, n: L1(_tensor(lam)), lambda lam, n: Truth(w=lam)),
    "weighted": Case(
        lambda lam, n: WeightedL1(_tensor(lam[:, None] * _steps(n))), lambda lam, n: Truth(w=lam * _steps(n))
    ),
    "nonnegative": Case(
        lambda lam, n: NonNegative(_tensor(lam / 4)), lambda lam, n: Truth(w=lam / 4, low=0.0), inside=True
    ),
    "box": Case(lambda lam, n: Box(0.0, 0.1), lambda lam, n: Truth(low=0.0, high=0.1), inside=True),
    "everything": Case(
        lambda lam, n: Separable(_tensor(lam), 0.2, _tensor(_lows(n)), _tensor(_highs(n))),
        lambda lam, n: Truth(w=lam, mu=0.2, low=_lows(n), high=_highs(n)),
    ),
    "zero": Case(lambda lam, n: Zero(), lambda lam, n: Truth()),
    "groups": Case(
        lambda lam, n: GroupL2([list(g) for g in GROUPS], _tensor(lam), weights=GROUP_WEIGHTS),
        lambda lam, n: Truth(groups=GROUPS, c=tuple(lam * w for w in GROUP_WEIGHTS)),
    ),
    "sparse groups": Case(
        lambda lam, n: SparseGroup([list(g) for g in GROUPS], _tensor(lam / 2), _tensor(lam)),
        lambda lam, n: Truth(w=lam / 2, groups=GROUPS, c=(lam, lam)),
    ),
    "balls": Case(
        lambda lam, n: GroupBall([list(g) for g in GROUPS], 0.2),
        lambda lam, n: Truth(groups=GROUPS, c=(0.0, 0.0), radius=0.2),
    ),
}


def _fits(loss: str, penalty: str) -> bool:
    """Counts with mean A x need x >= 0."""
    return loss != "poisson identity" or PENALTIES[penalty].inside


PAIRS = tuple((loss, penalty) for loss in LOSSES for penalty in PENALTIES if _fits(loss, penalty))


@lru_cache
def data(loss: str, shared: bool) -> Data:
    chance = np.random.default_rng(LOSSES.index(loss))
    A = chance.standard_normal((M, N) if shared else (B, M, N))
    if shared:
        A = A * (chance.random((M, N)) < 0.7)
    A = 3 * A / np.linalg.norm(A, axis=-2, keepdims=True)
    if loss == "poisson identity":
        A = np.abs(A)
    mean = np.broadcast_to(np.einsum("...mn,n->...m", A, [1.0, 0.8, 0.5, -0.5, 0.0]), (B, M))
    y = mean + 0.7 * chance.standard_normal((B, M))
    if loss in ("squared hinge", "logistic"):
        y = (mean + 2 * chance.standard_normal((B, M)) > 0).astype(float)
    elif loss == "softmax":
        y = np.clip(np.round(mean + chance.standard_normal((B, M))), -1, 1) % K
    elif loss.startswith("poisson"):
        y = chance.poisson(np.abs(mean) + 1 if "identity" in loss else np.exp(0.5 * mean)).astype(float)
    weights = offset = None
    if not shared:
        weights, offset = chance.random((B, M)) + 0.1, 0.3 * chance.standard_normal((B, M))
        weights[:, 3] = 0
        if loss == "softmax":
            offset = 0.3 * chance.standard_normal((B, M, K))
    if loss == "poisson identity":
        offset = 0.5 + chance.random((B, M))
    return Data(loss, A, y, weights, offset)


def lam(given: Data) -> np.ndarray:
    """(B,) a fifth of the smallest lam for which zero solves a problem with lam |x|_1."""
    return np.array([0.2 * np.abs(given.f(i, np.zeros(given.n))[1]).max() for i in range(B)])


def problem(loss: str, penalty: str, matrix: str, dtype: torch.dtype = torch.float64) -> Problem:
    given = data(loss, matrix != "own")
    r = PENALTIES[penalty].make(lam(given), given.n)
    return Problem(smooth(given, matrix, dtype), r)


def smooth(given: Data, matrix: str, dtype: torch.dtype = torch.float64) -> Any:
    A: Any = torch.from_numpy(given.A).to(dtype)
    if matrix == "sparse":
        A = scipy.sparse.csr_matrix(given.A.astype(A.numpy().dtype))
    elif matrix == "function":
        dense = A
        A = Function(lambda x: x @ dense.to(x).T, lambda z: z @ dense.to(z), (M, N))
    y = torch.from_numpy(given.y).to(dtype)
    options = {
        name: torch.from_numpy(value).to(dtype)
        for name, value in (("weights", given.weights), ("offset", given.offset))
        if value is not None
    }
    return {
        "least squares": lambda: LeastSquares(A, y, **options),
        "huber": lambda: Huber(A, y, 0.7, **options),
        "quantile": lambda: Quantile(A, y, 0.7, 0.8, **options),
        "squared hinge": lambda: SquaredHinge(A, y, **options),
        "logistic": lambda: Logistic(A, y, **options),
        "poisson": lambda: Poisson(A, y, **options),
        "poisson identity": lambda: Poisson(A, y, "identity", **options),
        "softmax": lambda: Softmax(A, y, K, **options),
    }[given.loss]()


def objective(loss: str, penalty: str, shared: bool, i: int, x: np.ndarray) -> float:
    given = data(loss, shared)
    return given.f(i, x)[0] + PENALTIES[penalty].truth(lam(given)[i], given.n).value(x)


@lru_cache
def lowest(loss: str, penalty: str, shared: bool) -> np.ndarray:
    """(B,) the minima."""
    given = data(loss, shared)
    truths = [PENALTIES[penalty].truth(of, given.n) for of in lam(given)]
    found = _split if not truths[0].groups else _descended
    return np.array([found(given, i, truth) for i, truth in enumerate(truths)])


def _split(given: Data, i: int, r: Truth) -> float:
    """By L-BFGS-B with x = p - q, p, q >= 0."""
    n, w = given.n, np.broadcast_to(r.w, given.n)
    low, high = (np.broadcast_to(bound, n) for bound in (r.low, r.high))

    def value(v: np.ndarray) -> tuple[float, np.ndarray]:
        x = v[:n] - v[n:]
        f, g = given.f(i, x)
        g = g + r.mu * x
        return f + float((r.mu / 2 * x**2).sum() + w @ (v[:n] + v[n:])), np.concatenate([g + w, w - g])

    bounds = [(max(a, 0), max(b, 0)) for a, b in zip(low, high, strict=True)]
    bounds += [(max(-b, 0), max(-a, 0)) for a, b in zip(low, high, strict=True)]
    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-10, "maxcor": 30}
    v, best = np.zeros(2 * n), np.inf
    while True:  # a line search may give up long before the minimum: begin anew where it did
        found = minimize(value, v, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        if not found.fun < best * (1 - 1e-12):
            return float(min(found.fun, best))
        v, best = found.x, found.fun


def _descended(given: Data, i: int, r: Truth) -> float:
    """By accelerated proximal steps with backtracking, begun anew where they turn."""
    x = y = np.zeros(given.n)
    L, t, still = 1.0, 1.0, 0
    for _ in range(20_000):
        f, g = given.f(i, y)
        while True:
            z = _prox(r, y - g / L, 1 / L)
            d = z - y
            if given.f(i, z)[0] <= f + g @ d + L / 2 * (d @ d) + 1e-15 * abs(f):
                break
            L *= 2
        if (y - z) @ (z - x) > 0:
            t = 1.0
        after = (1 + np.sqrt(1 + 4 * t * t)) / 2
        still = still + 1 if np.abs(z - x).max() <= 1e-11 * np.abs(z).max(initial=1e-6) else 0
        x, y, t = z, z + (t - 1) / after * (z - x), after
        if still == 5:
            break
    return given.f(i, x)[0] + r.value(x)


def _prox(r: Truth, v: np.ndarray, step: float) -> np.ndarray:
    x = np.sign(v) * np.maximum(np.abs(v) - step * r.w, 0)
    for g, c in zip(r.groups, r.c, strict=True):
        members = list(g)
        norm = np.linalg.norm(x[members])
        if r.radius is not None:
            x[members] *= min(1.0, r.radius / norm) if norm else 1.0
        else:
            x[members] *= max(1 - step * c / norm, 0) if norm else 0.0
    return x
