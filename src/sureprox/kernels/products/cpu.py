"""The gradient of least squares by a compiled kernel on a CPU (see runtime/native.py)."""

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call
from sureprox.problems import Problem
from sureprox.problems.forms import dense

GRADIENT = ("products/gradient.h", "Gradient")


def gradient(problem: Problem, x: Tensor) -> Tensor:
    """A'(A x - b) with one read of A."""
    A, b = dense(problem)
    point, g = problem.centred(x).contiguous(), torch.empty_like(x, memory_format=torch.contiguous_format)
    tensors = {"A": A, "b": b.contiguous(), "x": point, "g": g}
    call(GRADIENT, x.dtype, tensors, batch=x.shape[0], m=A.shape[1], n=x.shape[1])
    return g
