"""Batched products with A."""

from collections.abc import Callable

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.spectrum import largest_eigenvalue

Largest = Callable[[Tensor], Tensor]  # the largest eigenvalue of A'A for every A of a stack (B, m, n)


class LinearMap:
    """z = A x for every instance: one A (B, m, n) per instance, or one A (m, n) shared by all.

    A shared A is never expanded: the whole batch is one matrix product with it. `copies` > 1: that many points for
    each instance, row i * copies + j being point j of instance i, and still one read of A for all of them.
    """

    def __init__(self, A: Tensor, copies: int = 1) -> None:
        self.A = A
        self.copies = copies

    @property
    def shared(self) -> bool:
        return self.A.ndim == 2

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

    def select(self, index: Tensor) -> "LinearMap":
        return self if self.shared else LinearMap(self.A[index])

    def columns(self, index: Tensor) -> Tensor:
        """(B, m, k): the columns `index` (B, k) of A for every instance."""
        if self.shared:
            return self.A.mT[index].mT
        return self.A.gather(2, index.unsqueeze(1).expand(-1, self.A.shape[1], -1))

    @torch.no_grad()
    def gram_norm(
        self,
        batch: int,
        exact: bool = False,
        largest: Largest = largest_eigenvalue,
        row_scale: Rows | None = None,
    ) -> Scalars:
        """The largest eigenvalue of A'A per instance, exact by singular values or estimated by `largest`.

        `row_scale` s (B, m): that of A' diag(s)^2 A.
        """
        A = self.A.detach()
        if row_scale is not None:
            A = row_scale.detach().unsqueeze(2) * (A if self.shared else A.repeat_interleave(self.copies, 0))
            return (_exact_largest if exact else largest)(A)
        value = (_exact_largest if exact else largest)(A.unsqueeze(0) if self.shared else A)
        return value.expand(batch) if self.shared else value.repeat_interleave(self.copies)


class Blocks(LinearMap):
    """z = (I kron A) x: `count` vectors of each point, one after the other, all multiplied by A."""

    def __init__(self, A: Tensor, copies: int, count: int) -> None:
        super().__init__(A, copies)
        self.count = count
        self.each = LinearMap(A, copies * count)

    def forward(self, x: Vectors) -> Rows:
        return self.each.forward(self._apart(x)).reshape(len(x), -1)

    def residual(self, x: Vectors, b: Rows) -> Rows:
        return self.each.residual(self._apart(x), self._apart(b)).reshape(len(x), -1)

    def adjoint(self, z: Rows) -> Vectors:
        return self.each.adjoint(self._apart(z)).reshape(len(z), -1)

    def select(self, index: Tensor) -> "Blocks":
        return self if self.shared else Blocks(self.A[index], self.copies, self.count)

    def columns(self, index: Tensor) -> Tensor:
        """Those of A in their own block, zero in all others."""
        n = self.A.shape[-1]
        block = torch.arange(self.count, device=index.device).view(1, -1, 1)
        own = (index // n).unsqueeze(1) == block
        return (own.unsqueeze(2) * super().columns(index % n).unsqueeze(1)).flatten(1, 2)

    def _apart(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(rows) * self.count, -1)


def _exact_largest(stack: Tensor) -> Scalars:
    """The largest eigenvalue of A'A by singular values, for every A of a stack (B, m, n)."""
    value: Tensor = torch.linalg.matrix_norm(stack.double(), ord=2).square().to(stack.dtype)
    return value
