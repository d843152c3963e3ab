"""`read_problem`: from files to a checked batch of problems."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Problem, lasso, logistic
from sureprox.sources.problem_files.csv_files import read_csv
from sureprox.sources.problem_files.limits import Array, numbers
from sureprox.sources.problem_files.matlab_files import read_mat
from sureprox.sources.problem_files.numpy_files import read_npy, read_npz

KEYS = ("A", "b", "y", "lam", "x0")
SUFFIXES = "one .npz, .mat or .csv file, or two .npy files"


class Kind(StrEnum):
    """What is minimised."""

    LASSO = "lasso"  # A, b: 1/2 |A x - b|^2 + lam |x|_1
    LOGISTIC = "logistic"  # A, y: mean logistic loss + lam |x|_1


TARGETS = {Kind.LASSO: "b", Kind.LOGISTIC: "y"}
BUILDERS: dict[Kind, Callable[[Any, Any, Any], Problem]] = {Kind.LASSO: lasso, Kind.LOGISTIC: logistic}


@dataclass(frozen=True)
class Loaded:
    """The problems of a file; x0 (B, n) or (n,), if the file has one."""

    problem: Problem
    kind: Kind
    x0: Tensor | None
    source: str  # names of the files


def read_problem(
    paths: Sequence[str | Path],
    *,
    kind: Kind | str | None = None,
    lam: float | Sequence[float] | None = None,
    lam_ratio: float | Sequence[float] | None = None,
    target: str | None = None,
    dtype: torch.dtype | None = None,
) -> Loaded:
    """The problems in a `.npz` or `.mat` file (A, b or y, lam, x0), two `.npy` files (A, b) or a CSV table.

    A (m, n) or (B, m, n), b or y (m,) or (B, m). `kind` is what the file says (b: LASSO, y: logistic), LASSO where it
    cannot say. `lam` takes the place of that of the file; `lam_ratio` is a share of lam_max, the smallest lam whose
    solution is zero, of each problem. Several values: one for each problem, or all for a single one. `dtype`:
    by default that of A in the file, float64 for integers. `target`: column of a CSV table, the last by default.
    """
    files = [Path(path) for path in paths]
    chosen = _kind(kind)
    if lam is not None and lam_ratio is not None:
        raise InputError("lam and lam_ratio are both given; choose one")
    source = " and ".join(file.name for file in files)
    return _loaded(_read(files, chosen, target), chosen, lam, lam_ratio, dtype, source)


def from_arrays(
    arrays: Mapping[str, Any],
    *,
    kind: Kind | str | None = None,
    lam: Any = None,
    lam_ratio: Any = None,
    dtype: torch.dtype | None = None,
    source: str = "the arrays",
) -> Loaded:
    """The problems in arrays named as in a file: A, b or y, lam, x0. Options as in `read_problem`."""
    if unknown := [name for name in arrays if name not in KEYS]:
        raise InputError(f"{source}: there is an array {unknown[0]!r}; known are {', '.join(KEYS)}")
    if "A" not in arrays:
        raise InputError(f"{source}: there is no 'A'; LASSO needs A, b, lam, logistic problems A, y, lam")
    if lam is not None and lam_ratio is not None:
        raise InputError("lam and lam_ratio are both given; choose one")
    plain = {name: value.detach().cpu() if isinstance(value, Tensor) else value for name, value in arrays.items()}
    read = {name: numbers(f"{name} of {source}", np.asarray(value)) for name, value in plain.items()}
    return _loaded(read, _kind(kind), lam, lam_ratio, dtype, source)


def _loaded(
    arrays: dict[str, Array], kind: Kind | None, lam: Any, lam_ratio: Any, dtype: torch.dtype | None, source: str
) -> Loaded:
    found = _decided(arrays, kind, source)
    if TARGETS[found] not in arrays:
        raise InputError(f"{source} has no {TARGETS[found]!r}; {found.value} problems need A, {TARGETS[found]}, lam")
    try:
        return Loaded(*_assembled(arrays, found, lam, lam_ratio, dtype), source)
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def _kind(kind: Kind | str | None) -> Kind | None:
    if kind is None:
        return None
    try:
        return Kind(kind)
    except ValueError:
        raise InputError(f"kind is {kind!r}; choose lasso or logistic") from None


def _read(files: Sequence[Path], kind: Kind | None, target: str | None) -> dict[str, Array]:
    suffixes = [file.suffix.lower() for file in files]
    for file in files:
        if not os.path.isfile(file):  # not Path.is_file, which fails on names no file can have
            what = "is a directory" if os.path.isdir(file) else "does not exist"
            raise InputError(f"{file} {what}; give {SUFFIXES}")
        if not os.access(file, os.R_OK):
            raise InputError(f"{file} cannot be read: permission denied")
    if target is not None and suffixes != [".csv"]:
        raise InputError("a target column is chosen in CSV files only")
    try:
        if suffixes in ([".npz"], [".mat"]):
            reader = read_npz if suffixes == [".npz"] else read_mat
            return _with_matrix(*reader(files[0], KEYS), files[0].name)
        if suffixes == [".npy", ".npy"]:
            return {"A": read_npy(files[0]), TARGETS[kind or Kind.LASSO]: read_npy(files[1])}
        if suffixes == [".csv"]:
            A, values = read_csv(files[0], target)
            return {"A": A, TARGETS[kind or Kind.LASSO]: values}
    except InputError:
        raise
    except Exception as error:  # damaged bytes make the readers of zip, zlib and numpy headers raise almost anything
        names = " or ".join(file.name for file in files)
        what = " ".join(f"{type(error).__name__}: {error}".split())[:120]
        raise InputError(f"{names} is damaged or not what its name says ({what})") from None
    names = ", ".join(file.name for file in files) or "no file"
    raise InputError(f"cannot read problems from {names}; give {SUFFIXES}: A.npy b.npy")


def _with_matrix(found: dict[str, Array], names: list[str], source: str) -> dict[str, Array]:
    if "A" not in found:
        held = ", ".join(names)[:200] or "nothing"
        raise InputError(f"{source} has no 'A' (it holds {held}); LASSO needs A, b, lam, logistic problems A, y, lam")
    return found


def _decided(arrays: dict[str, Array], kind: Kind | None, source: str) -> Kind:
    if kind is not None:
        return kind
    if "b" in arrays and "y" in arrays:
        raise InputError(f"{source} holds both b and y; choose --kind lasso or --kind logistic")
    return Kind.LOGISTIC if "y" in arrays else Kind.LASSO


def _assembled(
    arrays: dict[str, Array], kind: Kind, lam: Any, lam_ratio: Any, dtype: torch.dtype | None
) -> tuple[Problem, Kind, Tensor | None]:
    A = arrays["A"]
    wanted = dtype or (torch.float32 if A.dtype == np.float32 else torch.float64)
    if A.ndim not in (2, 3):
        raise InputError(f"A has shape {A.shape}; it must be (m, n), or (B, m, n) for a matrix of each problem")
    matrix = torch.tensor(A).to(wanted)
    target = torch.tensor(_row(arrays[TARGETS[kind]], A.shape[-2])).to(wanted)
    build = BUILDERS[kind]
    if lam_ratio is not None:
        shares, largest = _values("lam_ratio", lam_ratio), build(matrix, target, 0.0).scale()[1]
        if 1 not in (shares.numel(), len(largest)) and shares.numel() != len(largest):
            raise InputError(f"there are {shares.numel()} values of lam_ratio for {len(largest)} problems; give one")
        lam = shares * largest
    elif lam is not None:
        lam = _values("lam", lam)
    elif "lam" in arrays:
        lam = torch.tensor(arrays["lam"])
    else:
        raise InputError("there is no lam; give --lam, or --lam-ratio for a share of the largest useful one")
    weights = torch.squeeze(lam).to(wanted) if lam.numel() == max(lam.shape, default=1) else lam.to(wanted)
    problem = build(matrix, target, weights)
    x0 = arrays.get("x0")
    start = None if x0 is None else torch.tensor(_row(x0, A.shape[-1])).to(wanted)
    if start is not None:
        problem.start(start)  # checks it
    return problem, kind, start


def _row(values: Array, length: int) -> Array:
    """A single column (length, 1), as MATLAB knows no vectors, as (length,)."""
    return values[:, 0] if values.shape == (length, 1) and length > 1 else values


def _values(name: str, given: Any) -> Tensor:
    try:
        return torch.as_tensor(given, dtype=torch.float64)
    except (TypeError, ValueError, RuntimeError):
        raise InputError(f"{name} is {given!r}; give a number, or several") from None
