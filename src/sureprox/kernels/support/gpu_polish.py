"""`sureprox.support.newton` for LASSO problems as one kernel, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.problems.forms import Form, dense, lam_of
from sureprox.support.newton import ROUNDS, Attempt

THREADS, SIDE, LONGEST, DEEP = 256, 16, 512, 32  # as in lasso_polish.cu
PIECES = (4, 7, 10)  # for supports of fewer than this many times SIDE candidates


def shared_memory(pieces: int) -> int:
    """Bytes that a block needs."""
    most = SIDE * pieces
    triangle = most * (most + 1) // 2
    normal = 8 * max(triangle, 2 * LONGEST)
    factor = 8 * max(triangle + 2 * most, DEEP * (most + 4))
    return normal + factor + 8 * 7 * most + 4 * (2 * most + THREADS // 32 + 4)


def _build(pieces: int, device: torch.device) -> cuda.Build:
    """What to compile for this number of candidates."""
    return "support/lasso_polish.cu", "polish", (("PIECES", pieces),), cuda.index(device), shared_memory(pieces)


def sizes(device: torch.device) -> list[int]:
    """The PIECES for which the device has room."""
    return [pieces for pieces in PIECES if shared_memory(pieces) <= cuda.shared_memory(device)]


def launch_polish(A: Tensor, lam: Tensor, given: Attempt, pieces: int) -> Tensor:
    """`Attempt.points` by the kernel, A (B, m, n) in float32, lam () or (B,).

    Where a coordinate should have joined that was no candidate, or `ROUNDS` were not enough, what a second call from
    there would find.
    """
    batch, m, n = A.shape
    x, g, rows = (value.contiguous() for value in (given.x.double(), given.g.double(), given.rows))
    z, h = torch.empty_like(x), torch.empty_like(x)
    points = {"rows": rows, "x": x, "g": g, "z": z, "h": h}
    arguments = {"A": A, "lam": lam.expand(batch).contiguous(), **points, "m": m, "n": n, "rounds": ROUNDS}
    kernel = cuda.kernel(*_build(pieces, A.device))
    kernel((len(rows), 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(pieces))
    return z


def points(given: Attempt) -> Tensor:
    """`Attempt.points` of LASSO problems; instances with too many candidates go the plain way."""
    A, lam = dense(given.problem)[0], lam_of(given.problem)
    width, ready = given.widths(lam), sizes(A.device)
    most = int(width.max())
    pieces = next((pieces for pieces in ready if most < SIDE * pieces), ready[-1])
    if most < SIDE * pieces:
        return launch_polish(A, lam, given, pieces)
    return given.divided(width < SIDE * pieces, lambda few: launch_polish(A, lam, few, pieces))


def builds(form: Form) -> list[cuda.Build]:
    """What `points` needs; nothing where it is not made for the form."""
    if not form.lasso or form.shifted or not form.own_matrices or form.n > LONGEST:
        return []
    if not cuda.usable(form.device, form.dtype, shared_memory(PIECES[0])):
        return []
    return [_build(pieces, form.device) for pieces in sizes(form.device)]
