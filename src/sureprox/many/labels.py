"""Digests by which the problems of a part are known again: BLAKE2b, about 1 GB/s on one core.

A part is read once to be solved and once to be labelled; a run that goes on reads what is done once, to compare.
"""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Problem
from sureprox.problems.batch import BatchData
from sureprox.problems.operators import Operator

BYTES = 16  # of a digest
PLAIN = ("A", "b", "y", "lam")  # what every LASSO or logistic problem has


def digest(*arrays: Any, about: str = "") -> str:
    """Of the numbers, dtypes and shapes of arrays or tensors, and of what else is said `about` them."""
    found = hashlib.blake2b(about.encode(), digest_size=BYTES)
    for array in arrays:
        value = array.detach().cpu().numpy() if isinstance(array, Tensor) else np.asarray(array)
        found.update(f"{value.dtype.str} {value.shape}".encode())
        found.update(np.ascontiguousarray(value).data)
    return f"blake2b {found.hexdigest()}"


def file_digest(path: Path) -> str:
    """Of all bytes of a file, read piece by piece."""
    try:
        with path.open("rb") as file:
            return f"blake2b {hashlib.file_digest(file, _new).hexdigest()}"
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}; give problem files") from None


def _new() -> Any:
    return hashlib.blake2b(digest_size=BYTES)


def problem_digest(problem: Problem, x0: Tensor | None = None) -> str:
    """Of what f and r are, of their numbers, and of the start."""
    kinds = [_kind(part) for part in (problem.f, problem.r)]
    about = f"{kinds}, shifted {problem.shift is not None}, started {x0 is not None}"
    return digest(*problem.tensors(), *(() if x0 is None else (x0,)), about=about)


def function_label(function: Any) -> str:
    """Its name and those of its arguments that are numbers, text or arrays; what it reads is not looked into."""
    if isinstance(function, partial):
        named = (f"{name}={_argument(value)}" for name, value in function.keywords.items() if _argument(value))
        given = [text for text in map(_argument, function.args) if text]
        return f"{function_label(function.func)}({', '.join([*given, *named])})"
    return str(getattr(function, "__qualname__", type(function).__name__))


def _argument(value: Any) -> str:
    if isinstance(value, np.ndarray | Tensor):
        return digest(value)
    return str(value) if isinstance(value, int | float | str | Path) else ""


def _kind(part: BatchData) -> str:
    """Its class, and its attributes that are numbers, text, tuples or operators, by name; caches are not."""
    kept = {name: str(value) for name, value in vars(part).items() if isinstance(value, int | float | str)}
    kept |= {name: str(tuple(map(_named, value))) for name, value in vars(part).items() if isinstance(value, tuple)}
    kept |= {name: _kind(value) for name, value in vars(part).items() if isinstance(value, Operator)}
    more = [name for name, value in vars(part).items() if isinstance(value, Tensor) and name not in PLAIN]
    if more:  # of these any may be missing: the numbers alone do not say whether they are l1 or l2
        kept["numbers"] = " ".join(more)
    listed = ", ".join(f"{name}={value}" for name, value in sorted(kept.items()) if name[0] != "_")
    return f"{type(part).__qualname__}({listed})"


def _named(value: Any) -> Any:
    return function_label(value) if callable(value) else value
