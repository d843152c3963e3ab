"""What is known about points of LASSO problems, in float64 from one read of A, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.abi import constants
from sureprox.problems import Problem
from sureprox.problems.forms import Form, dense, lam_of
from sureprox.problems.problem import Certificate

THREADS, NUMBERS = constants("certificate/certificate.cu", "THREADS", "NUMBERS")
WARPS = THREADS // 32
MOST_COLUMNS = 512  # beyond, x and the gradient no longer fit into the registers of a warp


def _build(n: int, dtype: torch.dtype, device: int) -> cuda.Build:
    """What to compile for n columns of this precision."""
    doubles = dtype == torch.float64
    sizes = (("DOUBLES", int(doubles)), ("CHUNKS", -(-n // 128)), ("TURNS", 1 if doubles else 2))
    return "certificate/certificate.cu", "certificate", sizes, device, shared_memory(n)


def shared_memory(n: int) -> int:
    """Bytes that a block needs."""
    return 8 * WARPS * (n + 1)


def launch_certificate(A: Tensor, b: Tensor, lam: Tensor, x: Tensor) -> tuple[Tensor, Tensor]:
    """(B, 3), F, duality gap and KKT residual, and (B, n), the gradient of f, at x (B, n), which is in float64.

    A (B, m, n), or (m, n) shared by all, b (B, m), lam () or (B,).
    """
    batch, (m, n) = len(b), A.shape[-2:]
    out, gradient = x.new_empty(batch, NUMBERS), x.new_empty(batch, n)
    given = {"A": A, "b": b.contiguous(), "lam": lam.expand(batch).contiguous(), "x": x.contiguous()}
    sizes = {"m": m, "n": n, "matrices": 1 if A.ndim == 2 else batch}
    arguments = {**given, "out": out, "gradient": gradient, **sizes}
    kernel = cuda.kernel(*_build(n, A.dtype, cuda.index(A.device)))
    kernel((batch, 1, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(n))
    return out, gradient


def certificate(problem: Problem, x: Tensor) -> Certificate:
    """`Problem.certificate` of LASSO problems, in float64, like x."""
    y = x if problem.shift is None else x + problem.shift.double()
    out, gradient = launch_certificate(*dense(problem), lam_of(problem), y)
    objective, gap, kkt = out.unbind(1)
    return Certificate(objective, gap, kkt, gradient)


def builds(form: Form) -> list[cuda.Build]:
    """What `certificate` needs; nothing where it is not made for the form."""
    fits = form.lasso and form.contiguous and form.n % 4 == 0 and form.n <= MOST_COLUMNS
    if not fits or not cuda.usable(form.device, torch.float32, shared_memory(form.n)):
        return []
    return [_build(form.n, form.dtype, cuda.index(form.device))]
