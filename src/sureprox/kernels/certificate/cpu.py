"""Certificates of squares and logistic losses with a separable penalty, in float64 from one read of A, on a CPU."""

from typing import Any

from torch import Tensor

from sureprox.kernels.runtime.native import call, copies, penalty
from sureprox.problems import Problem
from sureprox.problems.forms import dense, is_logistic
from sureprox.problems.problem import Certificate

CERTIFICATE = ("certificate/certificate.h", "Certificate")


def certificate(problem: Problem, x: Tensor) -> Certificate:
    """`Problem.certificate` in float64, like x; A is each instance's own or shared."""
    A, b = dense(problem)
    m, (batch, n) = A.shape[-2], x.shape
    out, gradient = x.new_empty(batch, 3), x.new_empty(batch, n)
    y = x if problem.shift is None else x + problem.shift.double()
    tensors: dict[str, Tensor | None] = {"A": A, "b": b.contiguous(), "x": y.contiguous()}
    tensors |= {"out": out, "gradient": gradient}
    parts, steps = penalty(problem)
    sizes: dict[str, Any] = {"batch": batch, "m": m, "n": n, "copies": copies(problem)}
    call(CERTIFICATE, A.dtype, tensors | parts, logistic=is_logistic(problem), **sizes, **steps)
    objective, gap, kkt = out.unbind(1)
    return Certificate(objective, gap, kkt, gradient)
