"""The orthonormal blocks that the estimate of L needs, one kernel each on an NVIDIA GPU instead of a hundred."""

from typing import Any

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.problems.spectrum import drops, orthonormal, orthonormal_block

THREADS, MOST, EARLIER = 256, 4, 64  # as in orthonormal.cu
LONGEST = 2048
MEMORY = 4 * (EARLIER * MOST + MOST + MOST * LONGEST)


def gram_schmidt(device: torch.device) -> Any:
    """The kernel of orthonormal.cu for this device; None where it cannot be built."""
    build = ("orthonormal.cu", "orthonormal", (), cuda.index(device), MEMORY)
    usable = cuda.usable(device, torch.float32, MEMORY) and cuda.can_build(*build)
    return cuda.kernel(*build) if usable else None


@orthonormal_block.register_kernel("cuda")
def orthonormal_now(block: Tensor, earlier: Tensor) -> Tensor:
    """`orthonormal` by the kernel where it is made for these tensors."""
    size, count = block.shape[1:]
    fits = size <= LONGEST and count <= MOST and earlier.shape[2] <= EARLIER and block.dtype == torch.float32
    kernel = gram_schmidt(block.device) if fits else None
    return orthonormal(block, earlier) if kernel is None else launched(kernel, block, earlier)


def launched(kernel: Any, block: Tensor, earlier: Tensor) -> Tensor:
    """The kernel on these tensors, whose vectors are columns."""
    batch, size, count = block.shape
    known, nothing = earlier.shape[2], block.new_empty(0)
    rows = block.new_empty(batch, known + count, size)
    rows[:, :known] = earlier.mT
    new = rows[:, known:]
    run(kernel, block.mT.contiguous(), nothing, rows, new, nothing, nothing, known)
    return new.mT


def run(
    kernel: Any, block: Tensor, scale: Tensor, rows: Tensor, new: Tensor, images: Tensor, scaled: Tensor, known: int
) -> None:
    """From `block` (B or 1, k, n): k rows of length one, orthogonal to the first `known` of `rows` (B, p, n).

    They go into `new`, a part of `rows`.

    A block made from known rows is divided by scale (B,) first. It goes into `images`, a part of a tensor like `rows`,
    the new rows divided by scale into `scaled` (B, k, n). What is empty is not made; nor is `scaled` without `new`, and
    an empty scale is one.
    """
    batch, room = rows.shape[0], rows.stride(0)
    count, size = block.shape[1:]
    apart = 0 if block.shape[0] == 1 else block.stride(0)
    arguments = [block, scale, rows, new, images, scaled, size, count, known, apart, room, *drops(block.dtype)]
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=MEMORY)
