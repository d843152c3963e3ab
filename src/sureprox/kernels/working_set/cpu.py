"""`sureprox.support.working_set` by a compiled kernel, on a CPU (see runtime/native.py)."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Vectors
from sureprox.kernels.runtime.native import call, copies, penalty
from sureprox.problems import Problem
from sureprox.problems.forms import dense, has_dense, is_logistic, sparse
from sureprox.problems.smooth import LinearModel
from sureprox.support.working_set import MOST

WORKING_SET = ("working_set/working_set.h", "WorkingSet")
SPARSE = ("starts", "places", "starts_t", "places_t", "values_t")
WIDEST, LARGEST = 2048, 2**24  # columns and entries of a shared A whose normal matrix is computed as a whole,
USUAL = 64  # if enough instances will read it: so many coordinates a working set has


def solved(problem: Problem, tol: float, floor: float, start: Vectors | None = None, chain: int = 1) -> Vectors:
    """`working_set.solved`. Neither the normal matrix of a shared A nor the threads change a bit of it."""
    assert isinstance(problem.f, LinearModel)
    tensors = _dense(problem, chain) if has_dense(problem) else _sparse(problem)
    x = torch.empty(problem.batch, problem.n, dtype=torch.float64)
    tensors |= {"x": x, "start": None if start is None else start.double().contiguous()}
    parts, steps = penalty(problem)
    numbers: dict[str, Any] = {
        "tol": tol,
        "floor": floor,
        "batch": problem.batch,
        "m": problem.f.m,
        "n": problem.n,
        "copies": copies(problem) if has_dense(problem) else problem.batch,
        "chain": chain,
        "most": MOST,
        "logistic": is_logistic(problem),
    }
    call(WORKING_SET, problem.dtype, tensors | parts, **numbers, **steps)
    return x


def _dense(problem: Problem, chain: int) -> dict[str, Tensor | None]:
    A, b = dense(problem)
    m, n = A.shape[-2:]
    shared = A.ndim == 2
    many = shared and n <= WIDEST and m * n <= LARGEST and problem.batch // chain * USUAL**2 >= n**2
    tensors: dict[str, Tensor | None] = {"A": A.contiguous(), "b": b.contiguous(), **dict.fromkeys(SPARSE)}
    tensors["squares"] = torch.empty(n, dtype=torch.float64) if shared else None
    wanted = many and not is_logistic(problem)
    tensors["gram"] = torch.empty(n, n, dtype=torch.float64) if wanted else None
    return tensors


def _sparse(problem: Problem) -> dict[str, Tensor | None]:
    A, b = sparse(problem)
    squares = torch.empty(problem.n, dtype=torch.float64)
    tensors: dict[str, Tensor | None] = {"A": A.values, "b": b.contiguous(), "gram": None, "squares": squares}
    return tensors | {name: getattr(A, name) for name in SPARSE}
