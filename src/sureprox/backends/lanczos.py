"""The estimate of L with one read of A per step, on an NVIDIA GPU; on a CPU by the kernel of cpu_krylov.py."""

import torch
from torch import Tensor

from sureprox.backends import cpu_krylov
from sureprox.backends.ahead import ahead, can_look_ahead
from sureprox.fast import offer
from sureprox.problems.linear import LinearMap
from sureprox.problems.spectrum import SAFETY, largest_entry, orthonormal_block, ritz_value, starting_block

STEPS, BLOCK = 20, 2


def block_lanczos(A: Tensor) -> Tensor:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, A (B, m, n): 20 steps with two vectors.

    As `spectrum.largest_eigenvalue`, which says what is guaranteed, but vectors have n entries always, so that A and A'
    share a read of A, and there are fewer of them and more steps, which is as good and has fewer products.
    """
    batch, m, n = A.shape
    scale = largest_entry(A).view(-1, 1, 1)
    before, momentum, b = A.new_zeros(batch, BLOCK, m), A.new_zeros(batch, BLOCK), A.new_zeros(batch, m)
    basis = A.new_empty(batch, n, STEPS * BLOCK)
    images = torch.empty_like(basis)
    work = starting_block(n, BLOCK, A.dtype, A.device).expand(batch, n, BLOCK)
    for known in range(0, STEPS * BLOCK, BLOCK):
        new = orthonormal_block(work, basis[:, :, :known])
        work = (ahead(A, new.mT / scale, before, momentum, b)[2] / scale).mT
        basis[:, :, known : known + BLOCK] = new
        images[:, :, known : known + BLOCK] = work
    return SAFETY * ritz_value(basis, images, scale[:, 0, 0])


def largest_eigenvalue(linear: LinearMap, stack: Tensor) -> Tensor | None:
    if stack.device.type == "cpu":
        return cpu_krylov.largest_eigenvalue(stack)
    wide_enough = min(stack.shape[1:]) >= STEPS * BLOCK
    return block_lanczos(stack) if wide_enough and can_look_ahead(stack, BLOCK) else None


offer(LinearMap, "largest_eigenvalue", largest_eigenvalue)
