"""What `solve` and its relatives refuse before they begin, each in one line."""

from typing import Any

import numpy as np
import torch

from sureprox.base.defaults import MAX_ITER
from sureprox.base.errors import InputError
from sureprox.optimizers import Optimizer
from sureprox.problems import Problem
from sureprox.solve.solution import RECORDS

LARGEST = 2**63 - 1  # iterations that can be counted
IMPLICIT = "implicit"  # a value of `differentiable`


def check_options(
    optimizer: Any,
    max_iter: int = MAX_ITER,
    tol: float = 1.0,
    record: tuple[str, ...] = (),
    check_every: int = 10,
    floor: float | None = None,
    *,
    called: str = "max_iter",
) -> None:
    """Refuse what `solve` cannot use, whatever the problem; `called`: the caller's name for `max_iter`."""
    if not isinstance(optimizer, Optimizer | str | None):
        what = f"the class {optimizer.__name__}" if isinstance(optimizer, type) else f"a {type(optimizer).__name__}"
        raise InputError(f"optimizer is {what}; pass one of sureprox.optimizers, e.g. FISTA(), or a pretrained name")
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0:
        raise InputError(f"{called} is {max_iter!r}; it must be a whole number >= 0")
    if max_iter > LARGEST:
        raise InputError(f"{called} is {max_iter}; it must be at most {LARGEST}, the largest number of 64 bits")
    if not _is_number(tol) or not 0 < tol < float("inf"):
        raise InputError(f"tol is {tol!r}; it must be a number > 0")
    if floor is not None and (not _is_number(floor) or not 0 <= floor < float("inf")):
        raise InputError(f"floor is {floor!r}; it must be a number >= 0, or None")
    if isinstance(check_every, bool) or not isinstance(check_every, int | np.integer) or check_every < 1:
        raise InputError(f"check_every is {check_every!r}; it must be a whole number >= 1")
    if not isinstance(record, tuple | list):
        raise InputError(f"record is {record!r}; pass a tuple of names, for example ('objective',)")
    for name in record:
        if name not in RECORDS:
            raise InputError(f"record has {name!r}; what can be recorded is {', '.join(RECORDS)}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.floating) and not isinstance(value, bool)


def require_problem(problem: Any) -> None:
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; make one with sureprox.lasso, logistic or Problem")


def check_calls(generator: Any = None, **functions: Any) -> None:
    if not isinstance(generator, torch.Generator | None):
        raise InputError(f"generator is a {type(generator).__name__}; pass a torch.Generator, or None")
    for name, function in functions.items():
        if function is not None and not callable(function):
            raise InputError(f"{name} is a {type(function).__name__}; pass a function of one argument, or None")


def check_differentiable(value: Any) -> None:
    if not isinstance(value, bool | None) and not (isinstance(value, str) and value == IMPLICIT):
        raise InputError(f"differentiable is {value!r}; pass True, False, None or 'implicit'")


def check_switches(**switches: Any) -> None:
    for name, value in switches.items():
        if not isinstance(value, bool | None):
            raise InputError(f"{name} is {value!r}; pass True, False or None")
