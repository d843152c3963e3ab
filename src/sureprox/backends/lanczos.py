"""The estimate of L on an NVIDIA GPU, from A'A where that is small, else with one read of A per step, and on a CPU."""

from typing import Any

import torch
from torch import Tensor

from sureprox.backends import cpu_krylov
from sureprox.backends.ahead import can_look_ahead, launch_ahead
from sureprox.backends.krylov import gram_schmidt, run
from sureprox.backends.largest import can_form, launch_largest
from sureprox.fast import offer
from sureprox.problems.linear import LinearMap
from sureprox.problems.spectrum import SAFETY, largest_entry, ritz_value, starting_block

STEPS, BLOCK = 20, 2
SMALL = 2**16  # entries of a single matrix that a CPU is done with before a GPU has begun


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
        work = launch_ahead(A, scaled, before, momentum, b)[2]
        image = images[:, known : known + BLOCK]
    run(kernel, work, scale, basis, nothing, image, nothing, STEPS * BLOCK)
    return SAFETY * ritz_value(basis.mT, images.mT, scale)


def largest_eigenvalue(linear: LinearMap, stack: Tensor) -> Tensor | None:
    if stack.device.type == "cpu":
        return cpu_krylov.largest_eigenvalue(stack)
    if stack.shape[0] == 1 and stack.numel() <= SMALL and not torch.cuda.is_current_stream_capturing():
        return LinearMap(stack.cpu()).largest_eigenvalue(stack.cpu()).to(stack.device)
    if can_form(stack):
        return launch_largest(stack)
    wide_enough = min(stack.shape[1:]) >= STEPS * BLOCK
    kernel = gram_schmidt(stack.device) if wide_enough and can_look_ahead(stack, BLOCK) else None
    return None if kernel is None else block_lanczos(stack, kernel)


offer(LinearMap, "largest_eigenvalue", largest_eigenvalue)
