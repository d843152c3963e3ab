"""The orthonormal blocks that the estimate of L needs, one kernel each on an NVIDIA GPU instead of a hundred."""

from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.abi import constants
from sureprox.problems.forms import Form
from sureprox.problems.spectrum import block_krylov, drops, orthonormal

THREADS, MOST, EARLIER = constants("lipschitz/orthonormal.cu", "THREADS", "MOST", "EARLIER")
LONGEST = 2048
MEMORY = 4 * (EARLIER * MOST + MOST + MOST * LONGEST)


def build(device: torch.device) -> cuda.Build:
    return "lipschitz/orthonormal.cu", "orthonormal", (), cuda.index(device), MEMORY


def gram_schmidt(device: torch.device) -> Any:
    """The kernel of orthonormal.cu for this device."""
    return cuda.kernel(*build(device))


def orthonormal_now(block: Tensor, earlier: Tensor) -> Tensor:
    """`spectrum.orthonormal` by the kernel where that has room for these vectors."""
    size, count = block.shape[1:]
    fits = size <= LONGEST and count <= MOST and earlier.shape[2] <= EARLIER
    return launched(gram_schmidt(block.device), block, earlier) if fits else orthonormal(block, earlier)


def by_blocks(A: Tensor) -> Tensor:
    """`spectrum.largest_eigenvalue` with the kernel's Gram-Schmidt method."""
    return block_krylov(A, orthonormal_now)


def builds(form: Form) -> list[cuda.Build]:
    """What `by_blocks` needs."""
    return [build(form.device)] if cuda.usable(form.device, form.dtype, MEMORY) else []


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
    """From `block` (B or 1, k, n) k rows of length one, orthogonal to the first `known` of `rows` (B, p, n).

    They are written to `new`, a part of `rows`, and divided by scale (B,) to `scaled` (B, k, n). A block made from
    known rows is divided by scale first, and what that gives is written to `images`, a part of a tensor like `rows`.
    An empty tensor is not written to; without `new` neither is `scaled`; an empty scale counts as one.
    """
    batch, room = rows.shape[0], rows.stride(0)
    count, size = block.shape[1:]
    apart = 0 if block.shape[0] == 1 else block.stride(0)
    given = {"block": block, "scale": scale, "earlier": rows, "out": new, "images": images, "scaled": scaled}
    sizes = {"size": size, "count": count, "known": known, "apart": apart, "room": room}
    arguments = given | sizes | dict(zip(("first_drop", "second_drop"), drops(block.dtype), strict=True))
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=MEMORY)
