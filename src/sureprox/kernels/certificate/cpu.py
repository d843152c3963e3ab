"""Certificates of squares and logistic losses with a separable penalty, in float64 from one read of A, on a CPU."""

from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call, copies, penalty
from sureprox.problems import Problem
from sureprox.problems.forms import dense, is_logistic
from sureprox.problems.problem import Certificate

CERTIFICATE = ("certificate/certificate.h", "Certificate")


def certificate(problem: Problem, x: Tensor) -> Certificate:
    """`Problem.certificate` in float64, like x; A is each instance's own or shared."""
    A, b = dense(problem)
    batch, (m, n) = problem.batch, A.shape[-2:]
    out, gradient = (torch.empty(batch, size, dtype=torch.float64) for size in (3, n))
    y = x if problem.shift is None else x + problem.shift.double()
    tensors: dict[str, Tensor | None] = {"A": A, "b": b.contiguous(), "x": y.contiguous()}
    tensors |= {"out": out, "gradient": gradient}
    parts, steps = penalty(problem)
    sizes: dict[str, Any] = {"batch": batch, "m": m, "n": n, "copies": copies(problem)}
    call(CERTIFICATE, A.dtype, tensors | parts, logistic=is_logistic(problem), **sizes, **steps)
    objective, gap, kkt = out.unbind(1)
    return Certificate(objective, gap, kkt, gradient)
