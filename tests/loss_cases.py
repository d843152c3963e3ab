"""One case for each loss: how it is made from A, weights and an offset, and phi written out with mpmath or torch."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from helpers import F64, labels, normal
from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Quantile, Softmax, SquaredHinge

B, M, N, K = 3, 12, 5, 3


@dataclass(frozen=True)
class Case:
    make: Callable  # (A, y, weights, offset)
    y: Tensor  # (B, M)
    phi: Callable  # (t, y) elementwise in plain torch, t = A x + offset
    bend: Callable  # (w, offset, y) the bound of phi'' of each row that L is made of
    mean: bool = False
    kinks: bool = False  # phi'' jumps, or is constant: its integral is no independent truth
    reached: float = 0.9  # share of the bound of phi'' that random points come to


def _squares(t: Tensor, y: Tensor) -> Tensor:
    return (t - y) ** 2 / 2


def _huber(t: Tensor, y: Tensor) -> Tensor:
    size = (t - y).abs()
    return torch.where(size <= 0.7, size**2 / 2, 0.7 * (size - 0.35))


def _quantile(t: Tensor, y: Tensor) -> Tensor:
    """The envelope as its definition says it: min_s pinball(s) + (z - s)^2 / (2 smoothing), s one of three."""
    z, h = t - y, 0.4
    up, down = z - h * 0.7, z + h * 0.3
    flat = z**2 / (2 * h)
    return torch.where(up > 0, 0.7 * up + h * 0.49 / 2, torch.where(down < 0, -0.3 * down + h * 0.09 / 2, flat))


def _hinge(t: Tensor, y: Tensor) -> Tensor:
    return (1 - (2 * y - 1) * t).clamp(min=0) ** 2


def _logistic(t: Tensor, y: Tensor) -> Tensor:
    return torch.log(1 + torch.exp(t)) - y * t


def _poisson(t: Tensor, y: Tensor) -> Tensor:
    return torch.exp(t) - y * t - y + torch.xlogy(y, y)


def _identity(t: Tensor, y: Tensor) -> Tensor:
    return t - torch.xlogy(y, t) - y + torch.xlogy(y, y)


COUNTS = (3 * normal(B, M, seed=11).abs()).floor()
CLASSES = (1.5 * normal(B, M, seed=12).abs()).floor().clamp(max=K - 1)

POINTWISE = {
    "least squares": Case(
        lambda A, y, w, o: LeastSquares(A, y, w, o), normal(B, M, seed=1), _squares, lambda w, o, y: w, kinks=True
    ),
    "huber": Case(
        lambda A, y, w, o: Huber(A, y, 0.7, w, o),
        2 * normal(B, M, seed=1),
        _huber,
        lambda w, o, y: w,
        kinks=True,
        reached=0.3,
    ),
    "quantile": Case(
        lambda A, y, w, o: Quantile(A, y, 0.3, 0.4, w, o),
        normal(B, M, seed=1),
        _quantile,
        lambda w, o, y: w / 0.4,
        kinks=True,
        reached=0.1,
    ),
    "squared hinge": Case(
        lambda A, y, w, o: SquaredHinge(A, y, w, o), labels(B, M, 1), _hinge, lambda w, o, y: 2 * w, kinks=True
    ),
    "logistic": Case(
        lambda A, y, w, o: Logistic(A, y, weights=w, offset=o),
        labels(B, M, 1),
        _logistic,
        lambda w, o, y: w / 4 / M,
        mean=True,
        reached=0.4,
    ),
    "poisson": Case(
        lambda A, y, w, o: Poisson(A, y, "log", w, o),
        COUNTS,
        _poisson,
        lambda w, o, y: w * torch.maximum(o.exp(), y),
    ),
    "poisson identity": Case(
        lambda A, y, w, o: Poisson(A, y, "identity", w, o), COUNTS, _identity, lambda w, o, y: w * y / o**2
    ),
}
NAMES = (*POINTWISE, "softmax")
GLOBAL = tuple(name for name in NAMES if not name.startswith("poisson"))  # those with an L


def matrix(name: str, shared: bool = False, seed: int = 0) -> Tensor:
    A = normal(M, N, seed=seed) if shared else normal(B, M, N, seed=seed)
    return A.abs() if "identity" in name else A


def row_weights(seed: int = 5) -> Tensor:
    """Positive and zero."""
    weights = normal(B, M, seed=seed).abs() + 0.1
    weights[:, 2] = 0
    return weights


def offset(name: str) -> Tensor:
    return 0.5 + normal(B, M, seed=6).abs() if "identity" in name else 0.5 * normal(B, M, seed=6)


def loss(name: str, shared: bool = False, weights: Tensor | None = None, off: Tensor | None = None, dtype=F64):
    A = matrix(name, shared).to(dtype)
    weights = None if weights is None else weights.to(dtype)
    if name == "softmax":
        return Softmax(A, CLASSES.to(dtype), K, weights, None if off is None else off.to(dtype))
    if off is None and "identity" in name:
        off = offset(name)
    case = POINTWISE[name]
    return case.make(A, case.y.to(dtype), weights, None if off is None else off.to(dtype))


def full(name: str, shared: bool = False, dtype=F64):
    """With weights and an offset."""
    off = 0.5 * normal(B, M, K, seed=6) if name == "softmax" else offset(name)
    return loss(name, shared, row_weights(), off, dtype)


def point(name: str, seed: int = 3, size: float = 1.0) -> Tensor:
    x = size * normal(B, N * (K if name == "softmax" else 1), seed=seed)
    return x.abs() if "identity" in name else x


def formula(name: str, shared: bool, weights: Tensor | None, off: Tensor | None, x: Tensor) -> Tensor:
    """f(x) (B,) as its docstring says it, in plain torch."""
    A = matrix(name, shared).expand(B, M, N)
    w = torch.ones(B, M, dtype=F64) if weights is None else weights
    if name == "softmax":
        z = torch.einsum("bmn,bkn->bmk", A, x.reshape(B, K, N)) + (0 if off is None else off)
        own = z.gather(2, CLASSES.long().unsqueeze(2)).squeeze(2)
        return (w * (z.exp().sum(2).log() - own)).sum(1)
    if off is None and "identity" in name:
        off = offset(name)
    case = POINTWISE[name]
    t = torch.einsum("bmn,bn->bm", A, x) + (0 if off is None else off)
    total = (w * case.phi(t, case.y)).sum(1)
    return total / M if case.mean else total
