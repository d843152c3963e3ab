"""Sparse matrices: files of `scipy.sparse.save_npz`, and CSR fields beside other arrays. Neither needs SciPy."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sureprox.base.errors import InputError
from sureprox.base.words import brief
from sureprox.problems.operators import Sparse
from sureprox.sources.problem_files.asked import SPARSE
from sureprox.sources.problem_files.limits import Array
from sureprox.sources.problem_files.numpy_files import read_npz, read_text

FORMATS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
INTEGERS = ("indices", "indptr", "row", "col", "shape", *SPARSE[1:])


def is_sparse_file(path: Path) -> bool:
    """Whether a `.npz` is one of `scipy.sparse.save_npz`: it names the format, and holds no A."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
    except Exception:  # damaged bytes make zipfile raise almost anything; who reads on says what is wrong
        return False
    return "format.npy" in names and "shape.npy" in names and "A.npy" not in names


def read_sparse(path: Path) -> Sparse:
    """The matrix of a file of `scipy.sparse.save_npz`, in CSR, CSC or COO format."""
    try:
        return _read(path)
    except InputError:
        raise
    except Exception as error:  # as above
        raise InputError(f"{path.name} is damaged or not what its name says ({brief(error)})") from None


def _read(path: Path) -> Sparse:
    kind = read_text(path, "format")
    if kind not in FORMATS:
        raise InputError(f"{path.name} holds a matrix in the format {kind[:20]!r}; save A.tocsr()")
    wanted = (*FORMATS[kind], "shape")
    found, held = read_npz(path, wanted, INTEGERS)
    if missing := [name for name in wanted if name not in found]:
        raise InputError(f"{path.name} has no {missing[0]!r} (it holds {', '.join(held)[:200]}); save it once more")
    shape = _shape(path.name, found["shape"])
    if kind == "coo":
        return _sparse(path.name, found["data"], found["row"], found["col"], shape)
    starts, places = found["indptr"], found["indices"]
    if kind == "csr":
        return _sparse(path.name, found["data"], _expanded(path.name, starts, places, shape[0]), places, shape)
    return _sparse(path.name, found["data"], places, _expanded(path.name, starts, places, shape[1]), shape)


def from_fields(arrays: Mapping[str, Any], source: str) -> Sparse:
    """A from the arrays `SPARSE`."""
    if missing := [name for name in SPARSE if name not in arrays]:
        raise InputError(f"{source} has no {missing[0]!r}; a sparse A needs {', '.join(SPARSE)}")
    data, places, starts, shape = (np.asarray(arrays[name]) for name in SPARSE)
    sizes = _shape(source, shape)
    return _sparse(source, data, _expanded(source, starts, places, sizes[0]), places, sizes)


def _shape(label: str, shape: Array) -> tuple[int, int]:
    if shape.shape != (2,) or (shape != np.round(shape)).any() or shape.min() < 1 or shape.max() >= 2**31:
        raise InputError(f"{label} declares the shape {str(shape.tolist())[:60]}; a matrix has two sizes, below 2^31")
    return int(shape[0]), int(shape[1])


def _expanded(label: str, starts: Array, places: Array, lines: int) -> Array:
    """The line of each entry, from where the lines begin."""
    fine = starts.shape == (lines + 1,) and places.ndim == 1 and starts[0] == 0 and starts[-1] == len(places)
    if not fine or (np.diff(starts) < 0).any():
        raise InputError(f"{label} has an indptr that does not fit its {lines:,} rows or columns; save the matrix anew")
    return np.repeat(np.arange(lines), np.diff(starts).astype(np.int64))


def _sparse(label: str, data: Array, rows: Array, columns: Array, shape: tuple[int, int]) -> Sparse:
    if data.ndim != 1 or data.shape != rows.shape or data.shape != columns.shape:
        raise InputError(f"{label} has {data.size:,} entries at {rows.size:,} places; save the matrix anew")
    for name, index, size in (("row", rows, shape[0]), ("column", columns, shape[1])):
        if len(index) and (index.min() < 0 or index.max() >= size):
            raise InputError(f"{label} has an entry outside of its {size:,} {name}s; save the matrix anew")
    places = torch.from_numpy(np.stack([rows.astype(np.int64), columns.astype(np.int64)]))
    single = data.dtype.kind == "f" and data.dtype.itemsize <= 4
    values = torch.from_numpy(np.array(data, dtype=np.float32 if single else np.float64))
    return Sparse(torch.sparse_coo_tensor(places, values, shape, check_invariants=False))
