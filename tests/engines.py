"""Kernels and plain steps side by side, for tests that compare them."""

from typing import Any

import torch

from sureprox.base.operations import Operations
from sureprox.optimizers import FISTA, Optimizer
from sureprox.problems import Problem
from sureprox.solve.plan import plan


def kernels(problem: Problem, optimizer: Optimizer[Any] | None = None, certify: bool | str = False) -> Operations:
    """What a plan with kernels computes for this problem."""
    return plan(problem, optimizer or FISTA(), certify, "kernels").operations


@torch.no_grad()
def walked(optimizer: Optimizer[Any], problem: Problem, state: Any, steps: int, engine: str = "kernels") -> Any:
    """The state so many steps later."""
    stepping = plan(problem, optimizer, engine=engine).once()
    for _ in range(steps):
        state = stepping.step(problem, state)
    return state
