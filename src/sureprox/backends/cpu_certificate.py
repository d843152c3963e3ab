"""What is known about points of LASSO problems, in float64 from one read of A as it is, on a CPU (see cpu.py)."""

import torch
from torch import Tensor

from sureprox.backends.cpu import SUFFIX, call, suits_matrices

CERTIFICATE = ("A b lam x out gradient weights", "batch m n threads")


def certificate(A: Tensor, b: Tensor, lam: Tensor, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """(B, 3), F, duality gap and KKT residual, and (B, n), the gradient of f, at x (B, n), which is in float64.

    A (B, m, n), b (B, m), lam () or (B,); None where the kernel does not apply.
    """
    if not suits_matrices(A, len(A)):
        return None
    batch, m, n = A.shape
    out, gradient = (torch.empty(batch, size, dtype=torch.float64) for size in (3, n))
    tensors: dict[str, Tensor | None] = {"A": A, "b": b.contiguous(), "lam": lam.expand(batch).contiguous()}
    tensors |= {"x": x.double().contiguous(), "out": out, "gradient": gradient}
    call(f"certificate_{SUFFIX[A.dtype]}", CERTIFICATE, tensors, (), batch=batch, m=m, n=n)
    return out, gradient
