"""The orthonormal blocks that the estimate of L needs, one kernel each on an NVIDIA GPU instead of a hundred."""

from typing import Any

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.problems.spectrum import drops, orthonormal, orthonormal_block

THREADS, MOST, EARLIER = 256, 4, 64  # as in orthonormal.cu
LONGEST = 2048
MEMORY = 4 * (8 * EARLIER * MOST + EARLIER * MOST + MOST + MOST * LONGEST)


@orthonormal_block.register_kernel("cuda")
def orthonormal_now(block: Tensor, earlier: Tensor) -> Tensor:
    """`orthonormal` by the kernel where it is made for these tensors."""
    size, count = block.shape[1:]
    known = earlier.shape[2]
    fits = size <= LONGEST and count <= MOST and known <= EARLIER and earlier.stride(2) == 1
    if not fits or not cuda.usable(block.device, block.dtype, MEMORY):
        return orthonormal(block, earlier)
    build = ("orthonormal.cu", "orthonormal", (), cuda.index(block.device), MEMORY)
    return launched(cuda.kernel(*build), block, earlier) if cuda.can_build(*build) else orthonormal(block, earlier)


def launched(kernel: Any, block: Tensor, earlier: Tensor) -> Tensor:
    """The kernel on these tensors."""
    batch, size, count = block.shape
    out = torch.empty(batch, size, count, dtype=block.dtype, device=block.device)
    numbers = [size, count, earlier.shape[2], earlier.stride(1), earlier.stride(0), *drops(block.dtype)]
    arguments = [block.contiguous(), earlier, out, *numbers]
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=MEMORY)
    return out
