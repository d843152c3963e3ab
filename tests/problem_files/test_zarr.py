"""`.zarr` arrays: what is declared is checked before zarr sees it; nothing is made up, and all errors are one line."""

import json
import math
import os
import pickle
import sys
from pathlib import Path

import numpy as np
import pytest

import sureprox as sp
from sureprox.sources.problem_files import ZarrArray, zarr_files
from sureprox.sources.problem_files.zarr_files import CODECS, COMPRESSORS

zarr = pytest.importorskip("zarr")
numcodecs = pytest.importorskip("numcodecs")

VALUES = np.random.default_rng(0).standard_normal((7, 6))
METADATA = {2: ".zarray", 3: "zarr.json"}


class Trap:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.fixture(params=[2, 3])
def stored(request, tmp_path):
    """A whole array in four by three chunks, in each format."""
    zarr.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(2, 2), zarr_format=request.param)
    return tmp_path / "a.zarr"


def changed(path: Path, **content: object) -> None:
    """Write other metadata."""
    file = next(path / name for name in METADATA.values() if (path / name).exists())
    file.write_text(json.dumps(json.loads(file.read_text()) | content))


def rechunked(path: Path, chunks: list[int], **content: object) -> None:
    """Declare other chunks."""
    if (path / ".zarray").exists():
        changed(path, chunks=chunks, **content)
    else:
        changed(path, chunk_grid={"name": "regular", "configuration": {"chunk_shape": chunks}}, **content)


def chunk_of(path: Path, *index: int) -> Path:
    return path / (".".join(map(str, index)) if (path / ".zarray").exists() else "c/" + "/".join(map(str, index)))


def use(path: Path, rows: slice | None) -> None:
    array = ZarrArray(path)
    array.check() if rows is None else array[rows]


def refusal(path: Path, rows: slice | None = None) -> str:
    with pytest.raises(sp.InputError) as caught:
        use(path, rows)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_rows_are_those_that_were_written(stored):
    array = ZarrArray(stored)
    assert (array.shape, array.ndim) == ((7, 6), 2)
    for rows in (slice(None), slice(0, 1), slice(3, 7), slice(1, 4)):
        np.testing.assert_array_equal(array[rows], VALUES[rows])


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f8", "i1", "<i8", "u2", "?"])
@pytest.mark.parametrize("format", [2, 3])
def test_all_real_numbers_are_read(tmp_path, dtype, format):
    values = (VALUES * 4).astype(dtype)
    zarr.create_array(tmp_path / "a.zarr", data=values, chunks=(7, 6), zarr_format=format)
    np.testing.assert_array_equal(ZarrArray(tmp_path / "a.zarr")[:], values)


def test_all_listed_codecs_are_read(tmp_path):
    for name in COMPRESSORS:
        codec = numcodecs.get_codec({"id": name})
        zarr.create_array(tmp_path / f"{name}.zarr", data=VALUES, zarr_format=2, chunks=(7, 3), compressors=codec)
        np.testing.assert_array_equal(ZarrArray(tmp_path / f"{name}.zarr")[:], VALUES)
    for name in set(CODECS) - {"transpose", "bytes"}:
        made = {"name": name, "configuration": {"level": 1} if name == "gzip" else {}}
        turned = {"name": "transpose", "configuration": {"order": [1, 0]}}
        zarr.create_array(tmp_path / f"{name}3.zarr", data=VALUES, chunks=(7, 3), compressors=made, filters=turned)
        np.testing.assert_array_equal(ZarrArray(tmp_path / f"{name}3.zarr")[:], VALUES)
    zarr.create_array(tmp_path / "plain.zarr", data=VALUES, chunks=(7, 3), compressors=None)
    np.testing.assert_array_equal(ZarrArray(tmp_path / "plain.zarr")[:], VALUES)


@pytest.mark.parametrize("place", ["filters", "compressor"])
@pytest.mark.parametrize("dtype", ["|O", "<f8"])
def test_a_pickle_in_a_chunk_is_refused_before_zarr_is_called(tmp_path, monkeypatch, place, dtype):
    """Whatever the version of numcodecs does with it."""
    path = tmp_path / "a.zarr"
    path.mkdir()
    metadata = {"zarr_format": 2, "shape": [1], "chunks": [1], "dtype": dtype, "fill_value": 0, "order": "C"}
    codec = {"id": "pickle", "protocol": 5}
    metadata |= {"filters": [codec], "compressor": None} if place == "filters" else {"filters": None, place: codec}
    (path / ".zarray").write_text(json.dumps(metadata))
    (path / "0").write_bytes(pickle.dumps(Trap(tmp_path / "sprung")))
    monkeypatch.setitem(sys.modules, "zarr", None)  # any use of it would be an ImportError
    assert ("dtype '|O'" if dtype == "|O" else "needs the codec 'pickle'") in refusal(path)
    assert not (tmp_path / "sprung").exists()


@pytest.mark.parametrize(
    ("format", "change", "line"),
    [
        (2, {"dtype": "|O"}, "dtype '|O'"),
        (2, {"dtype": "<c16"}, "dtype '<c16'"),
        (2, {"dtype": [["a", "<f8"]]}, "write it as an array of float64"),
        (2, {"dtype": "<U8"}, "dtype '<U8'"),
        (2, {"filters": [{"id": "json2"}]}, "needs the codec 'json2'; write it with some of blosc"),
        (2, {"filters": 3}, "is not the metadata of a zarr array"),
        (2, {"dimension_separator": "/../"}, "separator '/../'"),
        (3, {"data_type": "string"}, "dtype 'string'"),
        (3, {"data_type": {"name": "null_terminated_bytes"}}, "write it as an array of float64"),
        (3, {"codecs": [{"name": "numcodecs.pickle"}]}, "needs the codec 'numcodecs.pickle'"),
        (3, {"codecs": ["bytes", {"name": "sharding_indexed"}]}, "needs the codec 'sharding_indexed'"),
        (3, {"storage_transformers": [{"name": "x"}]}, "write it with a regular grid"),
        (3, {"node_type": "group"}, "is a zarr group; give the directory of one array"),
        (3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [2]}}}, "declares chunks of shape"),
        (3, {"chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [0, 2]}}}, "declares chunks of shape"),
        (3, {"shape": [7, -6]}, "declares the shape (7, -6)"),
        (3, {"shape": [7, 0]}, "it is empty"),
        (3, {"shape": 7}, "is not the metadata of a zarr array"),
    ],
)
def test_metadata_that_are_not_read(tmp_path, monkeypatch, format, change, line):
    zarr.create_array(tmp_path / "a.zarr", data=VALUES, chunks=(2, 2), zarr_format=format)
    changed(tmp_path / "a.zarr", **change)
    monkeypatch.setitem(sys.modules, "zarr", None)
    assert line in refusal(tmp_path / "a.zarr")


def test_what_is_no_array_is_said(tmp_path, stored):
    assert "has neither .zarray nor zarr.json" in refusal(tmp_path / "nowhere.zarr")
    for name in METADATA.values():
        (tmp_path / "both.zarr").mkdir(exist_ok=True)
        (tmp_path / "both.zarr" / name).write_text("{}")
    assert "has a .zarray and a zarr.json" in refusal(tmp_path / "both.zarr")
    file = next(stored / name for name in METADATA.values() if (stored / name).exists())
    for content in ("", "[]", "{}", "[" * 100_000, '{"shape": '):
        file.write_text(content)
        assert "is not the metadata of a zarr array" in refusal(stored)
    file.write_text(" " * 2**21)
    assert "the metadata of an array are far shorter" in refusal(stored)


def test_a_missing_chunk_is_an_error_not_zeros(stored):
    chunk_of(stored, 2, 1).unlink()
    assert zarr.open_array(stored, mode="r")[4, 2] == 0  # what zarr makes of it
    assert "has no chunk" in refusal(stored)
    assert "'write_empty_chunks': True" in refusal(stored, slice(4, 5))
    np.testing.assert_array_equal(ZarrArray(stored)[:4], VALUES[:4])  # the others are whole


def test_chunks_of_zeros_are_read_where_they_are_written(tmp_path):
    values = VALUES.copy()
    values[:4] = 0
    zarr.create_array(tmp_path / "a.zarr", data=values, chunks=(2, 6))
    assert "has no chunk c/0/0" in refusal(tmp_path / "a.zarr")
    zarr.create_array(
        tmp_path / "a.zarr", data=values, chunks=(2, 6), config={"write_empty_chunks": True}, overwrite=True
    )
    ZarrArray(tmp_path / "a.zarr").check()
    np.testing.assert_array_equal(ZarrArray(tmp_path / "a.zarr")[:], values)


@pytest.mark.parametrize("chunks", [[2, 2], [10**12, 6], [1, 1]])
def test_a_trillion_declared_rows_are_refused_at_once(stored, chunks, monkeypatch):
    """After a look at one file more than there is."""
    size, looks = zarr_files._file_size, []
    monkeypatch.setattr(zarr_files, "_file_size", lambda *place: [looks.append(place), size(*place)][1])
    there = len([path for path in stored.rglob("*") if path.is_file()])
    rechunked(stored, chunks, shape=[10**12, 6])
    assert ("looks like a zip bomb" if chunks[0] == 10**12 else "has no chunk") in refusal(stored)
    assert 0 < len(looks) <= there + 1


@pytest.mark.parametrize("spoil", [lambda data: b"", lambda data: data[: len(data) // 2], lambda data: b"\xff" * 50])
def test_a_damaged_chunk_is_one_line(stored, spoil):
    chunk = chunk_of(stored, 1, 1)
    chunk.write_bytes(spoil(chunk.read_bytes()))
    line = refusal(stored, slice(0, 7))
    assert "a.zarr, rows 0 to 7, is damaged (" in line
    np.testing.assert_array_equal(ZarrArray(stored)[:2], VALUES[:2])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_in_place_of_a_chunk_is_not_waited_for(stored):
    chunk_of(stored, 0, 0).unlink()
    os.mkfifo(chunk_of(stored, 0, 0))
    assert "is not a file" in refusal(stored, slice(0, 1))


def test_a_chunk_larger_than_the_array_counts_as_what_it_takes(stored):
    side = math.isqrt(2**28)
    rechunked(stored, [side, side])
    assert "looks like a zip bomb" in refusal(stored, slice(0, 1))
