"""An intercept as the last coordinate: not penalised, and at its best value where lam is measured."""

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.problems import penalties
from sureprox.problems.separable import is_separable
from sureprox.problems.smooth import LinearModel

LARGEST = 2.0**10  # an intercept beyond it has run away: labels of one class
HALVINGS = 60


def freed(r: penalties.Penalty, n: int) -> penalties.Separable:
    """r on the first n - 1 coordinates, nothing on the last."""
    if not is_separable(r):
        raise InputError("an intercept goes with groups for least squares alone; leave out --intercept, or the groups")
    last = torch.arange(n) == n - 1

    def kept(value: Tensor | None, free: float) -> Tensor | None:
        if value is None:
            return None
        column = value.unsqueeze(1) if value.ndim == 1 else value
        return torch.where(last, torch.tensor(free, dtype=value.dtype), column)

    l1, l2 = kept(r.l1, 0.0), kept(r.l2, 0.0)
    low, high = kept(r.low, -torch.inf), kept(r.high, torch.inf)
    return penalties.Separable(0.0 if l1 is None else l1, 0.0 if l2 is None else l2, low, high)


def best_alone(f: LinearModel) -> Vectors:
    """(B, n): zero, and in the last coordinate argmin_c f(0, ..., 0, c), by halving between the signs of its slope."""
    batch, n = f.shape

    def at(c: Scalars) -> Vectors:
        x = torch.zeros(batch, n, dtype=f.like.dtype)
        x[:, -1] = c
        return x

    low, high = torch.full((batch,), -1.0, dtype=f.like.dtype), torch.full((batch,), 1.0, dtype=f.like.dtype)
    while bool((outside := f.grad(at(low))[:, -1] > 0).any()) and float(low.min()) > -LARGEST:
        low = torch.where(outside, 2 * low, low)
    while bool((outside := f.grad(at(high))[:, -1] < 0).any()) and float(high.max()) < LARGEST:
        high = torch.where(outside, 2 * high, high)
    if float(high.max()) >= LARGEST or float(low.min()) <= -LARGEST:
        raise InputError("the best intercept is beyond any bound, as with labels of one class; give --lam")
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        rising = f.grad(at(middle))[:, -1] > 0
        low, high = torch.where(rising, low, middle), torch.where(rising, middle, high)
    return at((low + high) / 2)
