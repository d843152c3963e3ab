"""`.mat` files of version 5 (MATLAB's -v6 and -v7): full arrays of real numbers."""

import zlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.limits import Array, check_expansion, check_shape, numbers

HEADER = 128
HDF5 = b"\x89HDF\r\n\x1a\n"  # how the files of version 7.3 begin, after an empty or the usual header
INT8, INT32, UINT32, MATRIX, COMPRESSED = 1, 5, 6, 14, 15  # types of elements
STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
SINGLE, NUMERIC = 7, range(6, 16)  # classes of arrays: double, single, then the integers
OTHERS = {1: "a cell array", 2: "a struct", 3: "an object", 4: "text", 5: "sparse"}
COMPLEX = 0x800
PEEK = 512  # bytes that surely hold flags, dimensions and name


@dataclass(frozen=True)
class Heading:
    """What comes before the numbers of an array."""

    name: str
    kind: int
    complex: bool
    shape: tuple[int, ...]
    end: int  # where the numbers begin


def read_mat(path: Path, wanted: Collection[str]) -> tuple[dict[str, Array], list[str]]:
    """Those arrays of a `.mat` file that are wanted, and the names of all that it holds."""
    data = path.read_bytes()
    if HDF5 in (data[:8], data[512:520]) or data.startswith(b"MATLAB 7.3"):
        raise InputError(f"{path.name} is a MATLAB 7.3 (HDF5) file; save it with -v7: save('{path.name}', ..., '-v7')")
    order = {b"IM": "<", b"MI": ">"}.get(data[126:128])
    if order is None or int.from_bytes(data[124:126], "little" if order == "<" else "big") != 0x0100:
        raise InputError(f"{path.name} is not a MATLAB file of version 5; save it in MATLAB with -v7")
    found: dict[str, Array] = {}
    names = []
    for kind, content in _elements(data[HEADER:], order, path.name):
        if kind not in (MATRIX, COMPRESSED):
            continue
        offset = 8 if kind == COMPRESSED else 0  # compressed data begin with the tag of the matrix inside
        start = zlib.decompressobj().decompress(content, PEEK) if kind == COMPRESSED else content
        heading = _heading(start[offset:], order)
        if heading is None:
            continue
        names.append(heading.name)
        if heading.name in wanted:
            label = f"{heading.name} in {path.name}"
            if heading.name in found:
                raise InputError(f"{path.name} holds {heading.name} more than once; save each array once")
            whole = _expanded(content, start, order, label) if kind == COMPRESSED else content
            found[heading.name] = _values(whole[offset:], heading, order, label)
    return found, names


def _elements(data: bytes, order: str, label: str) -> Iterator[tuple[int, bytes]]:
    """(type, content) one after the other; the contents of small ones share the eight bytes of the tag."""
    position = 0
    while position < len(data):
        kind, content, position = _element(data, position, order, label)
        yield kind, content


def _element(data: bytes, position: int, order: str, label: str = "the array") -> tuple[int, bytes, int]:
    """The element at `position` and where the next one begins."""
    tag = data[position : position + 8]
    if len(tag) < 8:
        raise InputError(f"{label} ends inside an element: damaged or cut short")
    first, size = (int(word) for word in np.frombuffer(tag, f"{order}u4"))
    if first >> 16:  # small: size and type in one word
        kind, size, begin, after = first & 0xFFFF, first >> 16, position + 4, position + 8
        if size > 4:
            raise InputError(f"{label} has a small element of {size} bytes: damaged")
    else:
        kind, begin = first, position + 8
        after = begin + size + (0 if kind == COMPRESSED else -size % 8)
    if begin + size > len(data):
        raise InputError(f"{label} declares {size:,} bytes and has {len(data) - begin:,}: damaged or cut short")
    return kind, data[begin : begin + size], after


def _heading(content: bytes, order: str) -> Heading | None:
    """None for what MATLAB stores beside arrays, such as its own objects."""
    flags_type, flags, position = _element(content, 0, order)
    sides_type, sides, position = _element(content, position, order)
    name_type, name, position = _element(content, position, order)
    if (flags_type, sides_type, name_type) != (UINT32, INT32, INT8) or len(flags) != 8 or len(sides) % 4:
        return None
    word = int(np.frombuffer(flags[:4], f"{order}u4")[0])
    shape = tuple(int(side) for side in np.frombuffer(sides, f"{order}i4"))
    return Heading(name.decode("ascii", errors="replace"), word & 0xFF, bool(word & COMPLEX), shape, position)


def _expanded(content: bytes, start: bytes, order: str, label: str) -> bytes:
    """As much of the compressed data as the tag of the matrix inside declares."""
    size = int(np.frombuffer(start[:8], f"{order}u4")[1])
    check_expansion(label, len(content), size)
    return zlib.decompressobj().decompress(content, 8 + size)


def _values(content: bytes, heading: Heading, order: str, label: str) -> Array:
    if heading.complex:
        raise InputError(f"{label} is complex; only real numbers are solved for")
    if heading.kind not in NUMERIC:
        what = OTHERS.get(heading.kind, f"of class {heading.kind}")
        raise InputError(f"{label} is {what}; save a full array of numbers, for example full(double({heading.name}))")
    stored, values, _ = _element(content, heading.end, order, label)
    if stored not in STORED:
        raise InputError(f"{label} stores its numbers as type {stored}, which is none: damaged")
    dtype = np.dtype(order + STORED[stored])  # integers that fit are stored in fewer bytes
    check_shape(label, heading.shape, dtype.itemsize, len(values))
    array = np.frombuffer(values, dtype).reshape(heading.shape, order="F")
    return numbers(label, array.astype(np.float32 if heading.kind == SINGLE else np.float64))
