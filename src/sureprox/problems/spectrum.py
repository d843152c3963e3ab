"""The largest eigenvalue of A'A, from a few products with A."""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor

Largest = Callable[[Tensor], Tensor]  # the largest eigenvalue of A'A for every A of a stack (B, m, n)

KRYLOV_STEPS = 16
KRYLOV_BLOCK = 4
SAFETY = 1.01


def largest_eigenvalue(A: Tensor) -> Tensor:
    """`block_krylov` in plain PyTorch."""
    return block_krylov(A, orthonormal)


@torch.no_grad()
def block_krylov(A: Tensor, gram_schmidt: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, A of shape (B, m, n).

    16 steps of block Lanczos with 4 fixed pseudo-random starting vectors, that is 32 products of A or A' with a
    block of four vectors, full reorthogonalisation, then the Rayleigh quotient theta = |A v|^2 / |v|^2 of the best
    vector v of the Krylov space.

    Guaranteed: theta is a Rayleigh quotient, so up to rounding it never exceeds the true value and the result is at
    most 1.01 times it (more precisely 1.01 theta). Where min(m, n) <= 64 the Krylov space is the whole space and
    theta is exact up to rounding. Not guaranteed: that theta is within 1 % below. The shortfall depends on the gaps
    at the top of the spectrum; on Gaussian, autoregressive and low-rank matrices up to 2000 x 2000 it stayed under
    0.4 %, so that the result lay between 1.006 and 1.01 times the true value. A matrix whose leading eigenvectors
    are all nearly orthogonal to the four starting vectors defeats it. `gram_schmidt`: see `orthonormal`.
    """
    rows, columns = A.shape[-2:]
    wide = rows <= columns
    size = min(rows, columns)
    block = min(KRYLOV_BLOCK, size)
    scale = largest_entry(A).view(-1, 1, 1)
    work = starting_block(size, block, A.dtype, A.device).expand(A.shape[0], size, block)
    steps = min(KRYLOV_STEPS, -(-size // block))
    basis = A.new_empty(A.shape[0], size, steps * block)
    images: list[Tensor] = []
    for known in range(0, steps * block, block):
        new = gram_schmidt(work, basis[:, :, :known])
        if wide:
            work = torch.bmm(A, torch.bmm(A.mT, new) / scale) / scale
        else:
            work = torch.bmm(A.mT, torch.bmm(A, new) / scale) / scale
        basis[:, :, known : known + block] = new
        images.append(work)
    return SAFETY * ritz_value(basis, torch.cat(images, 2), scale[:, 0, 0])


def ritz_value(basis: Tensor, images: Tensor, scale: Tensor) -> Tensor:
    """The largest Rayleigh quotient on the span of `basis` (B, n, p), `images` being G basis / scale^2, scale (B,)."""
    Q, GQ = basis.double(), images.double()
    ritz = _top_eigenvector(torch.bmm(Q.mT, GQ))
    vector = torch.bmm(Q, ritz)
    norm = vector.square().sum(dim=(1, 2))
    theta = (vector * torch.bmm(GQ, ritz)).sum(dim=(1, 2)) / norm.clamp(min=torch.finfo(torch.float64).tiny)
    return (theta.clamp(min=0) * scale.double().square()).to(basis.dtype)


def largest_entry(A: Tensor) -> Tensor:
    """(B,), 1 for a zero matrix. Entries of at most one keep squares away from overflow and underflow."""
    scale = torch.maximum(A.amax(dim=(1, 2)), -A.amin(dim=(1, 2)))  # |A| would be a copy of A
    return torch.where(scale > 0, scale, torch.ones_like(scale))


@lru_cache(maxsize=16)
def starting_block(size: int, block: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Fixed standard normal vectors; kept, so that no transfer is left when a CUDA graph is being captured."""
    generator = torch.Generator().manual_seed(0)
    return torch.randn(size, block, generator=generator, dtype=torch.float64).to(device=device, dtype=dtype)


def orthonormal(block: Tensor, earlier: Tensor) -> Tensor:
    """Orthonormal columns spanning `block` (B, n, k) minus span(`earlier`) (B, n, p); vanishing ones become zero."""
    # The second round removes what the division by a small norm has blown up in the first; a column that loses most
    # of itself there was rounding noise.
    for drop in drops(block.dtype):
        block = _gram_schmidt(block, earlier, drop)
    return block


def drops(dtype: torch.dtype) -> tuple[float, float]:
    """To what part of itself a column may shrink in each of the two rounds before it counts as vanished."""
    return 1e3 * torch.finfo(dtype).eps, 0.5


def _gram_schmidt(block: Tensor, earlier: Tensor, drop: float) -> Tensor:
    """One round: project on the complement of `earlier`, then column by column; drop what shrinks below `drop`."""
    sizes = torch.linalg.vector_norm(block, dim=1, keepdim=True)
    if earlier.shape[2]:
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
    """Leading eigenvector of symmetric positive semidefinite T (B, p, p), by repeated squaring: T^(2^14).

    The largest entry of such a T is at most its largest eigenvalue and at least a p-th of it, so that in float64 two
    squarings can follow each other before it is made one again.
    """
    power = (T + T.mT) / 2
    for _ in range(7):
        size = power.abs().amax(dim=(1, 2), keepdim=True)
        power = power / torch.where(size > 0, size, torch.ones_like(size))
        power = torch.bmm(power, power)
        power = torch.bmm(power, power)
    best = power.diagonal(dim1=1, dim2=2).argmax(dim=1)
    return power.gather(2, best.view(-1, 1, 1).expand(-1, T.shape[1], 1))
