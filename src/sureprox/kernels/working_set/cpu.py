"""`sureprox.support.working_set` by a compiled kernel, on a CPU (see runtime/native.py)."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Vectors
from sureprox.kernels.runtime.native import call, copies, penalty
from sureprox.problems import Problem
from sureprox.problems.forms import dense, has_dense, is_logistic, sparse
from sureprox.problems.problem import Certificate
from sureprox.problems.smooth import LinearModel
from sureprox.support.working_set import MOST, Found

WORKING_SET = ("working_set/working_set.h", "WorkingSet")
SPARSE = ("starts_t", "places_t", "values_t")
WIDEST, LARGEST = 2048, 2**24  # columns and entries of a shared A whose normal matrix is computed as a whole,
USUAL = 64  # if enough instances will read it: so many coordinates a working set has


def solved(problem: Problem, tol: float, floor: float, start: Vectors | None = None, chain: int = 1) -> Found:
    """`working_set.solved`. Neither the normal matrix of a shared A nor the threads change a bit of it.

    What is known is computed from A, with x as it is returned; NaN where there was no room for a working set.
    """
    f, batch, n = problem.f, problem.batch, problem.n
    assert isinstance(f, LinearModel)
    tensors = (_dense if has_dense(problem) else _sparse)(problem, batch // chain)
    x, out, gradient = (torch.empty(batch, size, dtype=torch.float64) for size in (n, 3, n))
    tensors |= {"x": x, "out": out, "gradient": gradient}
    tensors["start"] = None if start is None else start.double().contiguous()
    parts, steps = penalty(problem)
    numbers: dict[str, Any] = {
        "tol": tol,
        "floor": floor,
        "batch": batch,
        "m": f.m,
        "n": n,
        "copies": copies(problem) if has_dense(problem) else batch,
        "chain": chain,
        "most": MOST,
        "logistic": is_logistic(problem),
    }
    call(WORKING_SET, problem.dtype, tensors | parts, **numbers, **steps)
    objective, gap, kkt = out.unbind(1)
    return Found(x, Certificate(objective, gap, kkt, gradient))


def _dense(problem: Problem, chains: int) -> dict[str, Tensor | None]:
    A, b = dense(problem)
    m, n = A.shape[-2:]
    shared = A.ndim == 2
    many = shared and n <= WIDEST and m * n <= LARGEST and chains * USUAL**2 >= n**2
    whole = many and not is_logistic(problem)
    tensors: dict[str, Tensor | None] = {"A": A.contiguous(), "b": b.contiguous(), **dict.fromkeys(SPARSE)}
    tensors["squares"] = torch.empty(n, dtype=torch.float64) if whole or (shared and chains > 1) else None
    tensors["gram"] = torch.empty(n, n, dtype=torch.float64) if whole else None
    return tensors


def _sparse(problem: Problem, chains: int) -> dict[str, Tensor | None]:
    A, b = sparse(problem)
    squares = torch.empty(problem.n, dtype=torch.float64) if chains > 1 else None
    tensors: dict[str, Tensor | None] = {"A": None, "b": b.contiguous(), "gram": None, "squares": squares}
    return tensors | {name: getattr(A, name) for name in SPARSE}
