"""What Sure sees of a point: ratios and signs only, so that neither the place nor the scale of a problem shows.

x enters through the subdifferential of r and through differences, everything else through gradients. `least` keeps
divisions by zero away.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.sure_place import Place

BETA = (-5.0, 5.0)  # where the Hestenes-Stiefel beta is kept
LEAST_DIAGONAL = 1e-6  # of what the features see of the diagonal of the Hessian over L; the largest is 1


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
    dd_on: Scalars  # on the stable support; see `curvature`
    dq_on: Scalars
    curvature: Scalars  # <d, dg> on the stable support, bounded away from zero
    rows: Tensor  # (B, 3, n): G, d, dg


def inner_products(
    G: Vectors,
    before: Vectors,
    d: Vectors,
    dg: Vectors,
    bent: Vectors,
    slope: Vectors,
    stable: Tensor,
    L: Scalars,
    least: float,
) -> Inner:
    """All of them from two products; `stable`: r is smooth there, and on the same side as a step ago.

    `bent`: how the gradient of the smooth part of F changed, which takes the place of dg on the stable support; dg
    itself where that part is f. Where d is zero on the stable support, line, beta and curvature are constants.
    """
    rows = torch.stack([before, G, d, dg], 1)
    (PP, GP, _, _), (_, GG, Gd, _), (_, _, dd, dq), (_, _, _, qq) = _products(rows, rows)
    on = torch.where(stable.unsqueeze(1), torch.stack([slope, d, bent], 1), 0.0)
    moved = rows[:, 2:] if bent is dg else torch.stack([d, bent], 1)
    (sd, sq), (dd_on, dq_on), (_, qq_on) = _products(on, moved)
    curvature = torch.maximum(dq_on, 1e-5 * L * dd_on) + least
    line = (-sd / curvature).clamp(-1, 20)
    beta = ((sq + line * qq_on) / curvature / L).clamp(*BETA)
    if curvature.requires_grad:
        line, beta, curvature = (torch.where(dd_on > least, part, part.detach()) for part in (line, beta, curvature))
    return Inner(GG, PP, dd, qq, dq, Gd, GP, line, beta, dd_on, dq_on, curvature, rows[:, 1:])


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
    """(B, 14), or (B, 16) where `at` is a place in the whole form. G0: |G| at the start."""
    G, P, d = torch.sqrt(torch.stack([inner.GG, inner.PP, inner.dd]) + least).unbind(0)
    bound = torch.linalg.vector_norm(at.threshold, dim=1) + least
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
            *(() if at.bound is None else _form_features(at.bound, inner, L, least)),
        ],
        1,
    )


def _form_features(bound: Tensor, inner: Inner, L: Scalars, least: float) -> tuple[Scalars, Scalars]:
    """The share of the coordinates at a bound, and the curvature along d on the stable support."""
    curvature = 0.5 * _log(inner.dq_on / (L * inner.dd_on + least), 1e-5, 1.0) + 1
    return bound.to(curvature.dtype).mean(1), curvature


def coordinate_features(at: Place, inner: Inner, diagonal: Vectors | None, least: float) -> tuple[Tensor, ...]:
    """Blocks (B, k, n) of 8 features together: signs, G, d and dg of root mean square 1, G d, and the excess.

    In the whole form two more: whether a bound is reached, and `diagonal`, that of the bound of the Hessian over L.
    """
    n = inner.rows.shape[2]
    squares = torch.stack([inner.GG, inner.dd, inner.qq], 1) + least
    scaled = inner.rows * torch.sqrt(n / squares).unsqueeze(2)
    blocks = (
        at.u.unsqueeze(1),
        at.side.unsqueeze(1),
        at.smooth.unsqueeze(1).to(scaled.dtype) - 0.5,
        0.5 * asinh(scaled),
        0.5 * asinh(scaled[:, :1] * scaled[:, 1:2]),
        at.excess.unsqueeze(1),
    )
    if at.bound is None or diagonal is None:
        return blocks
    size = 0.5 * _log(diagonal, LEAST_DIAGONAL, 1.0) + 0.5
    return (*blocks, at.bound.unsqueeze(1).to(scaled.dtype), size.unsqueeze(1))


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
