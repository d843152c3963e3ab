"""Columns with mean zero and unit variance, without a copy of A."""

from typing import Any, Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems import checks
from sureprox.problems.batch import BatchData, repeated_rows
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.dense import Dense
from sureprox.problems.operators.sparse import Sparse

CHUNK = 2**22  # entries of A that are centred at a time


class Standardized(Operator):
    """z = (A - 1 c') diag(1 / s) x, c = `center` and s = `scale`: numbers per column (n,), or per instance too (B, n).

    By default those of `standardization(A)`. Products cost those of A, which may be dense, sparse or any operator.
    """

    batched = ("center", "scale")
    operator: Operator
    center: Tensor
    scale: Tensor

    def __init__(self, A: Any, center: Any = None, scale: Any = None) -> None:
        self.operator = checks.operator(A)
        if center is None or scale is None:
            found = standardization(self.operator)
            center, scale = found[0] if center is None else center, found[1] if scale is None else scale
        self.center, self.scale = self._checked("center", center), self._checked("scale", scale)
        if not bool((self.scale > 0).all()):
            raise InputError(f"scale is {float(self.scale.detach().min()):g} somewhere; it must be > 0")
        checks.require_same_kind("center", self.center, "scale", self.scale)
        rows = {len(value) for value in (self.center, self.scale) if value.ndim == 2} | {self.operator.batch}
        if len(rows - {None}) > 1:
            raise InputError(f"center, scale and A have batches of {sorted(rows - {None})}; give them one size")  # type: ignore[type-var]

    @property
    def shape(self) -> tuple[int, int]:
        return self.operator.shape

    @property
    def batch(self) -> int | None:
        owners = [len(value) for value in (self.center, self.scale) if value.ndim == 2]
        return owners[0] // self.copies if owners else self.operator.batch

    def forward(self, x: Vectors) -> Rows:
        scaled = x / self.scale
        return self.operator.forward(scaled) - (self.center * scaled).sum(1, keepdim=True)

    def adjoint(self, z: Rows) -> Vectors:
        return (self.operator.adjoint(z) - self.center * z.sum(1, keepdim=True)) / self.scale

    @property
    def knows_columns(self) -> bool:  # type: ignore[override]
        return self.operator.knows_columns

    def column_squares(self, weights: Rows) -> Vectors:
        """sum_i w_i (a_ij - c_j)^2 / s_j^2 by its three terms, and what rounding may have taken from it."""
        squares = self.operator.column_squares(weights)
        mean, total = self.operator.adjoint(weights), weights.sum(1, keepdim=True)
        terms = squares + self.center.square() * total
        lost = 4 * self.shape[0] * self.roundoff(weights.dtype) * terms
        return ((terms - 2 * self.center * mean).clamp(min=0) + lost) / self.scale.square()

    def roundoff(self, dtype: torch.dtype) -> float:
        """Where a mean is large beside the deviations from it, these have fewer digits."""
        return super().roundoff(dtype) * (1 + float((self.center.abs() / self.scale).max()))

    def stacked(self, copies: int) -> Self:
        if self.shared or copies == 1:
            return self
        clone = self._map(
            lambda name, value: repeated_rows(value, copies) if value.ndim == 2 else value,
            lambda name, part: part.stacked(copies) if isinstance(part, Operator) else part,
        )
        clone.copies = self.copies * copies
        return clone

    def select(self, index: Tensor) -> Self:
        """Centres and scales are there for every point already."""
        clone = BatchData.select(self, index)
        clone.copies = 1
        return clone

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return value.ndim == 2

    def _checked(self, name: str, value: Any) -> Tensor:
        like, n = self.operator.like, self.shape[1]
        tensor = checks.as_tensor(name, value, like=like)
        if like is not None:
            checks.require_same_kind(name, tensor, "A", like)
        if tensor.ndim not in (1, 2) or tensor.shape[-1] != n or len(tensor) == 0:
            raise InputError(f"{name} has shape {tuple(tensor.shape)}; A with {n} columns needs ({n},) or (B, {n})")
        checks.require_finite(name, tensor)
        return tensor


def standardization(A: Any, weights: Any = None) -> tuple[Tensor, Tensor]:
    """(c, s): c_j = sum_i w_i a_ij / W and s_j^2 = sum_i w_i (a_ij - c_j)^2 / W, W = sum_i w_i; where s_j = 0, it is 1.

    `weights` (m,) or (B, m), >= 0, by default 1. The results are (n,), or (B, n) where A or the weights have instances.
    Deviations are summed, not squares subtracted, so that a large mean costs no digits. A: dense or sparse.
    """
    operator = checks.operator(A)
    if not isinstance(operator, Dense | Sparse):
        raise InputError(f"A is a {type(operator).__name__}, whose columns are not known; pass center and scale")
    one = torch.ones(1, operator.shape[0], dtype=operator.like.dtype, device=operator.like.device)  # type: ignore[union-attr]
    single = weights is None or checks.rows("weights", weights, operator).shape[0] == 1
    given = one if weights is None else checks.row_weights(weights, checks.rows("weights", weights, operator), operator)
    given = given if operator.shared else given.expand(operator.batch or 1, -1)
    share = given / given.sum(1, keepdim=True)
    center = operator.adjoint(share)
    spread = _spread_dense if isinstance(operator, Dense) else _spread_sparse
    scale = spread(operator, share, center).sqrt()  # type: ignore[arg-type]
    zero = torch.finfo(scale.dtype).eps * operator.shape[0] ** 0.5 * center.abs()  # what rounding leaves of a constant
    scale = torch.where(scale > zero, scale, 1.0)
    alone = operator.shared and single
    return (center[0], scale[0]) if alone else (center, scale)


def _spread_dense(operator: Dense, share: Rows, center: Vectors) -> Vectors:
    """sum_i share_i (a_ij - c_j)^2 for every instance, some rows at a time."""
    parts = []
    for i in range(len(share)):
        A = operator.A if operator.shared else operator.A[i]
        chunks = torch.arange(len(A), device=A.device).split(max(1, CHUNK // A.shape[1]))
        parts.append(torch.stack([share[i, part] @ (A[part] - center[i]).square() for part in chunks]).sum(0))
    return torch.stack(parts)


def _spread_sparse(operator: Sparse, share: Rows, center: Vectors) -> Vectors:
    """The same: the entries that are kept, and c_j^2 for the weight of those that are zero."""
    rows, places, values = operator.rows(), operator.places.long(), operator.values
    parts = []
    for weight, mean in zip(share, center, strict=True):
        kept = torch.zeros_like(mean).index_add(0, places, weight[rows])
        deviations = torch.zeros_like(mean).index_add(0, places, weight[rows] * (values - mean[places]).square())
        parts.append(deviations + (1 - kept).clamp(min=0) * mean.square())
    return torch.stack(parts)
