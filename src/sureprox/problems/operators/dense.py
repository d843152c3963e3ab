"""Batched products with a matrix."""

from typing import Any, Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.operators.base import CHUNK, Operator
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class Dense(Operator):
    """z = A x for every instance: one A (B, m, n) per instance, or one A (m, n) shared by all.

    A shared A is never expanded: the whole batch is one matrix product with it, and so are several points for each
    instance with its own A (`stacked`).
    """

    batched = ("A",)
    knows_columns = True
    A: Tensor

    def __init__(self, A: Any) -> None:
        matrix = checks.matrix(A)
        if isinstance(matrix, Operator):
            raise InputError(f"A is a {type(A).__name__}; pass a dense tensor, or use it as the operator that it is")
        self.A = matrix

    @classmethod
    def of(cls, A: Tensor, copies: int = 1) -> Self:
        """With a tensor that has been checked."""
        made = cls.__new__(cls)
        made.A = A
        made.copies = copies
        return made

    @property
    def shape(self) -> tuple[int, int]:
        return self.A.shape[-2], self.A.shape[-1]

    @property
    def batch(self) -> int | None:
        return None if self.A.ndim == 2 else self.A.shape[0]

    @property
    def like(self) -> Tensor:
        return self.A

    def forward(self, x: Vectors) -> Rows:
        """A x, shape (B, m)."""
        if self.shared:
            return x @ self.A.mT
        if self._as_rows:
            return torch.bmm(self._grouped(x), self.A.mT).flatten(0, 1)
        return torch.bmm(self.A, x.unsqueeze(2)).squeeze(2)

    def residual(self, x: Vectors, b: Rows) -> Rows:
        """A x - b, shape (B, m), in one pass."""
        if self.shared:
            return torch.addmm(b, x, self.A.mT, beta=-1)
        if self._as_rows:
            return torch.baddbmm(self._grouped(b), self._grouped(x), self.A.mT, beta=-1).flatten(0, 1)
        return torch.baddbmm(b.unsqueeze(2), self.A, x.unsqueeze(2), beta=-1).squeeze(2)

    def adjoint(self, z: Rows) -> Vectors:
        """A' z, shape (B, n)."""
        if self.shared:
            return z @ self.A
        return torch.bmm(self._grouped(z), self.A).flatten(0, 1)

    @property
    def _as_rows(self) -> bool:
        """Whether A x is computed as x' A': for several points always, for one on a CPU, where it is twice as fast."""
        return self.copies > 1 or self.A.device.type == "cpu"

    def _grouped(self, rows: Tensor) -> Tensor:
        """(B, copies, width) from (B * copies, width)."""
        return rows.reshape(-1, self.copies, rows.shape[1])

    def columns(self, index: Tensor) -> Tensor:
        """A[:, index], gathered."""
        if self.shared:
            return self.A.mT[index].mT
        return self.A.gather(2, index.unsqueeze(1).expand(-1, self.A.shape[1], -1))

    def column_squares(self, weights: Rows) -> Vectors:
        """Exact; some rows at a time."""
        total = weights.new_zeros(len(weights), self.shape[1])
        height = max(1, CHUNK // (self.A.numel() // self.shape[0]))
        for rows, w in zip(self.A.split(height, -2), weights.split(height, 1), strict=True):
            total += w @ rows.square() if self.shared else (w.unsqueeze(1) @ rows.square()).squeeze(1)
        return total

    def dense(self) -> Tensor:
        return self.A

    @torch.no_grad()
    def gram_norm(
        self,
        batch: int,
        exact: bool = False,
        largest: Largest = largest_eigenvalue,
        row_scale: Rows | None = None,
    ) -> Scalars:
        """The largest eigenvalue of A' diag(r)^2 A per instance, exact by singular values or estimated by `largest`.

        Where one A is shared and r differs from instance to instance, by products: diag(r) A is a copy for each.
        """
        A = self.A.detach()
        if row_scale is not None:
            if self.shared:
                return super().gram_norm(batch, exact, largest, row_scale)
            A = row_scale.detach().unsqueeze(2) * A
        value = (_exact_largest if exact else largest)(A.unsqueeze(0) if self.shared else A)
        return value.expand(batch) if self.shared else value.repeat_interleave(self.copies)


def _exact_largest(stack: Tensor) -> Scalars:
    """The largest eigenvalue of A'A by singular values, for every A of a stack (B, m, n)."""
    value: Tensor = torch.linalg.matrix_norm(stack.double(), ord=2).square().to(stack.dtype)
    return value
