"""Certificates of points of LASSO problems, in float64 from one read of A as it is, on a CPU (runtime/native.py)."""

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call
from sureprox.problems import Problem
from sureprox.problems.forms import dense, lam_of
from sureprox.problems.problem import Certificate

CERTIFICATE = ("certificate/certificate.h", "Certificate")


def certificate(problem: Problem, x: Tensor) -> Certificate:
    """`Problem.certificate` of LASSO problems with one A per instance, in float64, like x."""
    A, b = dense(problem)
    batch, m, n = A.shape
    out, gradient = (torch.empty(batch, size, dtype=torch.float64) for size in (3, n))
    y = x if problem.shift is None else x + problem.shift.double()
    tensors: dict[str, Tensor | None] = {"A": A, "b": b.contiguous(), "x": y.contiguous()}
    tensors |= {"lam": lam_of(problem).expand(batch).contiguous(), "out": out, "gradient": gradient}
    call(CERTIFICATE, A.dtype, tensors, batch=batch, m=m, n=n)
    objective, gap, kkt = out.unbind(1)
    return Certificate(objective, gap, kkt, gradient)
