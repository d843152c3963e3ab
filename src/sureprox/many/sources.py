"""From what the user has to parts: numbered pieces that are solved one after the other, or side by side."""

from collections.abc import Callable, Iterable, Iterator, Sized
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.many.labels import digest
from sureprox.many.parts import Given, InFile, Part, Reading, Rows, opened, part_of
from sureprox.problems import Problem
from sureprox.sources.problem_files import ZarrArray

SHARD = 8192  # most problems of one shard where the source can be cut anywhere
FILES = (".npz", ".mat", ".csv")
Fit = Callable[[Part], int]  # how many problems like those of this part are solved at a time


@dataclass(frozen=True)
class Source:
    """`parts()`, each time from the beginning if the source allows it; how many there are and problems, if known."""

    parts: Callable[[], Iterator[Part]]
    shards: int | None = None
    problems: int | None = None


def source_of(given: Any, reading: Reading, fit: Fit) -> Source:
    """A Problem, a directory or list of files, two .npy or .zarr arrays, or an iterable of items (`part_of`)."""
    if isinstance(given, Problem):
        return _cut_problem(given, fit)
    if isinstance(given, str | Path):
        return _directory(Path(given), reading)
    if isinstance(given, list | tuple) and given and all(isinstance(item, str | Path) for item in given):
        paths = [Path(item) for item in given]
        if len(paths) == 2 and all(path.suffix in (".npy", ".zarr") for path in paths):
            return _cut_arrays((paths[0], paths[1]), reading, fit)
        return _files(paths, reading)
    if isinstance(given, Iterable) and not isinstance(given, torch.Tensor | dict | bytes):
        count = len(given) if isinstance(given, Sized) else None
        return Source(lambda: (part_of(item, reading) for item in given), count)
    raise InputError(
        f"source is a {type(given).__name__}; pass a Problem, an iterable of Problems or of (kind, arrays), "
        "a directory or list of problem files, or two .npy files"
    )


def _directory(path: Path, reading: Reading) -> Source:
    if not path.is_dir():
        return _files([path], reading)
    found = sorted(file for file in path.iterdir() if file.suffix in FILES and not file.name.startswith("."))
    if not found:
        raise InputError(f"{path} holds no problem files; it needs {', '.join(FILES)}")
    return _files(found, reading)


def _files(paths: list[Path], reading: Reading) -> Source:
    for path in paths:
        if path.suffix not in FILES:
            raise InputError(f"{path.name} is not {', '.join(FILES)}; give such files, or two .npy: A.npy b.npy")
        if not path.is_file():
            raise InputError(f"{path} {'is a directory' if path.is_dir() else 'does not exist'}; give problem files")
    return Source(lambda: (InFile(path, reading) for path in paths), len(paths))


def _cut_problem(problem: Problem, fit: Fit) -> Source:
    if not problem.selectable:
        return Source(lambda: iter([Given(problem)]), 1, problem.batch)
    size = min(fit(Given(problem)), SHARD)

    def parts() -> Iterator[Part]:
        for start in range(0, problem.batch, size):
            index = torch.arange(start, min(start + size, problem.batch), device=problem.device)
            yield Given(problem.select(index))

    return Source(parts, -(-problem.batch // size), problem.batch)


def _cut_arrays(paths: tuple[Path, Path], reading: Reading, fit: Fit) -> Source:
    A, b = (opened(path) for path in paths)
    if A.ndim not in (2, 3) or b.ndim != 2 or b.shape[1] != A.shape[-2] or (A.ndim == 3 and A.shape[0] != b.shape[0]):
        raise InputError(
            f"{paths[0].name} has shape {A.shape} and {paths[1].name} {b.shape}; give A (m, n) or (B, m, n), b (B, m)"
        )
    for array in (A, b):
        if isinstance(array, ZarrArray):
            array.check()
    count = b.shape[0]
    for name in ("lam", "lam_ratio"):
        values = getattr(reading, name)
        if values is not None and hasattr(values, "__len__") and len(values) != count:
            raise InputError(f"there are {len(values):,} values of {name} for {count:,} problems; give as many")
    size = min(fit(Rows(paths, 0, 1, reading)), SHARD)
    shared = digest(A[:]) if A.ndim == 2 else ""
    return Source(
        lambda: (Rows(paths, start, min(start + size, count), reading, shared) for start in range(0, count, size)),
        -(-count // size),
        count,
    )
