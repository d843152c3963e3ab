"""A copy of a problem that recorded steps read, so that they need not be recorded anew for the next problem like it."""

import torch

from sureprox.problems import L1, LeastSquares, Problem
from sureprox.problems.problem import lasso_parts

SHARE = 1 / 100  # of a GPU's memory that such a copy may take: it stays when the solve is over


def own_copy(problem: Problem) -> Problem | None:
    """The problem in memory of its own, for LASSO problems with an A and a lam for each instance; None if too large."""
    parts = lasso_parts(problem)
    if parts is None:
        return None
    f, r = parts
    if f.A.ndim < 3 or r.lam.ndim == 0 or problem.shift is not None or problem.device.type != "cuda":
        return None
    memory = torch.cuda.get_device_properties(problem.device).total_memory
    if f.A.numel() * f.A.element_size() > SHARE * memory:
        return None
    A, b, lam = (value.detach().clone(memory_format=torch.contiguous_format) for value in (f.A, f.b, r.lam))
    return Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=lam))


def taken_over(mine: Problem, problem: Problem) -> bool:
    """Whether `problem` has the form of `mine`, a copy of another one; its numbers are then in that memory."""
    if lasso_parts(problem) is None or problem.shift is not None:
        return False
    pairs = list(zip(mine.tensors(), problem.tensors(), strict=True))
    if any((a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device) for a, b in pairs):
        return False
    for to, value in pairs:
        to.copy_(value.detach())
    return True
