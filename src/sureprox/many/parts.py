"""Parts: what is solved as a whole and written as one shard. A part knows where its problems are, and is sent around.

The label says which problems they are, so that the results of others are not taken for theirs: it begins with a digest
of their numbers, or of the bytes of their file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.many.labels import digest, file_digest, function_label, problem_digest
from sureprox.problems import Problem
from sureprox.sources.problem_files import ZarrArray, from_arrays, map_npy, read_problem
from sureprox.sources.problem_files.limits import Array

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
        return problem_digest(self.problem, self.x0)

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
        return f"{file_digest(self.path)}, {self.path.name}"

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
    shared: str = ""  # digest of an A (m, n), which every part has

    @property
    def label(self) -> str:
        A, b = (opened(path) for path in self.paths)
        mine = slice(self.start, self.stop)
        return f"{digest(*(() if self.shared else (A[mine],)), b[mine], about=self.shared)}, {self._name}"

    @property
    def _name(self) -> str:
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
        loaded = from_arrays(arrays, source=self._name, **(vars(self.reading) | own))
        return loaded.problem, loaded.x0


@dataclass(frozen=True)
class Made:
    """What a function of no arguments returns, called where it is solved."""

    function: Callable[[], Any]
    reading: Reading

    @property
    def label(self) -> str:
        return f"made by {function_label(self.function)}"

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


def opened(path: Path) -> Array | ZarrArray:
    """An array on disk that is read as it is sliced."""
    try:
        return ZarrArray(path) if path.suffix == ".zarr" else map_npy(path)
    except InputError:
        raise
    except ModuleNotFoundError:
        raise InputError(f"{path.name} needs zarr, which is not installed; run: pip install 'sureprox[zarr]'") from None
    except Exception as error:  # damaged headers make numpy and zarr raise almost anything
        what = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise InputError(f"{path} cannot be read as an array of numbers ({what})") from None


def _cut(values: Any, mine: slice) -> Any:
    """The values of these problems, where each has its own."""
    return values if values is None or np.ndim(values) == 0 else values[mine]
