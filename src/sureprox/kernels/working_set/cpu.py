"""`sureprox.support.working_set` by a compiled kernel, on a CPU (see runtime/native.py)."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Vectors
from sureprox.kernels.runtime.native import call, copies, penalty
from sureprox.problems import Problem
from sureprox.problems.forms import dense
from sureprox.support.working_set import MOST

WORKING_SET = ("working_set/working_set.h", "WorkingSet")
WIDEST, LARGEST = 2048, 2**24  # columns and entries of a shared A whose normal matrix is computed as a whole,
USUAL = 64  # if enough instances will read it: so many coordinates a working set has


def solved(problem: Problem, tol: float, floor: float, start: Vectors | None = None, chain: int = 1) -> Vectors:
    """`working_set.solved`. Neither the normal matrix of a shared A nor the threads change a bit of it."""
    A, b = dense(problem)
    batch, (m, n) = problem.batch, A.shape[-2:]
    shared = A.ndim == 2
    many = shared and n <= WIDEST and m * n <= LARGEST and batch // chain * USUAL**2 >= n**2
    x = torch.empty(batch, n, dtype=torch.float64)
    tensors: dict[str, Tensor | None] = {"A": A.contiguous(), "b": b.contiguous(), "x": x}
    tensors["start"] = None if start is None else start.double().contiguous()
    tensors["squares"] = torch.empty(n, dtype=torch.float64) if shared else None
    tensors["gram"] = torch.empty(n, n, dtype=torch.float64) if many else None
    parts, steps = penalty(problem)
    numbers: dict[str, Any] = {
        "tol": tol,
        "floor": floor,
        "batch": batch,
        "m": m,
        "n": n,
        "copies": copies(problem),
        "chain": chain,
        "most": MOST,
    }
    call(WORKING_SET, A.dtype, tensors | parts, **numbers, **steps)
    return x
