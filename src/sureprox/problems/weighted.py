"""Least squares with weights on the rows and an intercept that is minimised out: cross-validation as one batch."""

from typing import Any, Self

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.batch import repeated_rows
from sureprox.problems.losses import Quadratic
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.combined import Compose
from sureprox.problems.operators.dense import Dense
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class WeightedLeastSquares(Quadratic):
    """f(x) = min_c 1/2 sum_i w_i (a_i'x + c - b_i)^2, w (B, m) >= 0; without `intercept`, c = 0.

    With D = diag(sqrt(w)), q = D 1 / |D 1| and P = I - q q' (P = I without intercept) this is 1/2 |P D (A x - b)|^2,
    so that instances with different rows, or different means, share one A: a weight of zero leaves a row out, and the
    whole batch remains one matrix product. L = lambda_max(A'D P D A).
    """

    batched = ("A", "b", "root", "mean")
    stackable = True
    fenchel_young = Quadratic.fenchel_young

    def __init__(self, A: Any, b: Any, weights: Any, intercept: bool = True) -> None:
        self.A = checks.matrix(A)
        right = checks.rows("b", b, self.A)
        given = checks.rows("weights", weights, self.A)
        if right.shape[0] == 1 and self.map.shared:
            right = right.expand_as(given)
        self.root = checks.row_weights(given, right, self.A).sqrt()
        self.intercept = intercept
        self.mean = self._mean()
        self.b = self.root * right  # D b: P z = z, so that <z, D b> = <z, P D b>

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Self:
        """With q in the new precision: one rounded to float32 is no unit vector, nor is P then a projection."""
        clone = super().to(device, dtype)
        if clone.root is not self.root:
            clone.mean = clone._mean()
        return clone

    def _mean(self) -> Tensor:
        """q."""
        norm = torch.linalg.vector_norm(self.root, dim=1, keepdim=True)
        return self.root / norm if self.intercept else torch.zeros_like(self.root)

    @property
    def target(self) -> Tensor:
        """P D b: as <z, .> this is D b, but for the rounding of what P takes away, which may be all of it."""
        return self._projected(self.b)

    def inner(self, x: Vectors) -> Rows:
        """P D (A x - b)."""
        return self._projected(self.root * self.map.forward(x) - self.b)

    @property
    def row_factors(self) -> Tensor:
        return self.root

    def grad_at(self, z: Rows) -> Vectors:
        """A'D z; P z = z, since z is an image of P."""
        return self.map.adjoint(self.root * z)

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """lambda_max of (P D A)'(P D A); of matrices (B, m, n) by P D A, else by products."""
        if isinstance(self.A, Tensor) and self.A.ndim == 3:
            return Dense.of(self.hessian_root(self.A[:, 0], self.A)).gram_norm(self.shape[0], exact, largest)
        return Compose(RowWeights(self.root, self.mean), self.map).gram_norm(self.shape[0], exact)

    def hessian_root(self, x: Tensor, columns: Tensor) -> Tensor:
        """R = P D."""
        scaled = self.root.unsqueeze(2) * columns
        return scaled - self.mean.unsqueeze(2) * (self.mean.unsqueeze(1) @ scaled)

    def _projected(self, rows: Rows) -> Rows:
        """P rows."""
        return _without(self.mean, rows)


class RowWeights(Operator):
    """z -> P D z, of `WeightedLeastSquares`."""

    batched = ("root", "mean")

    def __init__(self, root: Tensor, mean: Tensor) -> None:
        self.root = root
        self.mean = mean

    @property
    def shape(self) -> tuple[int, int]:
        return self.root.shape[1], self.root.shape[1]

    @property
    def batch(self) -> int | None:
        return len(self.root) // self.copies

    def forward(self, x: Vectors) -> Rows:
        return _without(self.mean, self.root * x)

    def adjoint(self, z: Rows) -> Vectors:
        return self.root * _without(self.mean, z)

    def stacked(self, copies: int) -> Self:
        clone = self._map(lambda name, value: repeated_rows(value, copies))
        clone.copies = self.copies * copies
        return clone


def _without(q: Rows, rows: Rows) -> Rows:
    """(I - q q') rows."""
    return rows - q * (q * rows).sum(1, keepdim=True)
