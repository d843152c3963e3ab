"""What Sure sees of a point: ratios and signs only, so that neither the place nor the scale of a problem shows.

x enters through the subdifferential of r and through differences, everything else through gradients. `least` keeps
divisions by zero away.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors

INSTANCE = 14  # features of an instance
COORDINATE = 8  # features of a coordinate
BETA = (-5.0, 5.0)  # where the Hestenes-Stiefel beta is kept


class Place(NamedTuple):
    """Where -g lies with respect to the subdifferential [low, high] of r at x, for each coordinate."""

    u: Vectors  # g / (size + |g|), in [-1, 1]
    excess: Vectors  # (|g| - size) / size, cut to [-1, 1]: above 0 no point of the subdifferential is -g
    side: Vectors  # sign(low + high); for L1 the sign of x
    smooth: Tensor  # bool: low = high; for L1 where x is not zero
    slope: Vectors  # g + low, the derivative of F, where r is smooth; else 0
    size: Vectors  # largest finite bound; for L1 this is lam


class Inner(NamedTuple):
    """Inner products (B,) of G, the previous G, d and dg; and, on the stable support, of slope, d and dg."""

    GG: Scalars
    PP: Scalars
    dd: Scalars
    qq: Scalars
    dq: Scalars
    Gd: Scalars
    GP: Scalars
    line: Scalars  # exact line search along d on the stable support
    beta: Scalars  # Hestenes-Stiefel, after that line search, in units of L
    curvature: Scalars  # <d, dg> on the stable support, bounded away from zero
    rows: Tensor  # (B, 3, n): G, d, dg


def place(g: Vectors, low: Vectors, high: Vectors, least: float) -> Place:
    smooth, bound = low == high, size(low, high)
    return Place(
        u=g / (bound + g.abs()).clamp(min=least),
        excess=((g.abs() - bound) / bound.clamp(min=least)).clamp(-1, 1),
        side=torch.sign(low + high),
        smooth=smooth,
        slope=torch.where(smooth, g + low, 0.0),
        size=bound,
    )


def size(low: Vectors, high: Vectors) -> Vectors:
    """max(|low|, |high|) of those that are finite."""
    return torch.maximum(_finite_size(low), _finite_size(high))


def _finite_size(bound: Vectors) -> Vectors:
    """|bound|, 0 where it is infinite (the end of a domain); what is not a number stays so."""
    size = bound.abs()
    return torch.where(size == torch.inf, 0.0, size)


def inner_products(
    G: Vectors, before: Vectors, d: Vectors, dg: Vectors, slope: Vectors, stable: Tensor, L: Scalars, least: float
) -> Inner:
    """All of them from two products; `stable`: r is smooth there, and on the same side as a step ago.

    Where d is zero on the stable support, line, beta and curvature are constants.
    """
    rows = torch.stack([before, G, d, dg], 1)
    (PP, GP, _, _), (_, GG, Gd, _), (_, _, dd, dq), (_, _, _, qq) = _products(rows, rows)
    on = torch.where(stable.unsqueeze(1), torch.stack([slope, d, dg], 1), 0.0)
    (sd, sq), (dd_on, dq_on), (_, qq_on) = _products(on, rows[:, 2:])
    curvature = torch.maximum(dq_on, 1e-5 * L * dd_on) + least
    line = (-sd / curvature).clamp(-1, 20)
    beta = ((sq + line * qq_on) / curvature / L).clamp(*BETA)
    if curvature.requires_grad:
        line, beta, curvature = (torch.where(dd_on > least, part, part.detach()) for part in (line, beta, curvature))
    return Inner(GG, PP, dd, qq, dq, Gd, GP, line, beta, curvature, rows[:, 1:])


def _products(left: Tensor, right: Tensor) -> list[tuple[Tensor, ...]]:
    """<left_i, right_j> of rows (B, k, n) and (B, l, n), as k tuples of l tensors (B,)."""
    return [row.unbind(1) for row in torch.bmm(left, right.mT).unbind(1)]


def instance_features(
    at: Place,
    inner: Inner,
    side_before: Vectors,
    first: Scalars,
    G0: Scalars,
    momentum: Scalars,
    L: Scalars,
    least: float,
) -> Tensor:
    """(B, 14). G0: |G| at the start."""
    G, P, d = torch.sqrt(torch.stack([inner.GG, inner.PP, inner.dd]) + least).unbind(0)
    bound = torch.linalg.vector_norm(at.size, dim=1) + least
    changed = (at.side != side_before).to(G.dtype).mean(1)
    return torch.stack(
        [
            0.5 * asinh(inner.line),
            0.5 * asinh(inner.beta),
            0.3 * _log(G / G0, 1e-9, 1e3),
            2 * _log(G / P, 0.1, 10.0),
            inner.Gd / (d * G),
            inner.GP / (G * P),
            0.5 * _log(inner.dq / (L * inner.dd + least), 1e-5, 1.0) + 1,
            0.5 * _log(inner.qq / (L * inner.dq).clamp(min=least), 1e-4, 1.0) + 0.5,
            0.5 * _log(L * d / G, 1e-3, 1e4) - 0.3,
            2 * at.smooth.to(G.dtype).mean(1) - 0.5,
            0.5 * torch.log10(changed + 1e-3) + 1,
            0.2 * _log(G / bound, 1e-8, 1e6) + 0.3,
            momentum,
            first,
        ],
        1,
    )


def coordinate_features(at: Place, inner: Inner, least: float) -> tuple[Tensor, ...]:
    """Blocks (B, k, n) of 8 features together: signs, G, d and dg of root mean square 1, G d, and the excess."""
    n = inner.rows.shape[2]
    squares = torch.stack([inner.GG, inner.dd, inner.qq], 1) + least
    scaled = inner.rows * torch.sqrt(n / squares).unsqueeze(2)
    return (
        at.u.unsqueeze(1),
        at.side.unsqueeze(1),
        at.smooth.unsqueeze(1).to(scaled.dtype) - 0.5,
        0.5 * asinh(scaled),
        0.5 * asinh(scaled[:, :1] * scaled[:, 1:2]),
        at.excess.unsqueeze(1),
    )


def asinh(v: Tensor) -> Tensor:
    """sign(v) log(1 + |v| + v^2 / (1 + sqrt(1 + v^2))): torch's own takes one number at a time on a CPU."""
    square = v.square()
    return torch.copysign(torch.log1p(v.abs() + square / (1 + torch.sqrt(1 + square))), v)


def floor(like: Tensor) -> float:
    """The usual `least`: far below every number that matters, and far from underflow."""
    info = torch.finfo(like.dtype)
    return info.tiny / info.eps


def _log(ratio: Tensor, low: float, high: float) -> Tensor:
    return torch.log10(ratio.clamp(low, high))
