"""The active set method of `sureprox.polish` as one kernel, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.fast import offer
from sureprox.polish import ROUNDS, Candidates

THREADS, LARGEST = 256, 224  # as in polish.cu
WIDEST = 256  # candidates; of a support of LARGEST these are a few more (`sureprox.polish`)


def shared_memory(width: int) -> int:
    """Bytes that a block needs for so many candidates."""
    most = min(width, LARGEST)
    return 8 * (3 * width + most * (most + 1) // 2) + 8 * width


def _build(device: int) -> tuple[str, str, cuda.Macros, int, int]:
    return "polish.cu", "active_set", (), device, shared_memory(WIDEST)


def launch_active_set(given: Candidates) -> Tensor:
    """`Candidates.active_set` by the kernel."""
    batch, width = given.x.shape
    z = torch.empty_like(given.x, memory_format=torch.contiguous_format)
    values = (given.gram, given.x, given.g, given.lam, given.pull, given.limit, given.on)
    arguments = [*(value.contiguous() for value in values), z, width, min(width, LARGEST), ROUNDS]
    kernel = cuda.kernel(*_build(cuda.index(z.device)))
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(width))
    return z


def active_set(given: Candidates) -> Tensor | None:
    device, fits = given.x.device, given.x.shape[1] <= WIDEST
    if device.type != "cuda" or not fits or not cuda.usable(device, torch.float32, shared_memory(WIDEST)):
        return None
    return launch_active_set(given) if cuda.can_build(*_build(cuda.index(device))) else None


offer(Candidates, "active_set", active_set)
