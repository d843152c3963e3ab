"""Batched products with A, and the largest eigenvalue of A'A from a few of them."""

from functools import lru_cache

import torch
from torch import Tensor

from sureprox.types import Rows, Scalars, Vectors

KRYLOV_STEPS = 16
KRYLOV_BLOCK = 4
SAFETY = 1.01


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

    def add_adjoint(self, x: Vectors, z: Rows) -> Vectors:
        """x + A' z, shape (B, n), in one pass."""
        if self.shared:
            return torch.addmm(x, z, self.A)
        return torch.baddbmm(self._grouped(x), self._grouped(z), self.A).flatten(0, 1)

    @property
    def _as_rows(self) -> bool:
        """Whether A x is computed as x' A': for several points always, for one on a CPU, where it is twice as fast."""
        return self.copies > 1 or self.A.device.type == "cpu"

    def _grouped(self, rows: Tensor) -> Tensor:
        """(B, copies, width) from (B * copies, width)."""
        return rows.reshape(-1, self.copies, rows.shape[1])

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
        return value.expand(batch) if self.shared else value.repeat_interleave(self.copies)


@torch.no_grad()
def largest_eigenvalue(A: Tensor) -> Tensor:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, A of shape (B, m, n).

    16 steps of block Lanczos with 4 fixed pseudo-random starting vectors, that is 32 products of A or A' with a
    block of four vectors, full reorthogonalisation, then the Rayleigh quotient theta = |A v|^2 / |v|^2 of the best
    vector v of the Krylov space.

    Guaranteed: theta is a Rayleigh quotient, so up to rounding it never exceeds the true value and the result is at
    most 1.01 times it (more precisely 1.01 theta). Where min(m, n) <= 64 the Krylov space is the whole space and
    theta is exact up to rounding. Not guaranteed: that theta is within 1 % below. The shortfall depends on the gaps
    at the top of the spectrum; on Gaussian, autoregressive and low-rank matrices up to 2000 x 2000 it stayed under
    0.4 %, so that the result lay between 1.006 and 1.01 times the true value. A matrix whose leading eigenvectors
    are all nearly orthogonal to the four starting vectors defeats it.
    """
    rows, columns = A.shape[-2:]
    wide = rows <= columns
    size = min(rows, columns)
    block = min(KRYLOV_BLOCK, size)
    # Scaling to entries of at most one keeps squares away from overflow and underflow at any scale of A.
    scale = A.abs().amax(dim=(1, 2), keepdim=True)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    work = _starting_block(size, block, A.dtype, A.device).expand(A.shape[0], size, block)
    bases: list[Tensor] = []
    images: list[Tensor] = []
    for _ in range(min(KRYLOV_STEPS, -(-size // block))):
        basis = _orthonormal(work, torch.cat(bases, 2) if bases else None)
        if wide:
            work = torch.bmm(A, torch.bmm(A.mT, basis) / scale) / scale
        else:
            work = torch.bmm(A.mT, torch.bmm(A, basis) / scale) / scale
        bases.append(basis)
        images.append(work)
    Q, GQ = torch.cat(bases, 2).double(), torch.cat(images, 2).double()
    ritz = _top_eigenvector(torch.bmm(Q.mT, GQ))
    vector = torch.bmm(Q, ritz)
    norm = vector.square().sum(dim=(1, 2))
    theta = (vector * torch.bmm(GQ, ritz)).sum(dim=(1, 2)) / norm.clamp(min=torch.finfo(torch.float64).tiny)
    return (SAFETY * theta.clamp(min=0) * scale[:, 0, 0].double().square()).to(A.dtype)


@lru_cache(maxsize=16)
def _starting_block(size: int, block: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Fixed standard normal vectors; kept, so that no transfer is left when a CUDA graph is being captured."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, block, generator=generator, dtype=torch.float64).to(device=device, dtype=dtype)


def _orthonormal(block: Tensor, earlier: Tensor | None) -> Tensor:
    """Orthonormal columns spanning `block` minus span(`earlier`); columns that vanish there become zero."""
    # The second round removes what the division by a small norm has blown up in the first; a column that loses most
    # of itself there was rounding noise.
    for drop in (1e3 * torch.finfo(block.dtype).eps, 0.5):
        block = _gram_schmidt(block, earlier, drop)
    return block


def _gram_schmidt(block: Tensor, earlier: Tensor | None, drop: float) -> Tensor:
    """One round: project on the complement of `earlier`, then column by column; drop what shrinks below `drop`."""
    sizes = torch.linalg.vector_norm(block, dim=1, keepdim=True)
    if earlier is not None:
        for _ in range(2):
            block = block - torch.bmm(earlier, torch.bmm(earlier.mT, block))
    columns: list[Tensor] = []
    for j in range(block.shape[2]):
        column = block[:, :, j : j + 1]
        if columns:
            known = torch.cat(columns, 2)
            for _ in range(2):
                column = column - torch.bmm(known, torch.bmm(known.mT, column))
        norm = torch.linalg.vector_norm(column, dim=1, keepdim=True)
        keep = norm > drop * sizes[:, :, j : j + 1]
        columns.append(torch.where(keep, column / torch.where(keep, norm, torch.ones_like(norm)), 0.0))
    return torch.cat(columns, 2)


def _top_eigenvector(T: Tensor) -> Tensor:
    """Leading eigenvector of symmetric positive semidefinite T (B, p, p), by repeated squaring: T^(2^14)."""
    power = (T + T.mT) / 2
    for _ in range(14):
        size = power.abs().amax(dim=(1, 2), keepdim=True)
        power = power / torch.where(size > 0, size, torch.ones_like(size))
        power = torch.bmm(power, power)
    best = power.diagonal(dim1=1, dim2=2).argmax(dim=1)
    return power.gather(2, best.view(-1, 1, 1).expand(-1, T.shape[1], 1))
