"""From what the user has to parts: numbered pieces that are solved one after the other, or side by side."""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.base.words import no_file
from sureprox.many.labels import digest, file_digest
from sureprox.many.parts import PER_PROBLEM, Given, InFile, Part, Rows, opened, part_of
from sureprox.problems import Problem
from sureprox.sources.problem_files import Asked, ZarrArray, is_sparse_file, read_sparse

SHARD = 8192  # most problems of one shard where the source can be cut anywhere
ARRAYS = (".npy", ".zarr")
FILES = (".npz", ".mat", ".csv")
Fit = Callable[[Part], int]  # how many problems like those of this part are solved at a time


@dataclass(frozen=True)
class Source:
    """`parts()`, each time from the beginning if the source allows it; how many there are and problems, if known."""

    parts: Callable[[], Iterator[Part]]
    shards: int | None = None
    problems: int | None = None


def source_of(given: Any, asked: Asked, fit: Fit) -> Source:
    """A Problem, a directory or list of files, two .npy or .zarr arrays, or an iterable of items (`part_of`)."""
    if isinstance(given, Problem):
        return _cut_problem(given, fit)
    if isinstance(given, str | Path):
        return _directory(Path(given), asked)
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        paths = [Path(item) for item in given]
        if len(paths) == 2 and paths[1].suffix in ARRAYS and paths[0].suffix in (*ARRAYS, ".npz"):
            return _cut_arrays((paths[0], paths[1]), asked, fit)
        return _files(paths, asked)
    if isinstance(given, Iterable) and not isinstance(given, torch.Tensor | dict | bytes):
        count = len(given) if isinstance(given, Sized) else None
        return Source(lambda: (part_of(item, asked) for item in given), count)
    raise InputError(
        f"source is a {type(given).__name__}; pass a Problem, an iterable of Problems or of (kind, arrays), "
        "a directory or list of problem files, or two .npy files"
    )


def _directory(path: Path, asked: Asked) -> Source:
    if not path.is_dir():
        return _files([path], asked)
    found = sorted(file for file in path.iterdir() if file.suffix in FILES and not file.name.startswith("."))
    if not found:
        raise InputError(f"{path} holds no problem files; it needs {', '.join(FILES)}")
    return _files(found, asked)


def _files(paths: list[Path], asked: Asked) -> Source:
    for path in paths:
        if path.suffix not in FILES:
            raise InputError(f"{path.name} is not {', '.join(FILES)}; give such files, or two .npy: A.npy b.npy")
        if not path.is_file():
            raise InputError(f"{no_file(path)}; give problem files")
    return Source(lambda: (InFile(path, asked) for path in paths), len(paths))


def _cut_problem(problem: Problem, fit: Fit) -> Source:
    if not problem.selectable:
        return Source(lambda: iter([Given(problem)]), 1, problem.batch)
    size = min(fit(Given(problem)), SHARD)

    def parts() -> Iterator[Part]:
        for start in range(0, problem.batch, size):
            index = torch.arange(start, min(start + size, problem.batch), device=problem.device)
            yield Given(problem.select(index))

    return Source(parts, -(-problem.batch // size), problem.batch)


def _cut_arrays(paths: tuple[Path, Path], asked: Asked, fit: Fit) -> Source:
    b = opened(paths[1])
    shape, shared = _matrices(paths[0])
    if (
        len(shape) not in (2, 3)
        or b.ndim != 2
        or b.shape[1] != shape[-2]
        or (len(shape) == 3 and shape[0] != b.shape[0])
    ):
        raise InputError(
            f"{paths[0].name} has shape {shape} and {paths[1].name} {b.shape}; give A (m, n) or (B, m, n), b (B, m)"
        )
    if isinstance(b, ZarrArray):
        b.check()
    count = b.shape[0]
    for name in PER_PROBLEM:
        values = getattr(asked, name)
        if values is not None and hasattr(values, "__len__") and len(values) != count:
            raise InputError(f"there are {len(values):,} values of {name} for {count:,} problems; give as many")
    size = min(fit(Rows(paths, 0, 1, asked)), SHARD)
    return Source(
        lambda: (Rows(paths, start, min(start + size, count), asked, shared) for start in range(0, count, size)),
        -(-count // size),
        count,
    )


def _matrices(path: Path) -> tuple[tuple[int, ...], str]:
    """The shape of A on disk, and the digest of one that all problems share."""
    if path.suffix == ".npz":
        if not path.is_file():
            raise InputError(f"{no_file(path)}; give A and b")
        if not is_sparse_file(path):
            raise InputError(f"{path.name} beside an array must be a sparse A, made by scipy.sparse.save_npz")
        return read_sparse(path).shape, file_digest(path)
    A = opened(path)
    if isinstance(A, ZarrArray):
        A.check()
    return tuple(A.shape), digest(A[:]) if A.ndim == 2 else ""
