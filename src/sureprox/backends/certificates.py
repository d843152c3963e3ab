"""What is known about points of LASSO problems, in float64 from one read of A, on an NVIDIA GPU and on a CPU."""

import torch
from torch import Tensor

from sureprox.backends import cpu_certificate, cuda
from sureprox.fast import offer
from sureprox.problems import Problem
from sureprox.problems.problem import Certificate, lasso_parts

THREADS, WARPS, NUMBERS = 256, 8, 3  # as in certificate.cu
MOST_COLUMNS = 512  # beyond, x and the gradient no longer fit into the registers of a warp


def _build(n: int, dtype: torch.dtype, device: int) -> tuple[str, str, cuda.Macros, int, int]:
    """What to compile for n columns of this precision."""
    doubles = dtype == torch.float64
    sizes = (("DOUBLES", int(doubles)), ("CHUNKS", -(-n // 128)), ("TURNS", 1 if doubles else 2))
    return "certificate.cu", "certificate", sizes, device, shared_memory(n)


def shared_memory(n: int) -> int:
    """Bytes that a block needs."""
    return 8 * WARPS * (n + 1)


def launch_certificate(A: Tensor, b: Tensor, lam: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 3), F, duality gap and KKT residual, and (B, n), the gradient of f, at x (B, n), which is in float64.

    A (B, m, n), or (m, n) shared by all, b (B, m), lam () or (B,).
    """
    batch, (m, n) = len(b), A.shape[-2:]
    out, gradient = x.new_empty(batch, NUMBERS), x.new_empty(batch, n)
    given = [A, b.contiguous(), lam.expand(batch).contiguous(), x.contiguous()]
    kernel = cuda.kernel(*_build(n, A.dtype, cuda.index(A.device)))
    sizes = [m, n, 1 if A.ndim == 2 else batch]
    kernel((batch, 1, 1), (THREADS, 1, 1), [*given, out, gradient, *sizes], shared_mem=shared_memory(n))
    return out, gradient


def fits(A: Tensor) -> bool:
    """Whether the kernel is made for this matrix or these matrices."""
    n, precise = A.shape[-1], A.dtype in (torch.float32, torch.float64)
    return precise and n % 4 == 0 and n <= MOST_COLUMNS and A.is_contiguous() and A.data_ptr() % 16 == 0


def quick_certificate(problem: Problem, x: Tensor) -> Certificate | None:
    """`Problem.quick_certificate` where the kernel is made for the problem."""
    parts = lasso_parts(problem)
    if parts is None:
        return None
    f, r = parts
    y = x if problem.shift is None else x + problem.shift.double()
    if f.A.device.type == "cpu":
        found = cpu_certificate.certificate(f.A, f.b, r.lam, y)
    else:
        found = launch_certificate(f.A, f.b, r.lam, y) if _can_launch(f.A) else None
    if found is None:
        return None
    (objective, gap, kkt), gradient = found[0].unbind(1), found[1]
    return Certificate(objective, gap, kkt, gradient)


def _can_launch(A: Tensor) -> bool:
    n, device = A.shape[-1], A.device
    if device.type != "cuda" or not fits(A) or not cuda.usable(device, torch.float32, shared_memory(n)):
        return False
    return cuda.can_build(*_build(n, A.dtype, cuda.index(device)))


offer(Problem, "quick_certificate", quick_certificate)
