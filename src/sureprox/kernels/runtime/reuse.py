"""A copy of a problem that recorded steps read, so that they need not be recorded anew for the next problem like it."""

import torch

from sureprox.problems import Problem
from sureprox.problems.forms import form_of

SHARE = 1 / 100  # of a GPU's memory that such a copy may take: it stays when the solve is over


def own_copy(problem: Problem) -> Problem | None:
    """The problem in memory of its own, where each instance has its own numbers; None if that is too much."""
    if problem.shift is not None or any(
        len(value) != problem.batch for value in map(torch.atleast_1d, problem.tensors())
    ):
        return None
    size = sum(value.numel() * value.element_size() for value in problem.tensors())
    if size > SHARE * torch.cuda.get_device_properties(problem.device).total_memory:
        return None
    return problem.select(torch.arange(problem.batch, device=problem.device))


def taken_over(mine: Problem, problem: Problem) -> bool:
    """Whether `problem` has the form of `mine`, a copy of another one; its numbers are then in that memory."""
    if form_of(problem) != form_of(mine):
        return False
    pairs = list(zip(mine.tensors(), problem.tensors(), strict=True))
    if any((a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device) for a, b in pairs):
        return False
    for to, value in pairs:
        to.copy_(value.detach())
    return True
