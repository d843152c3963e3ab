"""How many threads work on a solve.

The threads of PyTorch (OpenMP, MKL) wait for each other by spinning: beside busy processes every operation that they
share takes milliseconds. So small ones are left to the calling thread. The kernels have threads of their own, which
sleep (native/team.h), in the number that the user gave PyTorch.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.operations import Operations
from sureprox.optimizers import Optimizer
from sureprox.problems.forms import Form, Loss

SMALL = 1 << 17  # numbers that an operation reads, below which a second thread saves nothing: some ten microseconds
GATES = 128  # of a network, for each coordinate

_given: ContextVar[int | None] = ContextVar("given", default=None)
_used = 1  # threads, at most, of a solve in this process


def _forked() -> None:
    """A forked process has none of its parent's threads, but OpenMP would wait for them."""
    if _used > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def available() -> int:
    """Threads that the user has given PyTorch, also where its operations are held to one."""
    return _given.get() or torch.get_num_threads()


@contextmanager
def few_threads(form: Form, batch: int, operations: Operations, optimizer: Optimizer[Any]) -> Iterator[None]:
    """Within this, operations of PyTorch use the calling thread alone if they are small."""
    global _used
    _used = max(_used, torch.get_num_threads())
    if form.device.type == "cpu" and batch * _numbers(form, operations, optimizer) <= SMALL:
        with _one_thread():
            yield
    else:
        yield


def _numbers(form: Form, operations: Operations, optimizer: Optimizer[Any]) -> float:
    """That one operation of PyTorch reads at most for an instance; infinity where that is not known."""
    parts = (optimizer, getattr(optimizer, "optimizer", optimizer))
    ours = all(type(part).__module__.startswith("sureprox.") for part in parts)
    if not ours or form.loss is Loss.OWN:
        return float("inf")
    products = form.m + form.n if operations.gradient is not None else form.m * form.n  # else the kernels have them
    learned = operations.move is None and any(isinstance(part, torch.nn.Module) for part in parts)
    return max(products, GATES * form.n if learned else 0)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Set for this thread alone; `torch.set_num_threads` would set it for threads that are yet to begin too."""
    count, functions = torch.get_num_threads(), _functions()
    if functions is None or count == 1:
        yield
        return
    set_openmp, set_mkl = functions
    set_openmp(1)
    before, token = set_mkl(1), _given.set(count)
    try:
        yield
    finally:
        _given.reset(token)
        if torch.get_num_threads() == 1:  # else somebody has chosen another number meanwhile
            set_openmp(count)
            set_mkl(before)


@cache
def _functions() -> tuple[Callable[[int], Any], Callable[[int], int]] | None:
    """What sets the threads of OpenMP and of MKL for the calling thread, in the copies that PyTorch uses."""
    name = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}.get(sys.platform)
    try:
        loaded = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / str(name)), os.RTLD_NOW | os.RTLD_NOLOAD)
        return loaded.omp_set_num_threads, getattr(loaded, "MKL_Set_Num_Threads_Local", lambda count: 0)
    except (OSError, AttributeError):  # PyTorch built otherwise: its threads stay as they are
        return None
