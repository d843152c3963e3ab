"""Which solves are so small that PyTorch need not share their operations among threads."""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch

from sureprox.base.operations import Operations
from sureprox.kernels.runtime.threads import one_thread, remember
from sureprox.optimizers import Optimizer
from sureprox.problems.forms import Form, Loss

SMALL = 1 << 17  # numbers that an operation reads, below which a second thread saves nothing: some ten microseconds
GATES = 128  # of a network, for each coordinate


def few_threads(
    form: Form, batch: int, operations: Operations, optimizer: Optimizer[Any], entries: int | None = None
) -> AbstractContextManager[None]:
    """Within this, operations of PyTorch use the calling thread alone if all of a solve are small.

    `entries`: of a sparse A, if it is one.
    """
    remember()
    small = form.device.type == "cpu" and batch * _numbers(form, operations, optimizer, entries) <= SMALL
    return one_thread() if small else nullcontext()


def _numbers(form: Form, operations: Operations, optimizer: Optimizer[Any], entries: int | None) -> float:
    """Numbers that one operation of PyTorch reads for an instance, at most; infinity where that is not known."""
    parts = (optimizer, getattr(optimizer, "optimizer", optimizer))
    ours = all(type(part).__module__.startswith("sureprox.") for part in parts)
    if not ours or (form.loss is Loss.OWN and entries is None):
        return float("inf")
    # products with A are those of kernels where all of them are: of steps, certificates and, unless wide, of the polish
    products = form.m + form.n if operations.points is not None else form.m * form.n
    products = products if entries is None else max(entries, form.n)
    learned = operations.move is None and any(isinstance(part, torch.nn.Module) for part in parts)
    return max(products, GATES * form.n if learned else 0)
