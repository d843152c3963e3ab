"""The columns of X in the variables that a solve likes, and penalties in these."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import LeastSquares, Separable
from sureprox.problems.operators import Operator, Sparse, Standardized, standardization
from sureprox.problems.operators.dense import Dense
from sureprox.sklearn.engine import tensor
from sureprox.sklearn.tensors import as_array

SMALL = 2**22  # entries: a sparse X of no more is solved as a dense one, which takes up to 32 MiB


@dataclass(frozen=True)
class Design:
    """A = [(X - mean) / scale, constant 1]: a change of variables v = (scale * coef, c) that no solution notices.

    Columns of one length make a first-order method forget the units of the features, as coordinate descent does. The
    last column, for an intercept, is there if `constant` is not 0; squares do without, by centring.
    """

    A: Tensor | Operator  # (m, n), or (m, n + 1) with an intercept
    mean: Tensor  # (n,)
    scale: Tensor  # (n,)
    constant: float = 0.0

    @property
    def map(self) -> Operator:
        return Dense.of(self.A) if isinstance(self.A, Tensor) else self.A

    def coefficients(self, v: Tensor) -> Tensor:
        """coef (B, n) from v."""
        return v[:, : len(self.scale)] / self.scale

    def intercepts(self, v: Tensor) -> Tensor:
        """(B,)"""
        moved = self.coefficients(v) @ self.mean
        return self.constant * v[:, -1] - moved if self.constant else -moved

    def variables(self, coef: Tensor, intercept: Tensor) -> Tensor:
        """v from coef (B, n) and intercept (B,)."""
        v = coef * self.scale
        if not self.constant:
            return v
        return torch.cat([v, ((intercept + coef @ self.mean) / self.constant).unsqueeze(1)], 1)

    def penalty(self, l1: Tensor, l2: Tensor, positive: bool = False, blocks: int = 1) -> Separable:
        """sum_j l1 |coef_j| + l2/2 coef_j^2 in terms of v, with coef >= 0 if `positive`; l1 and l2 (B,).

        The intercept is free. `blocks`: so many v one after the other.
        """
        first, second = l1.unsqueeze(1) / self.scale, l2.unsqueeze(1) / self.scale / self.scale
        low = torch.zeros_like(first[:1])
        if self.constant:
            free = torch.zeros_like(first[:, :1])
            first, second = torch.cat([first, free], 1), torch.cat([second, free], 1)
            low = torch.cat([low, low.new_full((1, 1), -torch.inf)], 1)
        return Separable(
            first.repeat(1, blocks) if bool((l1 > 0).any()) else None,
            second.repeat(1, blocks) if bool((l2 > 0).any()) else None,
            low if positive else None,
        )


def design(
    X: Any, weights: Tensor | None, centre: bool, device: torch.device, constant: bool = False, one_scale: bool = False
) -> Design:
    """Of X, dense or sparse; a large sparse X is not made dense, and is centred without a copy.

    `centre`: take the mean of each column away. `constant`: add the column of an intercept. `one_scale`: divide all
    columns by the same number.
    """
    if sparse.issparse(X) and X.shape[0] * X.shape[1] <= SMALL:
        X = X.toarray()
    dense = not sparse.issparse(X)
    made = columns(tensor(X, device), weights, centre) if dense else sparse_columns(X, weights, centre, device)
    if one_scale:
        largest = made.scale.amax().expand_as(made.scale)
        if isinstance(made.A, Tensor):
            made = replace(made, A=made.A * (made.scale / largest), scale=largest)
        else:
            made = replace(made, A=Standardized(_standardized(made.A).operator, made.mean, largest), scale=largest)
    if not constant:
        return made
    # as long as the other columns, so that its coordinate is of the same kind
    value = objective_scale(weights, X.shape[0]) ** -0.5
    return replace(made, A=_with_constant(made.A, X, value), constant=value)


def columns(X: Tensor, weights: Tensor | None, centre: bool) -> Design:
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
    return Design(A / scale, mean, scale)


def sparse_columns(X: Any, weights: Tensor | None, centre: bool, device: torch.device) -> Design:
    """The same for a sparse X, by products with X alone."""
    operator = Sparse(sparse.csr_array(X, dtype=np.float64)).to(device)
    total = objective_scale(weights, X.shape[0])
    if centre:
        mean, spread = standardization(operator, weights)
        scale = spread * total**0.5
    else:
        share = torch.ones(1, X.shape[0], dtype=torch.float64, device=device) if weights is None else weights[None]
        length = operator.column_squares(share)[0].sqrt()
        mean, scale = torch.zeros_like(length), torch.where(length > 0, length, 1.0)
    return Design(Standardized(operator, mean, scale), mean, scale)


def _with_constant(A: Tensor | Operator, X: Any, value: float) -> Tensor | Operator:
    if isinstance(A, Tensor):
        return torch.cat([A, torch.full_like(A[:, :1], value)], 1)
    A = _standardized(A)
    wider = Sparse(sparse.hstack([sparse.csr_array(X, dtype=np.float64), np.full((X.shape[0], 1), value)]))
    none, one = A.center.new_zeros(1), A.scale.new_ones(1)
    return Standardized(wider.to(A.center.device), torch.cat([A.center, none]), torch.cat([A.scale, one]))


def _standardized(A: Operator) -> Standardized:
    assert isinstance(A, Standardized)
    return A


def squares(made: Design, targets: Tensor, weights: Tensor | None) -> LeastSquares:
    """1/2 sum_i w_i (A v - b)_i^2 for every column b of `targets` (m, t); tall dense data by a triangular factor."""
    if isinstance(made.A, Tensor):
        A, b = compressed(weighted_rows(made.A, weights), weighted_rows(targets, weights))
        return LeastSquares(A, b.mT.contiguous())
    return LeastSquares(made.A, targets.mT.contiguous(), weights)


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


def positive_weights(weights: Tensor) -> Tensor:
    """Sample weights, of which none is negative and some are positive."""
    if bool((weights < 0).any()) or not bool((weights > 0).any()):
        raise InputError("sample_weight must be >= 0 everywhere and > 0 somewhere")
    return weights


def scaled_weights(weights: Tensor) -> Tensor:
    """The same weights, for an objective that is divided by their sum, times the power of 2 that brings the largest
    to [1/2, 1): squares neither overflow nor underflow, and no digit changes."""
    exponent = torch.frexp(positive_weights(weights).amax()).exponent
    return torch.ldexp(weights, -exponent)


def predicted(X: Any, coef: Any, intercept: Any) -> Any:
    """X coef' + intercept, X dense or sparse."""
    return X @ as_array(coef).T + as_array(intercept)
