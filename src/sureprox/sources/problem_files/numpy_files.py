"""`.npy` and `.npz`, without pickles and without trusting what they declare."""

import io
import os
import warnings
import zipfile
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.limits import Array, check_expansion, check_numbers, check_shape, numbers

MAGIC = b"\x93NUMPY"
LONGEST_HEADER = 10_000  # bytes; numpy's own limit


@dataclass(frozen=True)
class Heading:
    """What comes before the numbers of an array."""

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    end: int  # where the numbers begin


def read_npy(path: Path) -> Array:
    """The array of a `.npy` file."""
    with path.open("rb") as file:
        return _array(file, os.fstat(file.fileno()).st_size, path.name)


def map_npy(path: Path) -> Array:
    """The array of a `.npy` file, mapped into memory: its numbers are read when they are used."""
    with path.open("rb") as file:
        found = _heading(file, os.fstat(file.fileno()).st_size, path.name)
    check_numbers(path.name, found.dtype)
    return np.memmap(path, found.dtype, "r", found.end, found.shape, "F" if found.fortran else "C")


def read_npz(path: Path, wanted: Collection[str], integers: Collection[str] = ()) -> tuple[dict[str, Array], list[str]]:
    """Those arrays of a `.npz` file that are wanted, and the names of all that it holds.

    Those named in `integers` keep their type if it is one of whole numbers.
    """
    with path.open("rb") as file:
        refuse_pickle(file.read(2), path.name)
    with zipfile.ZipFile(path) as archive:
        members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
        names = [info.filename.removesuffix(".npy") for info in members]
        if repeated := sorted(name for name, count in Counter(names).items() if count > 1 and name in wanted):
            raise InputError(f"{path.name} holds {repeated[0]} more than once; save each array once")
        found = {
            name: _member(archive, info, f"{name} in {path.name}", whole=name in integers)
            for name, info in zip(names, members, strict=True)
            if name in wanted
        }
    return found, names


def read_text(path: Path, name: str) -> str:
    """A short text that a `.npz` file holds under this name, such as the format of a sparse matrix."""
    label = f"{name} in {path.name}"
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(f"{name}.npy")
        _check_member(info, label)
        with archive.open(info) as stream:
            found = _heading(stream, info.file_size, label)
            content = stream.read()
    if found.dtype.kind not in "SU" or found.shape not in ((), (1,)):
        raise InputError(f"{label} has dtype {found.dtype} and shape {found.shape}; it must be a text")
    return str(np.frombuffer(content, found.dtype)[0].astype(str))


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, label: str, *, whole: bool) -> Array:
    _check_member(info, label)
    with archive.open(info) as stream:
        return _array(stream, info.file_size, label, whole=whole)


def _check_member(info: zipfile.ZipInfo, label: str) -> None:
    if info.flag_bits & 1:
        raise InputError(f"{label} is encrypted; save it without a password")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise InputError(f"{label} is compressed by a method that numpy does not use; save it with numpy.savez")
    check_expansion(label, info.compress_size, info.file_size)


def _array(stream: IO[bytes], size: int, label: str, *, whole: bool = False) -> Array:
    """One array from a stream of `size` bytes; with `whole`, integers stay what they are."""
    found = _heading(stream, size, label)
    content = stream.read()
    if len(content) != size - found.end:
        raise InputError(f"{label} ends too early: damaged or cut short")
    array = np.frombuffer(content, found.dtype).reshape(found.shape, order="F" if found.fortran else "C")
    if whole and found.dtype.kind in "iu":
        return array.astype(found.dtype.newbyteorder("="))
    return numbers(label, array)


def _heading(stream: IO[bytes], size: int, label: str) -> Heading:
    """Read up to the numbers; what is declared must be what the other bytes of the stream have room for."""
    prefix = stream.read(8)
    refuse_pickle(prefix, label)
    if prefix[:6] != MAGIC or len(prefix) < 8:
        raise InputError(f"{label} is not a numpy array; save it with numpy.save")
    version = (prefix[6], prefix[7])
    if version not in ((1, 0), (2, 0)):
        raise InputError(f"{label} has .npy version {version[0]}.{version[1]}; 1.0 and 2.0 are read")
    width = 2 if version == (1, 0) else 4
    counted = stream.read(width)
    length = int.from_bytes(counted, "little")
    if len(counted) < width or length > LONGEST_HEADER:
        raise InputError(f"{label} declares a header of {length:,} bytes; it is damaged")
    shape, fortran, dtype = _header(counted + stream.read(length), version)
    if dtype.hasobject:
        raise InputError(f"{label} holds Python objects, a pickle which could run code; save an array of float64")
    end = 8 + width + length
    check_shape(label, shape, dtype.itemsize, size - end)
    return Heading(shape, fortran, dtype, end)


def _header(content: bytes, version: tuple[int, int]) -> tuple[tuple[int, ...], bool, np.dtype[np.generic]]:
    reader = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what Python thinks of a damaged header is not for the user
        shape, fortran, dtype = reader(io.BytesIO(content))
    return shape, fortran, dtype


def refuse_pickle(beginning: bytes, label: str) -> None:
    if beginning[:1] == b"\x80":
        raise InputError(f"{label} is a pickle, which could run code; save it with numpy.savez or numpy.save")
