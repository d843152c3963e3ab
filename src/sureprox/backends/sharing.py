"""Which solves are so small that PyTorch need not share their operations among threads."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from sureprox.backends.cpu import SMALLEST, gradient_suits
from sureprox.backends.cpu_polish import MOST_ROWS
from sureprox.backends.library import library
from sureprox.backends.threads import one_thread, remember
from sureprox.fast import has_offers
from sureprox.optimizers import Optimizer
from sureprox.problems import L1, LeastSquares, Logistic, Problem

SMALL = 1 << 17  # numbers that an operation reads, below which a second thread saves nothing: some ten microseconds
GATES = 128  # of a network, for each coordinate


def few_threads(problem: Problem, optimizer: Optimizer[Any]) -> AbstractContextManager[None]:
    """Within this, operations of PyTorch use the calling thread alone if all of a solve are small."""
    remember()
    small = problem.device.type == "cpu" and _numbers(problem, optimizer) <= SMALL
    return one_thread() if small else nullcontext()


def _numbers(problem: Problem, optimizer: Optimizer[Any]) -> float:
    """That one operation of PyTorch reads at most in a solve; infinity where that is not known."""
    f, parts = problem.f, (optimizer, getattr(optimizer, "optimizer", optimizer))
    ours = all(type(part).__module__.startswith("sureprox.optimizers.") for part in parts)
    if not ours or type(problem) is not Problem or not (type(f) is LeastSquares or type(f) is Logistic):
        return float("inf")
    batch, m, n = problem.batch, f.m, problem.n
    if has_offers(type(optimizer)) and library(build=False) is not None:
        return batch * (m + n if _products_are_kernels(problem, m) else m * n)
    learned = any(isinstance(part, torch.nn.Module) for part in parts)
    return batch * n * max(m, GATES if learned else 0)


def _products_are_kernels(problem: Problem, m: int) -> bool:
    """Those with A: of steps, certificates and, unless it is very wide, of the polish."""
    plain = type(problem.r) is L1 and problem.shift is None and problem.n >= SMALLEST
    return plain and gradient_suits(problem) and m <= MOST_ROWS
