"""The duality gap where r leaves coordinates free: the dual point is corrected, then scaled."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.losses import Logistic, Quadratic
from sureprox.problems.problem import Problem
from sureprox.problems.smooth import LinearModel

CHUNK = 2**22  # entries of gathered columns held at a time


def has_free_gap(problem: Problem) -> bool:
    """Whether `free_gap` knows the conjugate of f: quadratics and logistic losses of this package, and r of it too."""
    return problem.has_duality_gap and isinstance(problem.f, Quadratic | Logistic)


@torch.no_grad()
def free_gap(problem: Problem, x: Vectors) -> Scalars:
    """(B,) an upper bound on F(x) - F*, in float64 and up to rounding, finite where r leaves coordinates free.

    With f(x) = phi(A x) a dual point theta must have A_E' theta = 0, E being the coordinates with r_j = 0, and
    u = grad phi(A x) misses that by the gradient on E. So the point is s v, v = u minus its projection on the range of
    A_E in the metric of phi'' (a Newton step on E, seen from the dual side), and s as in `Problem.certificate`. Where
    the conjugate is not finite at v, the bound is F(x) itself: no f here is negative.

    What rounding leaves of A_E'v counts as if x*_E were as large as x_E.
    """
    f = problem.f
    assert isinstance(f, LinearModel)
    low, high = problem.r.subdiff(torch.zeros_like(x))
    free = (low == 0) & (high == 0)
    size = max(1, int(free.sum(1).max()))
    parts = torch.arange(len(x), device=x.device).split(max(1, CHUNK // (size * f.m)))
    return torch.cat([_part(problem.select(part), problem.centred(x)[part], free[part], size) for part in parts])


def _part(problem: Problem, y: Vectors, free: Tensor, size: int) -> Scalars:
    f, r = problem.f, problem.r
    assert isinstance(f, Quadratic | Logistic)
    order = free.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
    columns = f.map.columns(order)
    z, inside = f.inner(y), free.gather(1, order).unsqueeze(1)
    dual = _logistic(f, y, z, columns * inside) if isinstance(f, Logistic) else _quadratic(f, y, z, columns * inside)
    bound = r.dual_range(torch.where(free, 0.0, dual.gradient))  # type: ignore[attr-defined]
    scale = f.dual_scale(dual.v, torch.maximum(bound[0], dual.low), torch.minimum(bound[1], dual.high))
    rest = r.fenchel_young(y, torch.where(free, 0.0, dual.gradient), scale)  # type: ignore[attr-defined]
    left = (torch.where(free, dual.gradient, 0.0) * y).abs().sum(1) * scale.abs()
    gap = dual.fenchel_young(scale) + rest + left
    value = f.value_at(z) + r.value(y)
    return torch.where(torch.isfinite(gap), torch.minimum(gap, value), value)


@dataclass(frozen=True)
class Dual:
    """A dual point v with A_E'v = 0."""

    v: Rows
    gradient: Vectors  # A'v
    low: Scalars  # phi* is finite at s v for low <= s <= high
    high: Scalars
    fenchel_young: Callable[[Scalars], Scalars]  # phi(A x) + phi*(s v) - s <v, A x>, of s


def _quadratic(f: Quadratic, y: Vectors, z: Rows, columns: Tensor) -> Dual:
    """v = z minus its projection on the columns; phi + phi* - <., .> = 1/2 |z - s v|^2.

    What is left is projected once more, so that A_E'v is small against v, however large s is. If that takes most of it,
    it was rounding, and v = 0.
    """
    U = _scaled_svd(f.hessian_root(y, columns))[0]
    once = z - _times(U, _times(U.mT, z))
    twice = once - _times(U, _times(U.mT, once))
    v = torch.where((twice.square().sum(1) > 0.25 * once.square().sum(1)).unsqueeze(1), twice, 0.0)
    wide = torch.full_like(z[:, 0], torch.inf)
    return Dual(v, f.grad_at(v), -wide, wide, lambda s: 0.5 * (z - s.unsqueeze(1) * v).square().sum(1))


def _logistic(f: Logistic, y: Vectors, z: Rows, columns: Tensor) -> Dual:
    """v = e - e (1 - e) C c, e = sigmoid(z), C the columns with the signs of z, c the Newton step; 0 <= s v <= 1.

    phi + phi* - <., .> is the mean of KL(s v | e).
    """
    sign, e = 1 - 2 * f.y, torch.sigmoid(z)
    weights = torch.ones_like(z) if f.weights is None else f.weights
    root = sign.unsqueeze(2) * f.hessian_root(y, columns)
    c = _coefficients(root, (weights / f.m).sqrt() * torch.exp(z / 2))
    v = e - e * torch.sigmoid(-z) * sign * (columns @ c.unsqueeze(2)).squeeze(2)
    v = torch.where(weights > 0, v, e)
    gradient = f.map.adjoint(sign * weights * v) / f.m
    high = torch.where((v >= 0).all(1), 1 / v.amax(1), 0.0)

    def divergence(s: Scalars) -> Scalars:
        w = (s.unsqueeze(1) * v).clamp(0, 1)
        d, other = w - e, torch.sigmoid(-z)
        log_other = torch.where(w < 1, torch.log1p(-d / other), 0.0)
        terms = torch.where(w > 0, w * torch.log1p(d / e), 0.0) + (1 - w) * log_other
        return (weights * terms.clamp(min=0)).mean(1)

    return Dual(v, gradient, torch.zeros_like(high), high, divergence)


def _coefficients(columns: Tensor, t: Rows) -> Tensor:
    """Those (B, k) of the projection of t (B, m) on the range of `columns` (B, m, k)."""
    U, sizes, V, unit = _scaled_svd(columns)
    return _times(V.mT, _times(U.mT, t) / sizes) / unit


def _scaled_svd(columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U, S, V, unit with columns = U S V unit; what S is too small to count has U = 0 and S = 1.

    The columns are divided by their largest entries first, so that their units do not matter.
    """
    largest = columns.abs().amax(1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1.0)
    U, sizes, V = torch.linalg.svd(columns / largest, full_matrices=False)
    counted = sizes > max(columns.shape[1:]) * torch.finfo(sizes.dtype).eps * sizes[:, :1]
    return torch.where(counted.unsqueeze(1), U, 0.0), torch.where(counted, sizes, 1.0), V, largest.squeeze(1)


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    return (matrices @ vectors.unsqueeze(2)).squeeze(2)
