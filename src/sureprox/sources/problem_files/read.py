"""`read_problem`: from files to a checked batch of problems."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.words import brief, no_file, suggested
from sureprox.problems import Problem
from sureprox.problems.operators import Operator, Sparse
from sureprox.problems.operators.sparse import is_sparse
from sureprox.sources.problem_files.asked import KEYS, SPARSE, TARGETS, Asked, LossName, check_names
from sureprox.sources.problem_files.assemble import Assembled, assembled
from sureprox.sources.problem_files.limits import Array, numbers
from sureprox.sources.problem_files.matlab_files import read_mat
from sureprox.sources.problem_files.numpy_files import read_npy, read_npz
from sureprox.sources.problem_files.sparse_files import INTEGERS, from_fields, is_sparse_file, read_sparse
from sureprox.sources.problem_files.tables import Columns, is_table, read_table

SUFFIXES = "one .npz, .mat, .csv, .tsv or .parquet file, or two .npy files"
NEEDED = "LASSO needs A, b, lam, logistic problems A, y, lam"
FULL = tuple(key for key in KEYS if key not in SPARSE)  # what a .mat may hold


@dataclass(frozen=True)
class Loaded:
    """The problems of a file; x0 (B, n) or (n,), if the file has one."""

    problem: Problem
    kind: str  # a `Kind`, or the loss and the parts of the penalty in words
    x0: Tensor | None
    source: str  # names of the files
    loss: LossName = LossName.SQUARES
    penalty: Mapping[str, Tensor] = field(default_factory=dict)  # its numbers, by the names of the keys
    columns: Columns | None = None  # of a table


def read_problem(
    paths: Sequence[str | Path],
    *,
    target: str | None = None,
    index: str | None = None,
    intercept: bool = False,
    standardize: bool = False,
    **options: Any,
) -> Loaded:
    """The problems in a `.npz` or `.mat` file, two files (A, then b or y), or a table: `.csv`, `.tsv`, `.parquet`.

    A (m, n) or (B, m, n), b or y (m,) or (B, m); other keys are lam, x0 and those of `asked.NUMBERS`. The loss is what
    the file says (b: squares, y: logistic), squares where it cannot say. A sparse A is a file of
    `scipy.sparse.save_npz`, followed by b, or the keys A_data, A_indices, A_indptr, A_shape. `options` say how all of
    this is understood, see `Asked`.

    Of a table: `target`, its columns by name or number, separated by commas, the last by default; `index`, a column
    that only numbers or names the rows, noticed by default, "none" for none; with an `intercept` that is not
    penalised; `standardize` divides the features by their standard deviations (`tables`).
    """
    files = [Path(path) for path in paths]
    asked = Asked.of(options)
    source = " and ".join(file.name for file in files)
    loss = asked.named_loss or LossName.SQUARES
    if len(files) == 1 and is_table(files[0]):
        _require_file(files[0])
        key, centred = TARGETS[loss][0], loss is LossName.SQUARES
        with _damage_named(files):
            arrays, columns = read_table(
                files[0], key, target, index, intercept=intercept, standardize=standardize, centred=centred
            )
        found = assembled(arrays, asked, source, intercept=intercept and not centred, combine=True)
        return replace(_found(found, source), columns=columns)
    tables = [file.name for file in files if is_table(file)]
    if len(files) > 1 and tables:
        raise InputError(f"{tables[0]} is a table, and {len(files)} files are given; give the table alone")
    given = {
        "target": target is not None,
        "index": index is not None,
        "intercept": intercept,
        "standardize": standardize,
    }
    for name, is_given in given.items():
        if is_given:
            raise InputError(f"--{name} goes with a table (.csv, .tsv or .parquet); leave it out")
    return _found(assembled(_read(files, loss), asked, source, combine=True), source)


def from_arrays(arrays: Mapping[str, Any], *, source: str = "the arrays", **options: Any) -> Loaded:
    """The problems in arrays named as in a file; A may be sparse, or an operator. Options as in `read_problem`."""
    if unknown := [name for name in arrays if name not in KEYS]:
        raise InputError(f"{source}: there is an array {unknown[0]!r}; {suggested(unknown[0], KEYS)}")
    asked = Asked.of(options)
    plain = {name: value.detach().cpu() if isinstance(value, Tensor) else value for name, value in arrays.items()}
    read: dict[str, Any] = {}
    for name, value in plain.items():
        if name == "A" and (isinstance(value, Operator) or is_sparse(value)):
            read["A"] = value if isinstance(value, Operator) else Sparse(value)
        elif name in SPARSE:
            read[name] = np.asarray(value)
        else:
            read[name] = numbers(f"{name} of {source}", np.asarray(value))
    if "A" not in read and not set(SPARSE) & set(read):
        raise InputError(f"{source}: there is no 'A'; {NEEDED}")
    return _loaded(_with_matrix(read, list(read), source), asked, source)


def _loaded(arrays: dict[str, Any], asked: Asked, source: str) -> Loaded:
    return _found(assembled(arrays, asked, source), source)


def _found(found: Assembled, source: str) -> Loaded:
    return Loaded(found.problem, found.kind, found.x0, source, found.loss, found.penalty)


def _require_file(file: Path) -> None:
    if not os.path.isfile(file):  # not Path.is_file, which fails on names no file can have
        raise InputError(f"{no_file(file)}; give {SUFFIXES}")
    if not os.access(file, os.R_OK):
        raise InputError(f"{file} cannot be read: permission denied")


@contextmanager
def _damage_named(files: Sequence[Path]) -> Iterator[None]:
    """Damaged bytes make the readers of zip, zlib and numpy headers raise almost anything."""
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        names = " or ".join(file.name for file in files)
        raise InputError(f"{names} is damaged or not what its name says ({brief(error)})") from None


def _read(files: Sequence[Path], loss: LossName) -> dict[str, Any]:
    suffixes = [file.suffix.lower() for file in files]
    for file in files:
        _require_file(file)
    key = TARGETS[loss][0]
    with _damage_named(files):
        if suffixes == [".npz"]:
            if is_sparse_file(files[0]):
                raise InputError(
                    f"{files[0].name} holds a sparse matrix alone; give the right-hand side too: {files[0].name} b.npy"
                )
            return _checked(*read_npz(files[0], KEYS, INTEGERS), files[0].name)
        if suffixes == [".mat"]:
            return _checked(*read_mat(files[0], FULL), files[0].name)
        if suffixes == [".npy", ".npy"]:
            return {"A": read_npy(files[0]), key: read_npy(files[1])}
        if suffixes == [".npz", ".npy"]:
            return {"A": _sparse_file(files[0]), key: read_npy(files[1])}
    names = ", ".join(file.name for file in files) or "no file"
    raise InputError(f"cannot read problems from {names}; give {SUFFIXES}: A.npy b.npy")


def _sparse_file(path: Path) -> Sparse:
    if not is_sparse_file(path):
        raise InputError(
            f"{path.name} beside a .npy must be a sparse A, made by scipy.sparse.save_npz; or give {SUFFIXES}"
        )
    return read_sparse(path)


def _checked(found: dict[str, Array], names: list[str], source: str) -> dict[str, Any]:
    held = _with_matrix(found, names, source)
    check_names(source, names)
    return held


def _with_matrix(found: dict[str, Any], names: list[str], source: str) -> dict[str, Any]:
    """The arrays with A, made of its CSR fields if it is sparse."""
    fields = set(SPARSE) & set(found)
    if "A" in found and fields:
        raise InputError(f"{source} holds both A and {min(fields)}; leave one of them out")
    if fields:
        return {name: value for name, value in found.items() if name not in SPARSE} | {"A": from_fields(found, source)}
    if "A" not in found:
        held = ", ".join(names)[:200] or "nothing"
        raise InputError(f"{source} has no 'A' (it holds {held}); {NEEDED}")
    return found
