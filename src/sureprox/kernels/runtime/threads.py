"""How many threads work on a solve.

The threads of PyTorch (OpenMP, MKL) wait for each other by spinning: beside busy processes every operation that they
share takes milliseconds. So small ones are left to the calling thread (sharing.py). The kernels have threads of their
own, which sleep (team.h), in the number that the user gave PyTorch.
"""

import ctypes
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.machine import quota

_given: ContextVar[int | None] = ContextVar("given", default=None)
_used = 1  # threads, at most, of a solve in this process


def _forked() -> None:
    """A forked process has none of its parent's threads, but OpenMP would wait for them."""
    if _used > 1:
        torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def remember() -> None:
    """Note how many threads PyTorch may use in this process."""
    global _used
    _used = max(_used, torch.get_num_threads())


def available() -> int:
    """Threads that the user has given PyTorch, also where its operations are held to one, up to what a container may
    use: PyTorch counts the cores of the machine."""
    return min(_given.get() or torch.get_num_threads(), _most())


@cache
def _most() -> int:
    return quota() or sys.maxsize


@contextmanager
def one_thread() -> Iterator[None]:
    """Within this, and within another one, operations of PyTorch use the calling thread alone."""
    token = _given.set(_given.get() or torch.get_num_threads())
    try:
        with _of_pytorch(1):
            yield
    finally:
        _given.reset(token)


def all_threads() -> AbstractContextManager[None]:
    """Within this, operations of PyTorch use all threads again that the user has given it."""
    return _of_pytorch(available())


@contextmanager
def _of_pytorch(count: int) -> Iterator[None]:
    """Set for this thread alone; `torch.set_num_threads` would set it for threads that are yet to begin too."""
    before, functions = torch.get_num_threads(), _functions()
    if functions is None or count == before:
        yield
        return
    set_openmp, set_mkl = functions
    set_openmp(count)
    mkl_before = set_mkl(count)
    try:
        yield
    finally:
        if torch.get_num_threads() == count:  # else somebody has chosen another number meanwhile
            set_openmp(before)
            set_mkl(mkl_before)


@cache
def _functions() -> tuple[Callable[[int], Any], Callable[[int], int]] | None:
    """What sets the threads of OpenMP and of MKL for the calling thread, in the copies that PyTorch uses."""
    name = {"linux": "libtorch_cpu.so", "darwin": "libtorch_cpu.dylib"}.get(sys.platform)
    try:
        loaded = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / str(name)), os.RTLD_NOW | os.RTLD_NOLOAD)
        return loaded.omp_set_num_threads, getattr(loaded, "MKL_Set_Num_Threads_Local", lambda count: 0)
    except (OSError, AttributeError):  # PyTorch built otherwise: its threads stay as they are
        return None
