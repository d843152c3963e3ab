"""From a point to the features of Sure, and the derivatives of these.

The ratios among the features are computed in the precision of the problem, their derivatives in float64: in float32 the
squares of reciprocals that derivatives are made of overflow long before a solve ends.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.sure_features import (
    BETA,
    coordinate_features,
    floor,
    inner_products,
    instance_features,
)
from sureprox.optimizers.sure_place import Form, place, place_in_form, size

SMALLEST = 1e-100  # in derivatives, what is no larger counts as zero: reciprocals must have a square in float64


class Given(NamedTuple):
    """A point, and what is kept of the step before."""

    g: Vectors
    low: Vectors  # [low, high]: the subdifferential of r
    high: Vectors
    G: Vectors  # L (x - prox(x - g/L))
    d: Vectors  # x - x_before
    dg: Vectors  # g - g_before
    G_before: Vectors
    side_before: Vectors  # sign of the slope of r a step ago
    G_first: Scalars  # |G| at the start
    momentum: Scalars
    fresh: Scalars  # 1 before the first step, when nothing is known of one before, then 0
    L: Scalars
    form: Form | None = None  # for the general features; None for those made for L1

    def tensors(self) -> tuple[Tensor, ...]:
        return (*self[:-1], *(self.form or ()))


class Sight(NamedTuple):
    """What Sure makes of it."""

    instance: Tensor  # (B, 14) features, or 16
    coordinate: tuple[Tensor, ...]  # blocks (B, k, n), 8 or 10 features together; none if they are not wanted
    G_first: Scalars
    side: Vectors  # see `Place`
    slope: Vectors
    stable: Tensor  # bool: r is smooth, and on the same side as a step ago
    bent: Vectors  # how the gradient of the smooth part of F changed: dg, or dg + l2 d
    line: Scalars  # see `Inner`
    curvature: Scalars


def sight(given: Given, coordinates: bool) -> Sight:
    """`coordinates`: whether their features are wanted."""
    if not torch.is_grad_enabled() or not any(value.requires_grad for value in given.tensors()):
        return _sight(given, coordinates, floor(given.G))
    with torch.no_grad():
        value = _sight(given, coordinates, floor(given.G))
    least = max(floor(given.G), SMALLEST)
    exact = _sight(_without_zeros(given, least), coordinates, least)
    return value._replace(
        instance=_joined(value.instance, exact.instance),
        coordinate=tuple(map(_joined, value.coordinate, exact.coordinate)),
        G_first=_joined(value.G_first, exact.G_first),
        slope=_joined(value.slope, exact.slope),
        bent=_joined(value.bent, exact.bent),
        line=_joined(value.line, exact.line),
        curvature=_joined(value.curvature, exact.curvature),
    )


def _sight(given: Given, coordinates: bool, least: float) -> Sight:
    form = given.form
    if form is None:
        at, bent = place(given.g, given.low, given.high, least), given.dg
    else:
        at = place_in_form(given.g, given.low, given.high, given.G, form, least)
        bent = given.dg + form.l2 * given.d
    fresh = given.fresh.unsqueeze(1) > 0
    G_before = torch.where(fresh, given.G, given.G_before)
    side_before = torch.where(fresh, at.side, given.side_before)
    stable = at.smooth & (at.side == side_before)
    inner = inner_products(given.G, G_before, given.d, given.dg, bent, at.slope, stable, given.L, least)
    G_first = torch.where(given.fresh > 0, torch.sqrt(inner.GG + least), given.G_first)
    features = instance_features(at, inner, side_before, given.fresh, G_first, given.momentum, given.L, least)
    blocks = coordinate_features(at, inner, form.diagonal if form else None, least) if coordinates else ()
    return Sight(features, blocks, G_first, at.side, at.slope, stable, bent, inner.line, inner.curvature)


def conjugate_share(R: Tensor, turned: Vectors, curvature: Scalars) -> Scalars:
    """beta = <R, turned> / curvature, cut to [-5, 5]; R (B, n) or (B, 1)."""
    beta = ((R * turned).sum(1) / curvature).clamp(*BETA)
    if not curvature.requires_grad:
        return beta
    moves = curvature > max(floor(curvature), SMALLEST)
    exact = (R.double() * turned).sum(1) / torch.where(moves, curvature.double(), 1.0)
    return _joined(beta, torch.where(moves, exact, 0.0).clamp(*BETA))


def _joined(value: Tensor, exact: Tensor) -> Tensor:
    """The number `value` with the derivatives of `exact`."""
    return value.detach() + (exact - exact.detach()).to(value.dtype)


def _without_zeros(given: Given, least: float) -> Given:
    """In float64; what is zero, up to `least`, is a constant: its ratios have no derivative."""
    form = None if given.form is None else Form(*(part.double() for part in given.form))
    g, low, high, G, d, dg, G_before = (part.double() for part in given[:7])
    pull = 0.0 if form is None else form.pull
    there = (g + pull).abs() + size(low - pull, high - pull) > least
    g, low, high = (torch.where(there, part, part.detach()) for part in (g, low, high))
    G, d, dg, G_before = (
        torch.where(part.square().sum(1, keepdim=True) > least, part, part.detach()) for part in (G, d, dg, G_before)
    )
    side, first, momentum, fresh, L = (part.double() for part in given[7:12])
    return Given(g, low, high, G, d, dg, G_before, side, first, momentum, fresh, L, form)
