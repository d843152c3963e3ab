"""The estimate of L on a CPU by a compiled kernel: A is read from afar once for all steps (see runtime/native.py)."""

import torch
from torch import Tensor

from sureprox.kernels.runtime.native import call
from sureprox.problems.spectrum import SAFETY, starting_block

LARGEST = ("lipschitz/spectrum.h", "Largest")
STEPS = 48  # at most as many as spectrum.h has room for
STEPS_AFAR, AFAR = 32, 1 << 20  # of an A with more entries than that, which is read from afar in every step


def largest_eigenvalue(stack: Tensor) -> Tensor:
    """1.01 times the largest eigenvalue of A'A, as far as Lanczos' method finds it.

    As with `spectrum.largest_eigenvalue`, never more than 1.01 times the true value but for rounding; with one vector
    and more steps.
    """
    stack = stack.contiguous()
    batch, m, n = stack.shape
    vector = starting_block(n, 1, torch.float64, stack.device)[:, 0]
    start = (vector / torch.linalg.vector_norm(vector)).to(stack.dtype)
    found = stack.new_empty(batch)
    tensors: dict[str, Tensor | None] = {"A": stack, "start": start, "out": found}
    call(LARGEST, stack.dtype, tensors, batch=batch, m=m, n=n, steps=steps(m, n))
    return SAFETY * found


def steps(m: int, n: int) -> int:
    """How many are taken. One more than the rank of A would do but for rounding."""
    return min(STEPS if m * n <= AFAR else STEPS_AFAR, 2 * min(m, n))
