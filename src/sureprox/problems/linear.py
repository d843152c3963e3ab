"""Batched products with A."""

import torch
from torch import Tensor

from sureprox.problems.spectrum import largest_eigenvalue
from sureprox.types import Rows, Scalars, Vectors


class LinearMap:
    """z = A x for every instance: one A (B, m, n) per instance, or one A (m, n) shared by all.

    A shared A is never expanded: the whole batch is one matrix product with it.
    """

    def __init__(self, A: Tensor) -> None:
        self.A = A

    @property
    def shared(self) -> bool:
        return self.A.ndim == 2

    def forward(self, x: Vectors) -> Rows:
        """A x, shape (B, m)."""
        if self.shared:
            return x @ self.A.mT
        return torch.bmm(self.A, x.unsqueeze(2)).squeeze(2)

    def residual(self, x: Vectors, b: Rows) -> Rows:
        """A x - b, shape (B, m), in one pass."""
        if self.shared:
            return torch.addmm(b, x, self.A.mT, beta=-1)
        return torch.baddbmm(b.unsqueeze(2), self.A, x.unsqueeze(2), beta=-1).squeeze(2)

    def adjoint(self, z: Rows) -> Vectors:
        """A' z, shape (B, n)."""
        if self.shared:
            return z @ self.A
        return torch.bmm(z.unsqueeze(1), self.A).squeeze(1)

    def add_adjoint(self, x: Vectors, z: Rows) -> Vectors:
        """x + A' z, shape (B, n), in one pass."""
        if self.shared:
            return torch.addmm(x, z, self.A)
        return torch.baddbmm(x.unsqueeze(1), z.unsqueeze(1), self.A).squeeze(1)

    def select(self, index: Tensor) -> "LinearMap":
        return self if self.shared else LinearMap(self.A[index])

    def gram_norm(self, batch: int, exact: bool = False) -> Scalars:
        """Largest eigenvalue of A'A per instance; see `largest_eigenvalue`."""
        A = self.A.detach()
        stack = A.unsqueeze(0) if self.shared else A
        if exact:
            value: Tensor = torch.linalg.matrix_norm(stack.double(), ord=2).square().to(A.dtype)
        else:
            value = largest_eigenvalue(stack)
        return value.expand(batch) if self.shared else value
