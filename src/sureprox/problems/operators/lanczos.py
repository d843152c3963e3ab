"""The largest eigenvalue of A'A where A is known only by its products with vectors."""

from collections.abc import Callable

import torch
from torch import Tensor

from sureprox.base.types import Scalars
from sureprox.problems.spectrum import KRYLOV_STEPS, SAFETY, orthonormal, ritz_value, starting_block

CONVERGED = 1e-12  # |G v - theta v| / theta
SETTLED = 1e-14  # relative gain of theta from one look to the next that is nothing but rounding
LOOK = 8  # block steps between two looks at theta

Product = Callable[[Tensor], Tensor]


def largest_by_products(
    forward: Product, adjoint: Product, shape: tuple[int, int, int], block: int, like: Tensor, exact: bool
) -> Scalars:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, (B,), `shape` (B, m, n).

    forward: (B, block, n) -> (B, block, m), adjoint the other way. Block Lanczos from fixed pseudo-random vectors with
    full reorthogonalisation on the smaller side of A: 16 steps in the dtype of `like`, so 33 products with A or A'.
    What is guaranteed and what is not is said in `block_krylov`: theta never exceeds the true value, and may fall
    short by more than 1 % only where the leading eigenvectors are nearly orthogonal to all starting vectors, or where
    16 steps do not resolve the top of the spectrum. A NaN or an infinity of a product is the result.

    `exact`, with `like` in float64: without the factor, as many steps as it takes until |G v - theta v| <= 1e-12 theta
    for the best vector v, or theta no longer rises, at most until the Krylov space is the whole space. Some eigenvalue
    lies within 1e-12 of theta; that it is the largest is as certain as random starting vectors make it. It keeps all
    vectors: 2 * block * min(m, n) numbers for each step.
    """
    batch, rows, columns = shape
    wide, size = rows <= columns, min(rows, columns)
    first, second = (adjoint, forward) if wide else (forward, adjoint)
    work = starting_block(size, block, like.dtype, like.device).expand(batch, size, block)
    scale = first(work.mT).abs().amax(dim=(1, 2))
    scale = torch.where(scale == 0, 1.0, scale).view(-1, 1, 1)  # keeps squares away from overflow and underflow

    def gram(vectors: Tensor) -> Tensor:
        return (second(first(vectors.mT.contiguous()) / scale) / scale).mT

    most = -(-size // block)
    basis, images = like.new_empty(batch, size, 0), like.new_empty(batch, size, 0)
    theta = torch.zeros(batch, dtype=like.dtype, device=like.device)
    for step in range(most if exact else min(KRYLOV_STEPS, most)):
        new = orthonormal(work, basis)
        work = gram(new)
        basis, images = torch.cat([basis, new], 2), torch.cat([images, work], 2)
        if exact and step % LOOK == LOOK - 1:
            before, (theta, residual) = theta, _top(basis, images)
            if bool(((residual <= CONVERGED * theta) | (theta - before <= SETTLED * theta)).all()):
                break
    if not exact:
        return _unless_broken(SAFETY * ritz_value(basis, images, scale[:, 0, 0]), images, scale)
    return _unless_broken(_top(basis, images)[0] * scale[:, 0, 0].square(), images, scale)


def _top(basis: Tensor, images: Tensor) -> tuple[Scalars, Scalars]:
    """theta and |G v - theta v| of the best vector v of the span of `basis`."""
    T = basis.mT @ images
    values, vectors = torch.linalg.eigh((T + T.mT) / 2)
    theta, ritz = values[:, -1], vectors[:, :, -1:]
    residual = images @ ritz - theta.view(-1, 1, 1) * (basis @ ritz)
    return theta.clamp(min=0), torch.linalg.vector_norm(residual, dim=(1, 2))


def _unless_broken(value: Scalars, images: Tensor, scale: Tensor) -> Scalars:
    """NaN where a product was not finite: an L made of the others would be too small."""
    fine = torch.isfinite(images).all(2).all(1) & torch.isfinite(scale[:, 0, 0])
    return torch.where(fine, value, torch.nan)
