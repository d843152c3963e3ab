"""The data of a LASSO as scikit-learn means it, turned into the problem 1/2 |A v - b|^2 + sum_j w_j |v_j|."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Columns:
    """X - mean, divided by `scale`: a change of variables v = scale * coef that no solution notices.

    Columns of one length make a first-order method forget the units of the features, as coordinate descent does.
    """

    A: Tensor  # (m, n)
    mean: Tensor  # (n,)
    scale: Tensor  # (n,)

    def coefficients(self, v: Tensor) -> Tensor:
        """coef (B, n) from v (B, n)."""
        return v / self.scale


def columns(X: Tensor, weights: Tensor | None, centre: bool) -> Columns:
    """X (m, n) with each column centred, if wanted, and brought to length 1 in the metric of `weights` (m,)."""
    mean = average(X, weights) if centre else torch.zeros_like(X[0])
    A = X - mean
    largest = A.abs().amax(0)
    unit = A / torch.where(largest > 0, largest, 1.0)  # its squares neither overflow nor underflow
    squares = unit.square().sum(0) if weights is None else (weights.unsqueeze(1) * unit.square()).sum(0)
    # what is left of a constant column is rounding: it must not be blown up to length 1
    floor = (torch.finfo(X.dtype).eps * X.abs().amax(0)) * objective_scale(weights, len(X)) ** 0.5
    length = largest * squares.sqrt()
    varies = length > 10 * floor
    A = torch.where(varies, A, 0.0)
    scale = torch.where(varies, length, 1.0)
    return Columns(A / scale, mean, scale)


def average(rows: Tensor, weights: Tensor | None) -> Tensor:
    """The weighted mean over the first dimension."""
    return rows.mean(0) if weights is None else torch.tensordot(weights / weights.sum(), rows, dims=1)


def compressed(A: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """A (m, n), b (m, t) with at most n + t rows: the triangular factor of [A b] has the same |A v - b_k| for all v."""
    m, n = A.shape
    if m <= n + b.shape[1]:
        return A, b
    R = torch.linalg.qr(torch.cat([A, b], 1), mode="r").R
    return R[:, :n].contiguous(), R[:, n:].contiguous()


def weighted_rows(rows: Tensor, weights: Tensor | None) -> Tensor:
    """sqrt(w_i) times row i."""
    return rows if weights is None else weights.sqrt().unsqueeze(1) * rows


def objective_scale(weights: Tensor | None, rows: int) -> float:
    """What scikit-learn divides the squares by: the sum of the weights, or the number of rows."""
    return float(rows) if weights is None else float(weights.sum())


def predicted(X: Any, coef: Any, intercept: Any) -> Any:
    """X coef' + intercept, X dense or sparse."""
    return X @ coef.T + intercept
