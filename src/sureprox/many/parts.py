"""Parts: what is solved as a whole and written as one shard. A part knows where its problems are, and is sent around.

The label says which problems they are, so that the results of others are not taken for theirs: it begins with a digest
of their numbers, or of the bytes of their file.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.words import brief
from sureprox.many.labels import digest, file_digest, function_label, problem_digest
from sureprox.problems import Problem
from sureprox.sources.problem_files import (
    Asked,
    LossName,
    ZarrArray,
    from_arrays,
    map_npy,
    read_problem,
    read_sparse,
)
from sureprox.sources.problem_files.asked import TARGETS
from sureprox.sources.problem_files.limits import Array

PER_PROBLEM = ("lam", "lam_ratio", "l1", "l2")  # what may have a value for each problem
Loaded = tuple[Problem, Tensor | None]  # problems, and where they start: None for the origin


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
    asked: Asked

    @property
    def label(self) -> str:
        return f"{file_digest(self.path)}, {self.path.name}"

    @property
    def size(self) -> int | None:
        return None

    def load(self) -> Loaded:
        loaded = read_problem([self.path], **vars(self.asked))
        return loaded.problem, loaded.x0


@dataclass(frozen=True)
class Rows:
    """Problems start ... stop - 1 of two arrays on disk, A (m, n) or (B, m, n) and b or y (B, m): .npy or .zarr.

    Or of a sparse A (m, n) that all share, a `.npz`.
    """

    paths: tuple[Path, Path]
    start: int
    stop: int
    asked: Asked
    shared: str = ""  # digest of an A (m, n), which every part has

    @property
    def label(self) -> str:
        mine = slice(self.start, self.stop)
        own = () if self.shared else (opened(self.paths[0])[mine],)
        return f"{digest(*own, opened(self.paths[1])[mine], about=self.shared)}, {self._name}"

    @property
    def _name(self) -> str:
        return f"{self.paths[0].name} and {self.paths[1].name}, {self.start} to {self.stop}"

    @property
    def size(self) -> int | None:
        return self.stop - self.start

    def load(self) -> Loaded:
        mine = slice(self.start, self.stop)
        own = {name: _cut(getattr(self.asked, name), mine) for name in PER_PROBLEM}
        target = TARGETS[self.asked.named_loss or LossName.SQUARES][0]
        arrays = {"A": self._matrices(mine), target: opened(self.paths[1])[mine]}
        loaded = from_arrays(arrays, source=self._name, **(vars(self.asked) | own))
        return loaded.problem, loaded.x0

    def _matrices(self, mine: slice) -> Any:
        if self.paths[0].suffix == ".npz":
            return read_sparse(self.paths[0])
        A = opened(self.paths[0])
        return A[mine] if A.ndim == 3 else A[:]


@dataclass(frozen=True)
class Made:
    """What a function of no arguments returns, called where it is solved."""

    function: Callable[[], Any]
    asked: Asked

    @property
    def label(self) -> str:
        return f"made by {function_label(self.function)}"

    @property
    def size(self) -> int | None:
        return None

    def load(self) -> Loaded:
        return part_of(self.function(), self.asked).load()


def part_of(item: Any, asked: Asked) -> Part:
    """One item of a source: a Problem, (kind, arrays), the path of a file, or a function that makes one of them."""
    if isinstance(item, Problem):
        return Given(item)
    if isinstance(item, str | Path):
        return InFile(Path(item), asked)
    if isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping):
        loaded = from_arrays(item[1], source="an item of the source", **(vars(asked) | {"kind": item[0]}))
        return Given(loaded.problem, loaded.x0)
    if callable(item):
        return Made(item, asked)
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
        raise InputError(f"{path.name} needs zarr, which is not installed; run: pip install zarr numcodecs") from None
    except Exception as error:  # damaged headers make numpy and zarr raise almost anything
        raise InputError(f"{path} cannot be read as an array of numbers ({brief(error)})") from None


def _cut(values: Any, mine: slice) -> Any:
    """The values of these problems, where each has its own."""
    return values if values is None or np.ndim(values) == 0 else values[mine]
