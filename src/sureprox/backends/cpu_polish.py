"""`sureprox.polish` for LASSO problems by a compiled kernel, on a CPU (see cpu.py)."""

import torch
from torch import Tensor

from sureprox.backends.cpu import SUFFIX, call, suits_matrices
from sureprox.backends.threads import all_threads
from sureprox.polish import ROUNDS, Attempt

WIDEST = 256  # candidates; with more, the matrix products of PyTorch are faster
MOST_ROWS = 2**14  # of which each thread holds the candidates in float64
POLISH = ("A lam rows x g z weights", "batch m n rounds threads")


def points(A: Tensor, lam: Tensor, given: Attempt) -> Tensor | None:
    """`Attempt.points`, A (B, m, n), lam () or (B,); None where the kernel does not apply.

    Where a coordinate should have joined that was no candidate, or `ROUNDS` were not enough, what a second call from
    there would find.
    """
    if A.shape[1] > MOST_ROWS or not suits_matrices(A, len(given.rows)):
        return None
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
    call(f"polish_{SUFFIX[A.dtype]}", POLISH, tensors, (), batch=len(rows), m=m, n=n, rounds=ROUNDS)
    return z
