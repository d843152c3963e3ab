"""Parts: what is solved as a whole and written as one shard. A part knows where its problems are, and is sent around.

The label says which problems they are, so that the results of others are not taken for theirs.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sureprox.errors import InputError
from sureprox.problem_files import from_arrays, read_problem
from sureprox.problems import Problem

Loaded = tuple[Problem, Tensor | None]  # problems, and where they start: None for the origin


@dataclass(frozen=True)
class Reading:
    """How files and arrays are understood; see `read_problem`."""

    kind: str | None = None
    lam: Any = None
    lam_ratio: Any = None
    dtype: torch.dtype | None = None


class Part(Protocol):
    """Some problems: `load` them, where they are solved; `size` of them, if that is known before."""

    @property
    def label(self) -> str: ...

    @property
    def size(self) -> int | None: ...

    def load(self) -> Loaded: ...


@dataclass(frozen=True)
class Given:
    """Problems in memory."""

    problem: Problem
    x0: Tensor | None = None

    @property
    def label(self) -> str:
        digest = hashlib.sha256()
        for value in (*self.problem.tensors(), *(() if self.x0 is None else (self.x0,))):
            digest.update(f"{value.dtype} {tuple(value.shape)}".encode())
            digest.update(np.ascontiguousarray(value.detach().cpu().numpy()).data)
        return f"sha256 {digest.hexdigest()}"

    @property
    def size(self) -> int | None:
        return self.problem.batch

    def load(self) -> Loaded:
        return self.problem, self.x0


@dataclass(frozen=True)
class InFile:
    """The problems of one file."""

    path: Path
    reading: Reading

    @property
    def label(self) -> str:
        return f"{self.path.name}, {self.path.stat().st_size} bytes"

    @property
    def size(self) -> int | None:
        return None

    def load(self) -> Loaded:
        loaded = read_problem([self.path], **vars(self.reading))
        return loaded.problem, loaded.x0


@dataclass(frozen=True)
class Rows:
    """Problems start ... stop - 1 of two arrays on disk, A (m, n) or (B, m, n) and b or y (B, m): .npy or .zarr."""

    paths: tuple[Path, Path]
    start: int
    stop: int
    reading: Reading

    @property
    def label(self) -> str:
        return f"{self.paths[0].name} and {self.paths[1].name}, {self.start} to {self.stop}"

    @property
    def size(self) -> int | None:
        return self.stop - self.start

    def load(self) -> Loaded:
        A, b = (opened(path) for path in self.paths)
        mine = slice(self.start, self.stop)
        own = {name: _cut(getattr(self.reading, name), mine) for name in ("lam", "lam_ratio")}
        target = "y" if self.reading.kind == "logistic" else "b"
        arrays = {"A": A[mine] if A.ndim == 3 else A[:], target: b[mine]}
        loaded = from_arrays(arrays, source=self.label, **(vars(self.reading) | own))
        return loaded.problem, loaded.x0


@dataclass(frozen=True)
class Made:
    """What a function of no arguments returns, called where it is solved."""

    function: Callable[[], Any]
    reading: Reading

    @property
    def label(self) -> str:
        return f"made by {_described(self.function)}"

    @property
    def size(self) -> int | None:
        return None

    def load(self) -> Loaded:
        return part_of(self.function(), self.reading).load()


def part_of(item: Any, reading: Reading) -> Part:
    """One item of a source: a Problem, (kind, arrays), the path of a file, or a function that makes one of them."""
    if isinstance(item, Problem):
        return Given(item)
    if isinstance(item, str | Path):
        return InFile(Path(item), reading)
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping):
        loaded = from_arrays(item[1], source="an item of the source", **(vars(reading) | {"kind": item[0]}))
        return Given(loaded.problem, loaded.x0)
    if callable(item):
        return Made(item, reading)
    raise InputError(
        f"the source gave a {type(item).__name__}; each of its items must be a Problem, a pair (kind, arrays) such as "
        "('lasso', {'A': A, 'b': b, 'lam': lam}), the path of a file, or a function that makes one of these"
    )


def opened(path: Path) -> Any:
    """An array on disk that is read as it is sliced."""
    try:
        if path.suffix == ".zarr":
            import zarr

            return zarr.open_array(path, mode="r")
        return np.load(path, mmap_mode="r", allow_pickle=False)
    except ModuleNotFoundError:
        raise InputError(f"{path.name} needs zarr, which is not installed; run: pip install 'sureprox[zarr]'") from None
    except Exception as error:  # damaged headers make numpy and zarr raise almost anything
        what = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise InputError(f"{path} cannot be read as an array of numbers ({what})") from None


def _cut(values: Any, mine: slice) -> Any:
    """The values of these problems, where each has its own."""
    return values if values is None or np.ndim(values) == 0 else values[mine]


def _described(function: Any) -> str:
    if isinstance(function, partial):
        given = (*function.args, *(f"{name}={value}" for name, value in function.keywords.items()))
        plain = ", ".join(str(value) for value in given if isinstance(value, int | float | str | Path))
        return f"{_described(function.func)}({plain})"
    return str(getattr(function, "__qualname__", type(function).__name__))
