"""The estimate of L on a CPU by a compiled kernel: A is read from afar once for all steps (see cpu.py)."""

import torch
from torch import Tensor

from sureprox.backends.cpu import LARGEST_ALONE, SUFFIX, call, suits
from sureprox.problems.spectrum import KRYLOV_BLOCK, KRYLOV_STEPS, SAFETY, largest_entry, ritz_value, starting_block

KRYLOV = ("A start inverse basis images weights", "batch m n steps threads")


def largest_eigenvalue(stack: Tensor) -> Tensor | None:
    batch, m, n = stack.shape
    size = min(m, n)
    if size < KRYLOV_BLOCK or not suits(stack, batch, n) or not stack.is_contiguous():
        return None
    if batch < torch.get_num_threads() and m * n > LARGEST_ALONE:
        return None
    scale = largest_entry(stack)
    steps = min(KRYLOV_STEPS, -(-size // KRYLOV_BLOCK))
    start = starting_block(size, KRYLOV_BLOCK, stack.dtype, stack.device).mT.contiguous()
    basis = stack.new_empty(batch, steps * KRYLOV_BLOCK, size)
    images = torch.empty_like(basis)
    tensors: dict[str, Tensor | None] = {"A": stack, "start": start, "inverse": 1 / scale}
    tensors |= {"basis": basis, "images": images}
    call(f"krylov_{SUFFIX[stack.dtype]}", KRYLOV, tensors, (), batch=batch, m=m, n=n, steps=steps)
    return SAFETY * ritz_value(basis.mT, images.mT, scale)
