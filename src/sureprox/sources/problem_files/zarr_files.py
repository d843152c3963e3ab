"""`.zarr` arrays of formats 2 and 3, read as they are sliced.

A codec is code that runs on the bytes of a file, and some of them unpickle. So the metadata are read here first, and
nothing but real numbers in the few codecs below is opened. zarr reads a missing chunk as the fill value, mostly zeros;
here it is an error.
"""

import math
import os
import re
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from sureprox.base.errors import InputError
from sureprox.base.files import parse_json
from sureprox.base.words import brief
from sureprox.sources.problem_files.limits import Array, check_expansion, check_sides

LONGEST_METADATA = 2**20  # bytes
FORMATS = {".zarray": 2, "zarr.json": 3}  # by the name of the metadata
STORED = re.compile(r"\|b1|[<>|][iu][1248]|[<>]f[248]")  # dtypes of format 2
NUMBERS = re.compile(r"bool|u?int(8|16|32|64)|float(16|32|64)")  # of format 3
COMPRESSORS = ("blosc", "gzip", "lz4", "zlib", "zstd")  # of format 2
CODECS = ("transpose", "bytes", "blosc", "gzip", "zstd", "crc32c")  # of format 3


@dataclass(frozen=True)
class Layout:
    """What the metadata declare; the chunk (i, j) is the file `prefix` i `separator` j."""

    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    item: int  # bytes of an entry
    prefix: str
    separator: str
    format: Literal[2, 3]

    def rows(self, start: int, stop: int) -> list[range]:
        """Numbers of the chunks that hold the rows start ... stop - 1, along each side."""
        first, *others = (-(-side // chunk) for side, chunk in zip(self.shape, self.chunks, strict=True))
        held = range(start // self.chunks[0], min(-(-stop // self.chunks[0]), first))
        return [held, *(range(count) for count in others)]


class ZarrArray:
    """An array on disk. `array[start:stop]` reads those rows; what is wrong with them is an `InputError`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.layout = read_layout(path)
        import zarr

        self._array = zarr.open_array(path, mode="r", zarr_format=self.layout.format)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.layout.shape

    @property
    def ndim(self) -> int:
        return len(self.layout.shape)

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        self.check(start, stop)
        try:
            return np.asarray(self._array[start:stop])
        except MemoryError:
            raise
        except Exception as error:  # damaged bytes make the codecs raise almost anything
            raise InputError(
                f"{self.path}, rows {start:,} to {stop:,}, is damaged ({brief(error)}); write it again"
            ) from None

    def check(self, start: int = 0, stop: int | None = None) -> None:
        """The chunks of these rows, of all by default, must be there, with bytes for what they declare."""
        layout, count, size = self.layout, 0, 0
        for index in _each(layout.rows(start, self.shape[0] if stop is None else stop)):
            name = layout.prefix + layout.separator.join(map(str, index))
            count, size = count + 1, size + _file_size(self.path, name)
        check_expansion(str(self.path), size, count * math.prod(layout.chunks) * layout.item)


def _each(sides: list[range]) -> Iterator[tuple[int, ...]]:
    """All places of a grid, made one by one: a file may declare any number of them."""
    if not sides:
        yield ()
        return
    for first in sides[0]:
        for others in _each(sides[1:]):
            yield (first, *others)


def _file_size(path: Path, name: str) -> int:
    try:
        found = os.stat(path / name)
    except OSError as error:
        raise InputError(
            f"{path} has no chunk {name} ({error.strerror}); copy it again, or write it with "
            "config={'write_empty_chunks': True} if it was left out for being all 0"
        ) from None
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"{path}: the chunk {name} is not a file; copy it again")
    return found.st_size


def read_layout(path: Path) -> Layout:
    """What the metadata declare, if all of it is what is read here."""
    names = [name for name in FORMATS if (path / name).is_file()]
    if len(names) != 1:
        what = "a .zarray and a zarr.json" if names else "neither .zarray nor zarr.json"
        raise InputError(f"{path} has {what}; give the directory of one zarr array")
    file = path / names[0]
    if file.stat().st_size > LONGEST_METADATA:
        raise InputError(f"{file} has {file.stat().st_size:,} bytes; the metadata of an array are far shorter")
    try:
        content = parse_json(file.read_bytes(), finite=False)
        layout = (_format_2 if FORMATS[names[0]] == 2 else _format_3)(content, path)
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{file} is not the metadata of a zarr array ({brief(error)})") from None
    check_sides(str(path), layout.shape)
    if len(layout.chunks) != len(layout.shape) or not all(type(side) is int and side > 0 for side in layout.chunks):
        raise InputError(f"{path} declares chunks of shape {str(layout.chunks)[:60]} for {layout.shape}: damaged")
    if not layout.shape or layout.separator not in (".", "/"):
        raise InputError(f"{path} declares the shape {layout.shape} and separator {layout.separator!r}: not used here")
    return layout


def _format_2(content: Mapping[str, Any], path: Path) -> Layout:
    dtype, compressor = content["dtype"], content["compressor"]
    if not isinstance(dtype, str) or not STORED.fullmatch(dtype):
        raise _other_numbers(path, dtype)
    codecs = [*(content["filters"] or []), *([] if compressor is None else [compressor])]
    _known(path, [codec["id"] for codec in codecs], COMPRESSORS)
    separator = content.get("dimension_separator", ".")
    return Layout(tuple(content["shape"]), tuple(content["chunks"]), int(dtype[2:]), "", separator, 2)


def _format_3(content: Mapping[str, Any], path: Path) -> Layout:
    if content["node_type"] != "array":
        raise InputError(f"{path} is a zarr {str(content['node_type'])[:20]}; give the directory of one array")
    dtype, grid, keys = content["data_type"], content["chunk_grid"], content["chunk_key_encoding"]
    if not isinstance(dtype, str) or not NUMBERS.fullmatch(dtype):
        raise _other_numbers(path, dtype)
    codecs = [codec if isinstance(codec, str) else codec["name"] for codec in content["codecs"]]
    _known(path, codecs, CODECS)
    named = (grid["name"], keys["name"], content.get("storage_transformers") or [])
    if named not in (("regular", "default", []), ("regular", "v2", [])):
        raise InputError(f"{path} has chunks laid out as {str(named)[:80]}; write it with a regular grid")
    plain = keys["name"] == "default"
    separator = keys.get("configuration", {}).get("separator", "/" if plain else ".")
    shape, chunks = tuple(content["shape"]), tuple(grid["configuration"]["chunk_shape"])
    return Layout(shape, chunks, np.dtype(dtype).itemsize, f"c{separator}" if plain else "", separator, 3)


def _known(path: Path, names: list[Any], known: tuple[str, ...]) -> None:
    if unknown := [name for name in names if name not in known]:
        listed = ", ".join(known)
        raise InputError(f"{path} needs the codec {str(unknown[0])[:40]!r}; write it with some of {listed} only")


def _other_numbers(path: Path, dtype: Any) -> InputError:
    return InputError(f"{path} has dtype {str(dtype)[:40]!r}; write it as an array of float64")
