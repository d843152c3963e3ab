"""`sureprox.support.newton` for LASSO problems by a compiled kernel, on a CPU (see runtime/native.py)."""

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call
from sureprox.kernels.runtime.threads import all_threads
from sureprox.problems.forms import dense, lam_of
from sureprox.support.newton import ROUNDS, Attempt

WIDEST = 256  # candidates; with more, the matrix products of PyTorch are faster
MOST_ROWS = 2**14  # of which each thread holds the candidates in float64
POLISH = ("support/polish.h", "Polish")


def points(given: Attempt) -> Tensor:
    """`Attempt.points` of LASSO problems with one A per instance.

    Where a coordinate should have joined that was no candidate, or `ROUNDS` were not enough, what a second call from
    there would find.
    """
    A, lam = dense(given.problem)[0], lam_of(given.problem)
    narrow = given.widths(lam) <= WIDEST
    if bool(narrow.all()):
        return _narrow(A, lam, given)
    with all_threads():
        return given.divided(narrow, lambda few: _narrow(A, lam, few))


def _narrow(A: Tensor, lam: Tensor, given: Attempt) -> Tensor:
    count, m, n = A.shape
    x, g, rows = (value.contiguous() for value in (given.x.double(), given.g.double(), given.rows))
    z = torch.empty_like(x)
    tensors: dict[str, Tensor | None] = {"A": A, "lam": lam.expand(count).contiguous(), "rows": rows}
    tensors |= {"x": x, "g": g, "z": z}
    call(POLISH, A.dtype, tensors, batch=len(rows), m=m, n=n, rounds=ROUNDS)
    return z
