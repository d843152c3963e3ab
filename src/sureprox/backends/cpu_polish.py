"""`sureprox.polish` for LASSO problems by a compiled kernel, on a CPU (see cpu.py)."""

import torch
from torch import Tensor

from sureprox.backends.cpu import LARGEST_ALONE, SUFFIX, call, suits
from sureprox.polish import ROUNDS, Attempt

POLISH = ("A lam rows x g z weights", "batch m n rounds threads")


def points(A: Tensor, lam: Tensor, given: Attempt) -> Tensor | None:
    """`Attempt.points`, A (B, m, n), lam () or (B,); None where the kernel does not apply.

    Where a coordinate should have joined that was no candidate, or `ROUNDS` were not enough, what a second call from
    there would find.
    """
    count, m, n = A.shape
    batch = len(given.rows)
    if not A.is_contiguous() or not suits(A, count, n) or (batch < torch.get_num_threads() and m * n > LARGEST_ALONE):
        return None
    x, z = given.x.double().contiguous(), torch.empty_like(given.g, memory_format=torch.contiguous_format)
    tensors: dict[str, Tensor | None] = {"A": A, "lam": lam.expand(count).contiguous(), "rows": given.rows.contiguous()}
    tensors |= {"x": x, "g": given.g.contiguous(), "z": z}
    call(f"polish_{SUFFIX[A.dtype]}", POLISH, tensors, (), batch=batch, m=m, n=n, rounds=ROUNDS)
    return z
