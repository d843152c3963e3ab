"""Random batches of problems that are hard to be right about, each with its truth: a number gives the same batch."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from exact import SQUARES, Exact, as_long
from own_parts import Box, ElasticNet, ElasticNetOfL1, OwnLeastSquares, OwnLogistic, Plain
from random_data import Data, Made
from random_forms import FORMS

import sureprox as sp
from sureprox.problems import L1, LeastSquares, Logistic, Problem, WeightedL1
from sureprox.problems.weighted import WeightedLeastSquares

ROWS, COLUMNS, BATCH = 60, 120, 48


@dataclass(frozen=True)
class Batch:
    """A problem of `sureprox`, the truth of each instance, and what it is in words."""

    problem: Problem
    exact: list[Exact]
    by_gap: bool  # judged by a duality gap, which bounds F - F*
    bounded: list[bool]  # whether "converged" bounds F - F*; by its KKT residual only where r holds every coordinate
    shift: np.ndarray | None  # (B, n): F(x + shift) is meant
    text: str


def _lasso(d: Data) -> Made:
    lam = d.lam(d.b)
    return sp.lasso(d.tensor(d.A), d.tensor(d.b), d.tensor(lam)), d.exact(w=lam[:, None])


def _logistic(d: Data) -> Made:
    lam = d.lam((d.y - 0.5) / d.parts[1])
    return sp.logistic(d.tensor(d.A), d.tensor(d.y), d.tensor(lam)), d.exact(True, w=lam[:, None])


def _weights(d: Data, lam: np.ndarray) -> np.ndarray:
    """(B, n): lam times 1, with some coordinates free or nearly so."""
    B, _, n = d.parts
    factor = 10.0 ** d.chance.choice([0, 0, -1, 1, -6, 3], size=(B, n))
    factor = np.where(d.chance.random((B, n)) < d.chance.choice([0, 0, 0.1, 0.5]), 0, factor)
    return (lam[:, None] * factor).astype(d.A.dtype)


def _weighted_l1(d: Data) -> Made:
    w = _weights(d, d.lam(d.b))
    return Problem(LeastSquares(d.tensor(d.A), d.tensor(d.b)), WeightedL1(d.tensor(w))), d.exact(w=w)


def _weighted_l1_logistic(d: Data) -> Made:
    w = _weights(d, d.lam((d.y - 0.5) / d.parts[1]))
    return Problem(Logistic(d.tensor(d.A), d.tensor(d.y)), WeightedL1(d.tensor(w))), d.exact(True, w=w)


def _row_weights(d: Data) -> np.ndarray:
    B, m, _ = d.parts
    weights = 10 ** d.chance.uniform(-3, 3, size=(B, m)) * (d.chance.random((B, m)) < 0.8)
    weights[:, 0] = 1
    return weights.astype(d.A.dtype)


def _sample_weights(d: Data) -> Made:
    """The roots of the weights, and their products with b, are rounded to the precision of the problem: its data."""
    weights, lam = _row_weights(d), d.lam(d.b)
    f = WeightedLeastSquares(d.tensor(d.A), d.tensor(d.b), d.tensor(weights), intercept=False)
    root = as_long(f.root)
    assert (np.abs(root**2 - weights) <= 4 * np.finfo(d.A.dtype).eps * weights).all()
    rounded = replace(d, A=root[:, :, None] * d.A, b=np.asarray(f.b))
    return Problem(f, L1(d.tensor(lam))), rounded.exact(w=lam[:, None])


def _folds(d: Data) -> Made:
    """Weights of zero and one, with an intercept that is minimised out: cross-validation."""
    B, m, _ = d.parts
    rows = (d.chance.random((B, m)) < 0.7).astype(d.A.dtype)
    rows[:, :2] = 1
    lam = d.lam(d.b)
    f = WeightedLeastSquares(d.tensor(d.A), d.tensor(d.b), d.tensor(rows))
    q = as_long(rows) / np.sqrt(as_long(rows).sum(1, keepdims=True))
    exact = []
    for i, plain in enumerate(d.exact(weights=rows, w=lam[:, None])):
        A, b = as_long(rows[i])[:, None] * plain.A, as_long(rows[i]) * plain.b
        A, b = A - np.outer(q[i], q[i] @ A), b - q[i] * (q[i] @ b)
        exact.append(Exact(A, b, np.ones_like(b), plain.s, SQUARES, plain.w, plain.mu, plain.low, plain.high))
    return Problem(f, L1(d.tensor(lam))), exact


def _sample_weights_logistic(d: Data) -> Made:
    weights, lam = _row_weights(d), d.lam((d.y - 0.5) / d.parts[1])
    f = Logistic(d.tensor(d.A), d.tensor(d.y), weights=d.tensor(weights))
    return Problem(f, L1(d.tensor(lam))), d.exact(True, weights, w=lam[:, None])


def _elastic(kind: type) -> Callable[[Data], Made]:
    def made(d: Data) -> Made:
        lam = d.lam(d.b)
        mu = (10 ** d.chance.uniform(-6, 2, len(lam))).astype(d.A.dtype)
        f = LeastSquares(d.tensor(d.A), d.tensor(d.b))
        return Problem(f, kind(d.tensor(lam), d.tensor(mu))), d.exact(w=lam[:, None], mu=mu[:, None])

    return made


def _elastic_logistic(d: Data) -> Made:
    lam = d.lam((d.y - 0.5) / d.parts[1])
    mu = (10 ** d.chance.uniform(-6, 0, len(lam))).astype(d.A.dtype)
    f = Logistic(d.tensor(d.A), d.tensor(d.y))
    return Problem(f, ElasticNet(d.tensor(lam), d.tensor(mu))), d.exact(True, w=lam[:, None], mu=mu[:, None])


def _own_least_squares(d: Data) -> Made:
    lam = d.lam(d.b)
    f = OwnLeastSquares(d.tensor(_own(d)), d.tensor(d.b))
    return Problem(f if d.chance.random() < 0.5 else Plain(f), L1(d.tensor(lam))), d.exact(w=lam[:, None])


def _own_logistic(d: Data) -> Made:
    lam = d.lam((d.y - 0.5) / d.parts[1])
    return Problem(OwnLogistic(d.tensor(_own(d)), d.tensor(d.y)), L1(d.tensor(lam))), d.exact(True, w=lam[:, None])


def _own_box(d: Data) -> Made:
    """1/2 |A x - b|^2 on a box around zero, or where x >= 0, of the size that matters."""
    B, _, n = d.parts
    size = np.abs(d.b).max(1, keepdims=True) / (1e-30 + np.abs(_own(d)).max((1, 2)).reshape(B, 1))
    high = (size * 10 ** d.chance.uniform(-2, 1, (B, n))).astype(d.A.dtype)
    low = -high if d.chance.random() < 0.5 else np.zeros_like(high)
    f = LeastSquares(d.tensor(d.A), d.tensor(d.b))
    return Problem(f, Box(d.tensor(low), d.tensor(high))), d.exact(low=low, high=high)


def _own(d: Data) -> np.ndarray:
    return np.broadcast_to(d.A, (len(d.b), *d.A.shape[-2:]))


KINDS: dict[str, Callable[[Data], Made]] = {
    "lasso": _lasso,
    "logistic": _logistic,
    "weighted L1": _weighted_l1,
    "weighted L1, logistic": _weighted_l1_logistic,
    "sample weights": _sample_weights,
    "folds with an intercept": _folds,
    "sample weights, logistic": _sample_weights_logistic,
    "elastic net": _elastic(ElasticNet),
    "elastic net from L1": _elastic(ElasticNetOfL1),
    "elastic net, logistic": _elastic_logistic,
    "own least squares": _own_least_squares,
    "own logistic": _own_logistic,
    "own box": _own_box,
} | FORMS
GAPS = [*list(KINDS)[:7], *FORMS]  # for these sureprox knows a duality gap
SHARES = [6, 4, 2, 2, *[1] * 9, *[2] * len(FORMS)]


def random_batch(chance: np.random.Generator) -> Batch:
    kind = str(chance.choice(list(KINDS), p=np.array(SHARES) / sum(SHARES)))
    m, n = (round(most ** chance.random()) for most in (ROWS, COLUMNS))
    B = int(chance.integers(1, BATCH + 1))
    shared = bool(chance.random() < 0.3)
    dtype = chance.choice([np.float32, np.float64])
    far = 12 if dtype == np.float32 else 100
    A, words = _matrices(chance, 1 if shared else B, m, n)
    size = 10.0 ** chance.choice([0, 0, 0, far, -far, 3, -3])
    b = _right(chance, np.broadcast_to(A, (B, m, n))) * size
    y = (chance.random((B, m)) < 0.5).astype(float)
    data = Data((A[0] if shared else A).astype(dtype), b.astype(dtype), y.astype(dtype), _ratios(chance, B), chance)
    problem, exact = KINDS[kind](data)
    shift, moved = None, ""
    if chance.random() < 0.1 and kind not in (
        "own box",
        *FORMS,
    ):  # to the edge of a box and back is not the edge, but for rounding
        shift = (10 ** chance.uniform(-3, 3) * chance.standard_normal((B, n))).astype(dtype)
        problem, moved = problem.shifted(torch.from_numpy(shift)), ", shifted"
    text = f"{kind}: {B} x {m} x {n}{' shared' if shared else ''}, {words}, b x {size:g}, {np.dtype(dtype)}{moved}"
    bounded = [kind in GAPS or bool((e.w > 0).all()) for e in exact]
    return Batch(problem, exact, kind in GAPS, bounded, shift, text)


def _ratios(chance: np.random.Generator, B: int) -> np.ndarray:
    """lam as a part of lam_max: from 1.5 down to 1e-12, some exactly 1, some 0."""
    ratios = 10 ** chance.uniform(-12, np.log10(1.5), B)
    usual = chance.random(B) < 0.5
    ratios[usual] = 10 ** chance.uniform(-3, 0, usual.sum())
    special = chance.random(B)
    return np.where(special < 0.03, 1.0, np.where(special < 0.05, 0.0, ratios))


def _matrices(chance: np.random.Generator, B: int, m: int, n: int) -> tuple[np.ndarray, str]:
    A = chance.standard_normal((B, m, n))
    words = []
    base = chance.choice(
        ["gaussian", "low rank", "correlated", "whole numbers", "sparse"], p=[0.4, 0.15, 0.2, 0.15, 0.1]
    )
    if base == "low rank":
        k = int(chance.integers(1, min(m, n) + 1))
        A = A[:, :, :k] @ chance.standard_normal((B, k, n))
    elif base == "correlated":
        A = np.cumsum(A, 2) if chance.random() < 0.5 else A + 100 * A[:, :, :1]
    elif base == "whole numbers":
        A = chance.integers(-2, 3, (B, m, n)).astype(float)
    elif base == "sparse":
        A = A * (chance.random(A.shape) < 0.2)
    words.append(str(base))
    if chance.random() < 0.15:
        A = A[:, :, chance.integers(0, n, n)]
        words.append("columns twice")
    if chance.random() < 0.15:
        A = A * (chance.random((B, 1, n)) < 0.7)
        words.append("zero columns")
    if chance.random() < 0.2:
        A = A * 10.0 ** chance.choice([-8, 0, 0, 0, 8], size=(B, 1, n))
        words.append("columns x 1e+-8")
    if chance.random() < 0.2:
        A = A * 10.0 ** chance.integers(-6, 7)
        words.append("A scaled")
    return A, " ".join(words)


def _right(chance: np.random.Generator, A: np.ndarray) -> np.ndarray:
    """b: noise, what a sparse x gives, with noise or without, or zero in some instances."""
    B, m, n = A.shape
    b = chance.standard_normal((B, m))
    x = chance.standard_normal((B, n)) * (chance.random((B, n)) < 0.2)
    signal = np.einsum("bmn,bn->bm", A, x)
    kind = chance.choice(["noise", "signal", "exact"], p=[0.5, 0.3, 0.2])
    if kind == "signal":
        b = signal + 0.1 * b
    elif kind == "exact":
        b = signal
    return b * (chance.random((B, 1)) < 0.98)
