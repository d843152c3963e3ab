"""The estimate of L on an NVIDIA GPU with one read of A per step."""

from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.lipschitz import gpu_orthonormal
from sureprox.kernels.lipschitz.gpu_orthonormal import gram_schmidt, run
from sureprox.kernels.products import gpu_extrapolated
from sureprox.kernels.products.gpu_extrapolated import launch_extrapolated
from sureprox.kernels.runtime import cuda
from sureprox.problems.forms import Form
from sureprox.problems.spectrum import SAFETY, largest_entry, ritz_value, starting_block

STEPS, BLOCK = 20, 2


@torch.no_grad()
def block_lanczos(A: Tensor, kernel: Any) -> Tensor:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, A (B, m, n): 20 steps with two vectors.

    As `spectrum.largest_eigenvalue`, which says what is guaranteed, but vectors have n entries always, so that A and A'
    share a read of A, and there are fewer of them and more steps, which is as good and has fewer products. `kernel`:
    that of orthonormal.cu.
    """
    batch, m, n = A.shape
    scale = largest_entry(A)
    before, momentum, b = A.new_zeros(batch, BLOCK, m), A.new_zeros(batch, BLOCK), A.new_zeros(batch, m)
    basis, nothing = A.new_empty(batch, STEPS * BLOCK, n), A.new_empty(0)
    images, scaled = torch.empty_like(basis), A.new_empty(batch, BLOCK, n)
    work, image = starting_block(n, BLOCK, A.dtype, A.device).mT.contiguous().unsqueeze(0), nothing
    for known in range(0, STEPS * BLOCK, BLOCK):
        new = basis[:, known : known + BLOCK]
        run(kernel, work, scale, basis, new, image, scaled, known)
        work = launch_extrapolated(A, scaled, before, momentum, b)[2]
        image = images[:, known : known + BLOCK]
    run(kernel, work, scale, basis, nothing, image, nothing, STEPS * BLOCK)
    return SAFETY * ritz_value(basis.mT, images.mT, scale)


def by_one_read(A: Tensor) -> Tensor:
    """`block_lanczos` by the kernels."""
    return block_lanczos(A, gram_schmidt(A.device))


def builds(form: Form) -> list[cuda.Build]:
    """What `by_one_read` needs; nothing where it is not made for these matrices."""
    products, columns = gpu_extrapolated.builds(form, [BLOCK]), gpu_orthonormal.builds(form)
    return [*products, *columns] if products and columns and min(form.m, form.n) >= STEPS * BLOCK else []
