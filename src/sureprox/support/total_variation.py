"""Restarted FISTA on the dual of total variation denoising: min_p 1/2 |y - D'p|^2, |p_i| <= lam, D the differences."""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.operators import Difference


class Dual(NamedTuple):
    """Where the steps have got to: p, the point before, and (B, 2) t and the factor of p - before that follow."""

    p: Rows
    before: Rows
    momentum: Tensor

    def select(self, index: Tensor) -> "Dual":
        return Dual(*(part[index] for part in self))

    def put(self, index: Tensor, other: "Dual") -> None:
        """That of `other` in the instances `index`."""
        for mine, theirs in zip(self, other, strict=True):
            mine[index] = theirs


def from_zero(y: Vectors, size: tuple[int, int]) -> Dual:
    """p = 0, for images of (h, w)."""
    zero = y.new_zeros(len(y), Difference(size).shape[0])
    momentum = torch.tensor([[1.0, 0.0]], dtype=torch.float64, device=y.device)
    return Dual(zero, zero.clone(), momentum.repeat(len(y), 1))


def dual_steps(
    y: Vectors, lam: Scalars, size: tuple[int, int], dual: Dual, steps: int, isotropic: bool
) -> tuple[Dual, Tensor]:
    """After `steps` more, and (B, 2) in float64 the duality gap and the objective of y - D'p: with s = 1/8,

        q = p + factor (p - before), p+ = P(q + s D (y - D'q)), t+ = (1 + sqrt(1 + 4 t^2)) / 2, factor = (t - 1) / t+,

    and t+ = 1, factor = 0 where <q - p+, p+ - p> > 0. P is the projection on |p_i| <= lam, i being a pixel with its two
    differences if `isotropic`, else a single one. For signals, images of one row, s = 1/4.
    """
    D, limit = Difference(size), lam.unsqueeze(1)
    step = 1 / 8 if min(size) > 1 else 1 / 4
    p, before, (t, factor) = dual.p, dual.before, dual.momentum.unbind(1)
    for _ in range(steps):
        q = p + factor.to(p.dtype).unsqueeze(1) * (p - before)
        v = q + step * D.forward(y - D.adjoint(q))
        norms = lengths(v, size) if isotropic else v.abs()
        share = limit / torch.maximum(norms, limit).clamp(min=torch.finfo(v.dtype).tiny)
        new = v * (share[:, pixels(size).to(v.device)] if isotropic else share)
        turned = ((q - new) * (new - p)).double().sum(1) > 0
        after = torch.where(turned, 1.0, (1 + (1 + 4 * t.square()).sqrt()) / 2)
        p, before, factor, t = new, p, torch.where(turned, 0.0, (t - 1) / after), after
    x = y - D.adjoint(p)
    differences = D.forward(x).double()
    variation = lam.double() * total(differences, size, isotropic)
    gap = (variation - (p * differences).sum(1)).clamp(min=0)
    objective = (x - y).double().square().sum(1) / 2 + variation
    return Dual(p, before, torch.stack([t, factor], 1)), torch.stack([gap, objective], 1)


def total(differences: Rows, size: tuple[int, ...], isotropic: bool) -> Scalars:
    """sum_i |D_i x|."""
    return (lengths(differences, size) if isotropic and len(size) > 1 else differences.abs()).sum(1)


def lengths(differences: Rows, size: tuple[int, ...]) -> Vectors:
    """(B, h w): |D_i x| of each pixel."""
    squares = differences.new_zeros(len(differences), size[0] * size[1])
    return squares.index_add(1, pixels(size).to(squares.device), differences.square()).sqrt()


def pixels(size: tuple[int, ...]) -> Tensor:
    """The pixel at which each difference of `Difference` starts."""
    h, w = size
    pixel = torch.arange(h * w).reshape(h, w)
    return torch.cat([pixel[:-1].flatten(), pixel[:, :-1].flatten()])
