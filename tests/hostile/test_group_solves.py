"""Random solves with groups and with classes: each "converged" is proved again by a dual point in long double."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from random_options import Options, random_options, solved
from random_problems import _matrices, _ratios, _right

import sureprox as sp
from hardening import count
from sureprox.problems import (
    L1,
    GroupBall,
    GroupL2,
    Huber,
    LeastSquares,
    Logistic,
    Poisson,
    Problem,
    Quantile,
    Softmax,
    SparseGroup,
    SquaredHinge,
)

LD = np.longdouble
EPS = float(np.finfo(np.float64).eps)
CASES = count(reduced=48, full=4_000)
PARTS = 2
CLASSES = 3
SECTIONS = 120  # of the interval in which the best dual point lies

Rows = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Phi:
    """f = sum of value(A x), its derivative, its conjugate; `most` s u, u the derivative, are in the domain of that."""

    value: Rows
    slope: Rows
    conjugate: Rows
    most: float = 1.0
    limits: tuple[Any, Any] | None = None  # of the derivative and of s u


def _entropy(q: np.ndarray) -> np.ndarray:
    return np.where(q > 0, q * np.log(np.where(q > 0, q, 1)), LD(0))


def squares(b: np.ndarray) -> Phi:
    return Phi(lambda z: (z - b) ** 2 / 2, lambda z: z - b, lambda u: u * u / 2 + u * b, np.inf)


def clipped(b: np.ndarray, low: Any, high: Any, gamma: float) -> Phi:
    gamma = LD(gamma)

    def slope(z: np.ndarray) -> np.ndarray:
        return np.clip((z - b) / gamma, low, high)

    return Phi(
        lambda z: slope(z) * (z - b - gamma / 2 * slope(z)),
        slope,
        lambda u: gamma / 2 * u * u + u * b,
        limits=(low, high),
    )


def logistic(y: np.ndarray) -> Phi:
    """A mean, of t -> log(1 + e^t) - y t."""
    m = len(y)

    def conjugate(u: np.ndarray) -> np.ndarray:
        v = np.clip(m * u + y, 0, 1)
        return (_entropy(v) + _entropy(1 - v)) / m

    side = 1 - 2 * y  # nothing cancels where t has the right sign
    return Phi(
        lambda z: np.logaddexp(LD(0), side * z) / m,
        lambda z: side * np.exp(-np.logaddexp(LD(0), -side * z)) / m,
        conjugate,
    )


def poisson(y: np.ndarray) -> Phi:
    def conjugate(u: np.ndarray) -> np.ndarray:
        q = np.maximum(u + y, 0)
        return _entropy(q) - q - _entropy(y) + y

    return Phi(lambda z: np.exp(z) - y * z - y + _entropy(y), lambda z: np.exp(z) - y, conjugate)


def softmax(y: np.ndarray) -> Phi:
    """Of z, the rows of the first class, then those of the second, ...; its values are spread over these."""
    own = (np.arange(CLASSES)[:, None] == y).astype(LD)

    def others(z: np.ndarray) -> np.ndarray:
        """How far each class is above the right one; minus infinity for that itself."""
        t = z.reshape(CLASSES, -1)
        return np.where(own > 0, -np.inf, t - (own * t).sum(0))

    def value(z: np.ndarray) -> np.ndarray:
        return np.logaddexp(LD(0), np.logaddexp.reduce(others(z), axis=0))

    def slope(z: np.ndarray) -> np.ndarray:
        p = np.exp(others(z) - value(z))
        return (p - own * p.sum(0)).ravel()

    def conjugate(u: np.ndarray) -> np.ndarray:
        return _entropy(np.maximum(u.reshape(CLASSES, -1) + own, 0))

    return Phi(value, slope, conjugate)


@dataclass(frozen=True)
class Groups:
    """f(A x) + l1 |x|_1 + sum_g w_g |x_g|, or with |x_g| <= w_g in place of the penalty; by default 1/2 |A x - b|^2."""

    A: np.ndarray  # (m, n)
    b: np.ndarray
    l1: LD
    members: list[np.ndarray]
    w: np.ndarray  # (G,)
    ball: bool
    phi: Phi | None = field(default=None)

    @property
    def f(self) -> Phi:
        return squares(self.b) if self.phi is None else self.phi

    def value(self, x: np.ndarray) -> LD:
        f, norms = self.f.value(self.A @ x).sum(), self.norms(x)
        if self.ball:
            return f if (norms <= self.w * (1 + 64 * LD(EPS))).all() else LD(np.inf)
        return f + self.l1 * np.abs(x).sum() + self.w @ norms

    def norms(self, v: np.ndarray) -> np.ndarray:
        return np.array([np.sqrt((v[g] ** 2).sum()) for g in self.members], LD)

    def gap(self, x: np.ndarray) -> LD:
        """F(x) - D(s u), D(u) = -f*(u) - r*(-A'u), u = f'(A x): every s >= 0 that is allowed gives a bound.

        The best one is looked for by sections: the lower end of what is left of the interval is a bound too.
        """
        u = self.f.slope(self.A @ x)
        pull = self.A.T @ u
        most = LD(self.f.most)
        if self.f.limits is not None:
            ends = np.where(u > 0, self.f.limits[1], self.f.limits[0])
            most = np.where(u == 0, np.inf, ends / np.where(u == 0, 1, u)).min()
        high = min(self._largest(pull) if not self.ball else LD(np.inf), most)
        if not u.any():
            high = LD(0)
        elif np.isinf(high):  # squares: no s is better than twice that of the best value
            high = 2 * abs(u @ self.b) / (u @ u) + 2
        low, whole = LD(0), high

        def dual(s: LD) -> LD:
            inside = self.w @ self.norms(s * pull) if self.ball else LD(0)
            return -self.f.conjugate(s * u).sum() - inside

        for _ in range(SECTIONS):
            left, right = low + (high - low) / 3, high - (high - low) / 3
            low, high = (left, high) if dual(left) < dual(right) else (low, right)
        return self.value(x) - max(dual(s) for s in (low, high, whole, LD(0)))

    def _largest(self, pull: np.ndarray) -> LD:
        """The largest s with |S(s pull_g, l1)| <= w_g for every group and |s pull_j| <= l1 outside of them."""
        if not pull.any():
            return LD(np.inf)
        inside = np.zeros(len(pull), bool)
        for g in self.members:
            inside[g] = True
        alone = np.abs(pull[~inside]).max(initial=LD(0))
        low, high = LD(0), LD(2) * (self.w.max(initial=LD(0)) + self.l1 * len(pull)) / np.abs(pull).max()
        high = min(high, self.l1 / alone) if alone > 0 else high
        for _ in range(200):
            s = (low + high) / 2
            cut = np.maximum(np.abs(s * pull) - self.l1, 0)
            low, high = (s, high) if (self.norms(cut) <= self.w).all() else (low, s)
        return low

    def rounding(self, x: np.ndarray) -> float:
        """Of F and of a gap in float64."""
        z = self.A @ x
        sums = np.abs(self.A) @ np.abs(x) + np.abs(self.b)
        made = np.abs(self.f.slope(z)) @ sums + np.abs(self.f.value(z)).sum() + self.value(x)
        return float(4 * (sum(self.A.shape) + 4) * (EPS * made + np.finfo(LD).eps * (np.abs(z) @ (1 + np.abs(self.b)))))


LOSSES = ("squares", "squares", "huber", "quantile", "squared hinge", "logistic", "poisson", "softmax", "softmax")


def case(number: int) -> tuple[Problem, list[Groups], Options]:
    chance = np.random.default_rng([6, number])
    m, n, B = (round(most ** chance.random()) for most in (40, 60, 12))
    dtype = chance.choice([np.float32, np.float64])
    shared = bool(chance.random() < 0.3)
    A, _ = _matrices(chance, 1 if shared else B, m, n)
    A = A.astype(dtype)
    b = _right(chance, np.broadcast_to(A, (B, m, n))).astype(dtype)
    loss = str(chance.choice(LOSSES))
    if loss == "poisson":  # e^{A x} must be a number for x of usual sizes
        A = (A / max(np.abs(A).max(), 1e-30) * 10 ** chance.uniform(-2, 0.5)).astype(dtype)
    f, y = _loss(loss, torch.from_numpy(A[0] if shared else A), b, chance)
    full = np.broadcast_to(A, (B, m, n)).astype(LD)
    if loss == "softmax":
        full = np.kron(np.eye(CLASSES, dtype=LD), full)
    phis, N = [_phi(loss, row) for row in y], full.shape[2]
    kind = str(chance.choice(["groups", "sparse groups", "balls", "l1"] if loss == "softmax" else KINDS))
    labels = np.unique(chance.integers(0, chance.integers(1, N + 1), N), return_inverse=True)[1]
    if loss == "softmax" and chance.random() < 0.5:
        labels = np.tile(np.arange(n), CLASSES)
    if kind == "sparse groups":
        labels = _numbered(np.where(chance.random(N) < 0.2, -1, labels))
    members = [np.flatnonzero(labels == g) for g in range(labels.max() + 1)] if kind != "l1" else []
    weights = (10 ** chance.uniform(-1, 1, len(members))).astype(dtype)
    slope = np.stack([phi.slope(np.zeros(full.shape[1], LD)) for phi in phis])
    steep = np.abs(np.einsum("bmn,bm->bn", full, slope)).max(1) + LD(1e-30)
    ratio = np.maximum(_ratios(chance, B), 1e-12)
    reach = np.abs(b).max(1) / (1e-30 + np.abs(full).max((1, 2)))
    lam = (ratio * (reach if kind == "balls" else steep)).astype(dtype)
    share = {"sparse groups": chance.choice([0.1, 1.0]), "l1": 1.0}.get(kind, 0.0)
    l1 = (lam * share).astype(dtype)
    lam_, w_ = torch.from_numpy(lam), torch.from_numpy(weights)
    made: dict[str, Any] = {
        "groups": lambda: GroupL2(labels, lam_, w_),
        "sparse groups": lambda: SparseGroup(labels, torch.from_numpy(l1), lam_, w_),
        "balls": lambda: GroupBall(labels, lam_, w_),
        "l1": lambda: L1(torch.from_numpy(l1)),
    }
    problem = Problem(f, made[kind]())
    exact = [
        Groups(full[i], _scale(loss, y[i]), LD(l1[i]), members, LD(lam[i]) * weights.astype(LD), kind == "balls", phi)
        for i, phi in enumerate(phis)
    ]
    return problem, exact, random_options(chance, problem)


KINDS = ("groups", "sparse groups", "balls")
DELTA, LEVEL = 0.5, 0.3


def _loss(loss: str, A: torch.Tensor, b: np.ndarray, chance: np.random.Generator) -> tuple[Any, np.ndarray]:
    """f and its data (B, m)."""
    target = torch.from_numpy(b)
    if loss in ("squares", "huber", "quantile"):
        made = {
            "squares": lambda: LeastSquares(A, target),
            "huber": lambda: Huber(A, target, DELTA),
            "quantile": lambda: Quantile(A, target, LEVEL, DELTA),
        }[loss]()
        return made, b.astype(LD)
    y = {
        "poisson": lambda: chance.poisson(10 ** chance.uniform(-1, 2), b.shape),
        "softmax": lambda: chance.integers(0, CLASSES, b.shape),
    }.get(loss, lambda: chance.integers(0, 2, b.shape))()
    given = torch.from_numpy(y.astype(b.dtype))
    if loss == "softmax":
        return Softmax(A, given, CLASSES), y.astype(LD)
    return {"poisson": Poisson, "logistic": Logistic, "squared hinge": SquaredHinge}[loss](A, given), y.astype(LD)


def _phi(loss: str, y: np.ndarray) -> Phi:
    if loss == "squared hinge":
        inf = np.full_like(y, np.inf)
        return clipped(2 * y - 1, np.where(y > 0, -inf, 0), np.where(y > 0, 0, inf), 0.5)
    return {
        "squares": lambda: squares(y),
        "huber": lambda: clipped(y, -DELTA, DELTA, 1),
        "quantile": lambda: clipped(y, -LEVEL, 1 - LEVEL, DELTA),
        "logistic": lambda: logistic(y),
        "poisson": lambda: poisson(y),
        "softmax": lambda: softmax(y.astype(int)),
    }[loss]()


def _scale(loss: str, y: np.ndarray) -> np.ndarray:
    """What z is compared with."""
    if loss in ("squares", "huber", "quantile", "poisson"):
        return y
    return np.ones(len(y) * (CLASSES if loss == "softmax" else 1), LD)


def _numbered(labels: np.ndarray) -> np.ndarray:
    """The groups that are left, numbered from 0; one at least."""
    labels[0] = max(labels[0], 0)
    return np.unique(np.append(labels, -1), return_inverse=True)[1][:-1] - 1


@pytest.mark.parametrize("part", range(PARTS))
def test_no_solve_with_groups_claims_what_is_not_so(part, record_property):
    solves = claims = refused = 0
    for number in range(part, CASES, PARTS):
        problem, exact, options = case(number)
        try:
            found, warned = solved(problem, options)
        except sp.InputError as error:  # from an optimizer that needs the subdifferential of each coordinate
            refused += "FISTA" not in str(error)
            continue
        assert warned != bool(found.converged.all()), f"case {number}: {options.text}"
        floor = options.arguments.get("floor", options.arguments["tol"])
        for i, of in enumerate(exact):
            solves += 1
            x = found.x[i].detach().double().numpy().astype(LD)
            where = f"case {number}, instance {i}: {options.text}"
            assert np.isfinite(x.astype(float)).all(), where
            with np.errstate(over="ignore"):
                value = of.value(x)
            if np.isinf(value) or not np.isfinite(float(found.objective[i])):
                # an optimizer without a guarantee may leave the balls, or go where e^z is no number
                assert found.status[i] != "converged", where
                continue
            slack = of.rounding(x)
            assert abs(float(found.objective[i]) - value) <= slack, where
            if found.status[i] == "converged":
                claims += 1
                gap = of.gap(x)
                promised = options.arguments["tol"] * max(value - gap, floor * of.value(np.zeros_like(x)))
                assert gap <= promised * (1 + 1e-6) + slack, where
    record_property(
        "hardening", f"{solves:,} random solves with groups or classes: {claims:,} said to be converged, all proved"
    )
    assert refused == 0
    assert claims > 0.1 * solves > 0


def test_the_gap_of_the_judge_vanishes_at_a_solution_and_nowhere_else():
    """A = 1: the solution of a group is b_g (1 - w / |b_g|), or w b_g / |b_g| in a ball."""
    b = np.array([3.0, 4.0, 0.1, -0.2], LD)
    members, w = [np.array([0, 1]), np.array([2, 3])], np.array([1.0, 1.0], LD)
    for ball, x in ((False, [2.4, 3.2, 0, 0]), (True, [0.6, 0.8, 0.1, -0.2])):
        of = Groups(np.eye(4, dtype=LD), b, LD(0), members, w, ball)
        best = np.array(x, LD)
        assert 0 <= of.gap(best) + 1e-15 <= 1e-14
        assert of.gap(0.9 * best) >= of.value(0.9 * best) - of.value(best) > 1e-3
