"""The active set method of `sureprox.polish` as one kernel, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.fast import offer
from sureprox.polish import ROUNDS, Candidates

THREADS, WIDEST = 256, 224  # as in polish.cu


def shared_memory(width: int) -> int:
    """Bytes that a block needs for so many candidates."""
    return 8 * (3 * width + width * (width + 1) // 2) + 8 * width


def _build(device: torch.device) -> tuple[str, str, cuda.Macros, int, int]:
    """What to compile, with as much shared memory as it may need and the device has."""
    allowed = min(shared_memory(WIDEST), cuda.shared_memory(device))
    return "polish.cu", "active_set", (), cuda.index(device), allowed


def launch_active_set(given: Candidates) -> Tensor:
    """`Candidates.active_set` by the kernel."""
    batch, width = given.x.shape
    z = torch.empty_like(given.x, memory_format=torch.contiguous_format)
    values = (given.gram, given.x, given.g, given.lam, given.pull, given.limit, given.on)
    arguments = [*(value.contiguous() for value in values), z, width, ROUNDS]
    kernel = cuda.kernel(*_build(z.device))
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(width))
    return z


def active_set(given: Candidates) -> Tensor | None:
    device, width = given.x.device, given.x.shape[1]
    if device.type != "cuda" or width > WIDEST or not cuda.usable(device, torch.float32, shared_memory(width)):
        return None
    return launch_active_set(given) if cuda.can_build(*_build(device)) else None


offer(Candidates, "active_set", active_set)
