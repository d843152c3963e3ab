"""Random losses with random separable penalties and operators, each with its truth."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse
import torch
from exact import LD, LOGISTIC, SQUARES, Exact, Phi, as_long, clipped, hinge, poisson
from random_data import Data, Made

from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Problem, Quantile, SquaredHinge
from sureprox.problems.operators import Compose, Difference, Function, Haar, Stack
from sureprox.problems.penalties import Separable


@dataclass(frozen=True)
class Rows:
    """A loss: of the problem, and as the truth sees it, sum_i c_i phi(s_i (A x - b)_i); all (B, m)."""

    f: Any
    phi: list[Phi]
    b: np.ndarray
    c: np.ndarray
    s: np.ndarray


def _made(loss: str) -> Callable[[Data], Made]:
    def made(d: Data) -> Made:
        if loss.startswith("poisson"):
            d = _for_counts(d, loss)
        A, matrix, sizes = _operator(d)
        rows = _rows(d, loss, A)
        slope = [c * s * phi.slope(-s * b) for phi, b, c, s in zip(rows.phi, rows.b, rows.c, rows.s, strict=True)]
        full = np.broadcast_to(matrix, (*rows.b.shape, matrix.shape[-1]))
        steepest = np.abs(np.einsum("bmn,bm->bn", full, np.stack(slope))).max(1)
        r, terms = _penalty(d, steepest, inside=loss == "poisson identity")
        exact = [
            Exact(full[i], rows.b[i], rows.c[i], rows.s[i], rows.phi[i], *(part[i] for part in terms), sizes=sizes)
            for i in range(len(rows.b))
        ]
        return Problem(rows.f, r), exact

    return made


def _for_counts(d: Data, loss: str) -> Data:
    """With A for which e^{A x} is no number beyond all others for x of usual sizes; >= 0 where mu = A x."""
    A = d.A.astype(float)
    A = A / max(np.abs(A).max(), 1e-300) * 10 ** d.chance.uniform(-2, 1)
    return replace(d, A=(np.abs(A) if loss == "poisson identity" else A).astype(d.A.dtype))


def _rows(d: Data, loss: str, A: Any) -> Rows:
    B, m, _ = d.parts
    chance, labels = d.chance, loss in ("logistic", "squared hinge")
    ones, size = np.ones((B, m), LD), float(np.abs(d.b.astype(float)).max()) or 1.0
    options: dict[str, torch.Tensor] = {}
    if chance.random() < 0.4:
        weights = 10 ** chance.uniform(-3, 3, (B, m)) * (chance.random((B, m)) < 0.8)
        weights[:, 0] = 1
        options["weights"] = d.tensor(weights)
    c = as_long(options["weights"]) if options else ones
    mean = 10 ** chance.uniform(-1, 4, (B, 1))
    if loss == "poisson identity":
        options["offset"] = d.tensor(mean * 10 ** chance.uniform(-2, 1, (B, m)))
    elif chance.random() < 0.3:
        unit = size if loss in ("least squares", "huber", "quantile") else 1.0
        options["offset"] = d.tensor(unit * chance.standard_normal((B, m)))
    b = -as_long(options["offset"]) if "offset" in options else 0 * ones
    if loss.startswith("poisson"):
        y = d.tensor(chance.poisson(mean, (B, m)) * (chance.random((B, m)) < 0.8))
        f = Poisson(A, y, "log" if loss == "poisson" else "identity", **options)
        return Rows(f, [poisson(as_long(row), loss == "poisson") for row in y], b, c, ones)
    y = d.tensor(d.y if labels else d.b)
    if loss == "logistic":
        return Rows(Logistic(A, y, **options), [LOGISTIC] * B, b, c / m, 1 - 2 * as_long(y))
    if loss == "squared hinge":
        f = SquaredHinge(A, y, **options)
        return Rows(f, [hinge()] * B, as_long(f.b), c, 1 - 2 * as_long(y))
    if loss == "least squares":
        f = LeastSquares(A, y, **options)
        # the roots of the weights, rounded to the precision of the problem, are its data
        return Rows(f, [SQUARES] * B, as_long(f.b), ones if f.root is None else as_long(f.root) ** 2, ones)
    unit = size * 10 ** chance.uniform(-3, 1)
    if loss == "huber":
        f = Huber(A, y, unit, **options)
        return Rows(f, [clipped(-unit, unit, 1)] * B, as_long(f.b), c, ones)
    level = float(chance.uniform(0.02, 0.98))
    f = Quantile(A, y, level, unit, **options)
    return Rows(f, [clipped(-level, 1 - level, unit)] * B, as_long(f.b), c, ones)


def _operator(d: Data) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """A as the problem gets it, its matrix, and what the entries of that are made of."""
    A, (m, n) = as_long(d.A), d.A.shape[-2:]
    kind = str(d.chance.choice(["dense", "sparse", "function", "stack", "compose"]))
    if d.A.ndim == 3 or kind == "dense":
        return d.tensor(d.A), A, None
    if kind == "sparse":
        return scipy.sparse.csr_matrix(d.A), A, None
    if kind == "compose" and n % 2 == 0:
        pairs = np.kron(np.eye(n // 2), np.array([[1, 1], [1, -1]]))
        W = np.concatenate([pairs[::2], pairs[1::2]]) * np.sqrt(LD(0.5))
        return Compose(d.tensor(d.A), Haar(n, levels=1)), A @ W, np.abs(A) @ np.abs(W)
    if kind == "stack" and 1 < n <= m:  # the last rows are differences instead
        D = (np.eye(n, k=1) - np.eye(n))[:-1].astype(LD)
        top = d.A[: m - (n - 1)]
        return Stack(d.tensor(top), Difference(n)), np.concatenate([as_long(top), D]), None
    dense = d.tensor(d.A)
    return Function(lambda x: x @ dense.to(x).T, lambda z: z @ dense.to(z), (m, n)), A, None


def _penalty(d: Data, steepest: np.ndarray, inside: bool) -> tuple[Separable, list[np.ndarray]]:
    """A separable penalty, which keeps x >= 0 if `inside`; and its w, mu, low, high (B, n)."""
    B, _, n = d.parts
    chance, dtype = d.chance, d.A.dtype
    kinds = ["bounds", "everything"]
    kind = str(chance.choice(kinds if inside else ["l1", "weighted", "elastic net", "ridge", "zero", *kinds]))
    lam = np.minimum((d.ratio * steepest).astype(float), np.finfo(dtype).max / 100)[:, None]
    reach = (float(np.abs(d.b.astype(float)).max()) or 1.0) / (1e-30 + float(np.abs(d.A).max()))
    reach = reach if 1e-30 < reach < 1e30 else 1.0
    w, mu = np.zeros((B, n)), np.zeros((B, n))
    low, high = np.full((B, n), -np.inf), np.full((B, n), np.inf)
    if kind in ("l1", "elastic net"):
        w = w + lam
    elif kind in ("weighted", "everything"):
        w = lam * 10.0 ** chance.choice([0, 0, -1, 1, -6], (B, n)) * (chance.random((B, n)) < 0.9)
    if kind in ("elastic net", "ridge", "everything"):
        mu = lam / reach * 10 ** chance.uniform(-3, 2, (B, n)) * (chance.random((B, n)) < 0.9)
    if kind in ("bounds", "everything"):
        size = reach * 10 ** chance.uniform(-2, 1, (B, n))
        sides = chance.choice(["both", "below"] if inside else ["both", "below", "above", "none"], (B, n))
        least = 0.0 if inside or chance.random() < 0.5 else -1.0
        low = np.where((sides == "both") | (sides == "below"), least * size, low)
        high = np.where((sides == "both") | (sides == "above"), size, high)
    with np.errstate(over="ignore"):
        parts = [value.astype(dtype) for value in (w, mu, low, high)]
    parts[:2] = (np.nan_to_num(value, posinf=1.0) for value in parts[:2])
    return Separable(*(torch.from_numpy(part) for part in parts)), [as_long(part) for part in parts]


FORMS = {
    f"{loss}, any penalty": _made(loss)
    for loss in ("least squares", "logistic", "huber", "quantile", "squared hinge", "poisson", "poisson identity")
}
