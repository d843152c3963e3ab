"""The active set method of `sureprox.support.newton` as one kernel, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.problems.forms import Form
from sureprox.support.newton import ROUNDS, Candidates

THREADS, WIDEST = 256, 224  # as in polish.cu
SIDE = 16  # candidates for which there must be room at least


def shared_memory(width: int) -> int:
    """Bytes that a block needs for this number of candidates."""
    return 8 * (3 * width + width * (width + 1) // 2) + 8 * width


def _build(device: torch.device) -> cuda.Build:
    """What to compile, with as much shared memory as it may need and the device has."""
    allowed = min(shared_memory(WIDEST), cuda.shared_memory(device))
    return "support/polish.cu", "active_set", (), cuda.index(device), allowed


def launch_active_set(given: Candidates) -> Tensor:
    """`Candidates.active_set` by the kernel."""
    batch, width = given.x.shape
    z = torch.empty_like(given.x, memory_format=torch.contiguous_format)
    arguments = {name: getattr(given, name).contiguous() for name in ("gram", "x", "g", "lam", "pull", "limit", "on")}
    arguments |= {"z": z, "width": width, "rounds": ROUNDS}
    kernel = cuda.kernel(*_build(z.device))
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(width))
    return z


def active_set(given: Candidates) -> Tensor:
    """`Candidates.active_set`, by the kernel where that has room for all candidates."""
    width = given.x.shape[1]
    fits = width <= WIDEST and shared_memory(width) <= cuda.shared_memory(given.x.device)
    return launch_active_set(given) if fits else given.active_set()


def builds(form: Form) -> list[cuda.Build]:
    """What `active_set` needs; nothing where the device has too little shared memory."""
    return [_build(form.device)] if cuda.usable(form.device, torch.float32, shared_memory(SIDE)) else []
