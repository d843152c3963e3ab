"""The estimate of L with one read of A per step, on an NVIDIA GPU; on a CPU by the kernel of cpu_krylov.py."""

import torch
from torch import Tensor

from sureprox.backends import cpu_krylov
from sureprox.backends.ahead import can_look_ahead, launch_ahead
from sureprox.backends.krylov import orthonormal_now
from sureprox.fast import offer
from sureprox.problems.linear import LinearMap
from sureprox.problems.spectrum import SAFETY, drops, largest_entry, ritz_value, starting_block

STEPS, BLOCK = 20, 2


@torch.no_grad()
def block_lanczos(A: Tensor) -> Tensor:
    """1.01 times a block-Krylov estimate of the largest eigenvalue of A'A, A (B, m, n): 20 steps with two vectors.

    As `spectrum.largest_eigenvalue`, which says what is guaranteed, but vectors have n entries always, so that A and A'
    share a read of A, and there are fewer of them and more steps, which is as good and has fewer products.
    """
    batch, m, n = A.shape
    scale = largest_entry(A).view(-1, 1, 1)
    before, momentum, b = A.new_zeros(batch, BLOCK, m), A.new_zeros(batch, BLOCK), A.new_zeros(batch, m)
    basis = A.new_empty(batch, STEPS * BLOCK, n)
    images = torch.empty_like(basis)
    work = starting_block(n, BLOCK, A.dtype, A.device).mT.expand(batch, BLOCK, n)
    for known in range(0, STEPS * BLOCK, BLOCK):
        new = _next_block(work, basis[:, :known])
        work = launch_ahead(A, new / scale, before, momentum, b)[2] / scale
        basis[:, known : known + BLOCK] = new
        images[:, known : known + BLOCK] = work
    return SAFETY * ritz_value(basis.mT, images.mT, scale[:, 0, 0])


def _next_block(work: Tensor, earlier: Tensor) -> Tensor:
    """Orthonormal rows that span `work` (B, k, n) minus the span of `earlier` (B, p, n); vanishing ones become zero."""
    if earlier.shape[1]:
        size = torch.linalg.vector_norm(work, dim=2, keepdim=True)
        for _ in range(2):
            work = torch.baddbmm(work, torch.bmm(work, earlier.mT), earlier, alpha=-1)
        left = torch.linalg.vector_norm(work, dim=2, keepdim=True)
        work = torch.where(left > drops(work.dtype)[0] * size, work, 0.0)
    nothing = work.new_empty(len(work), work.shape[2], 0)
    made: Tensor = orthonormal_now(work.mT, nothing)
    return made.mT


def largest_eigenvalue(linear: LinearMap, stack: Tensor) -> Tensor | None:
    if stack.device.type == "cpu":
        return cpu_krylov.largest_eigenvalue(stack)
    wide_enough = min(stack.shape[1:]) >= STEPS * BLOCK
    return block_lanczos(stack) if wide_enough and can_look_ahead(stack, BLOCK) else None


offer(LinearMap, "largest_eigenvalue", largest_eigenvalue)
