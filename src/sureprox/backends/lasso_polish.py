"""`sureprox.polish` for LASSO problems as one kernel, on an NVIDIA GPU and on a CPU."""

from functools import cache

import torch
from torch import Tensor

from sureprox.backends import cpu_polish, cuda
from sureprox.fast import offer
from sureprox.polish import ROUNDS, SLACK, Attempt
from sureprox.problems.problem import lasso_parts

THREADS, SIDE, LONGEST, DEEP = 256, 16, 512, 32  # as in lasso_polish.cu
WORTH_BUILDING = 2**18  # entries of A: that takes a few seconds, once in a process
PIECES = (4, 7, 10)  # for supports of at most so many times SIDE candidates, less one


def shared_memory(pieces: int) -> int:
    """Bytes that a block needs."""
    most = SIDE * pieces
    triangle = most * (most + 1) // 2
    normal = 8 * max(triangle, 2 * LONGEST)
    factor = 8 * max(triangle + 2 * most, DEEP * (most + 4))
    return normal + factor + 8 * 7 * most + 4 * (2 * most + THREADS // 32 + 4)


def _build(pieces: int, device: torch.device) -> tuple[str, str, cuda.Macros, int, int]:
    """What to compile for so many candidates."""
    return "lasso_polish.cu", "polish", (("PIECES", pieces),), cuda.index(device), shared_memory(pieces)


@cache
def _ready(device: torch.device) -> tuple[int, ...]:
    """The PIECES that can be built for the device: all at once, so that none has to be waited for in a later solve."""
    fitting = (pieces for pieces in PIECES if shared_memory(pieces) <= cuda.shared_memory(device))
    return tuple(pieces for pieces in fitting if cuda.can_build(*_build(pieces, device)))


def launch_polish(A: Tensor, lam: Tensor, given: Attempt, pieces: int) -> Tensor:
    """`Attempt.points` by the kernel, A (B, m, n) in float32, lam () or (B,).

    Where a coordinate should have joined that was no candidate, or `ROUNDS` were not enough, what a second call from
    there would find.
    """
    batch, m, n = A.shape
    x, g, rows = (value.contiguous() for value in (given.x.double(), given.g.double(), given.rows))
    z, h = torch.empty_like(x), torch.empty_like(x)
    arguments = [A, lam.expand(batch).contiguous(), rows, x, g, z, h, m, n, ROUNDS, SLACK]
    kernel = cuda.kernel(*_build(pieces, A.device))
    kernel((len(rows), 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(pieces))
    return z


def points(given: Attempt) -> Tensor | None:
    parts = lasso_parts(given.problem)
    if parts is None or given.problem.shift is not None or parts[0].A.ndim == 2 or not len(given.rows):
        return None
    A, lam = parts[0].A, parts[1].lam
    if A.device.type == "cpu":
        return cpu_polish.points(A, lam, given)
    if A.shape[2] > LONGEST or A.numel() < WORTH_BUILDING or not A.is_contiguous():
        return None
    if not cuda.usable(A.device, A.dtype, shared_memory(PIECES[0])) or not _ready(A.device):
        return None
    return gpu_points(A, lam, given, _ready(A.device))


def gpu_points(A: Tensor, lam: Tensor, given: Attempt, ready: tuple[int, ...]) -> Tensor:
    """`Attempt.points` by a kernel for so many PIECES; instances with too many candidates for all of them by others."""
    width = given.widths(lam)
    most = int(width.max())
    pieces = next((pieces for pieces in ready if most < SIDE * pieces), ready[-1])
    if most < SIDE * pieces:
        return launch_polish(A, lam, given, pieces)
    return given.divided(width < SIDE * pieces, lambda few: launch_polish(A, lam, few, pieces))


offer(Attempt, "points", points)
