"""`sureprox solve --shards`."""

import json

import numpy as np
import pytest

from sureprox.many import Results

RNG = np.random.default_rng(3)
A = RNG.standard_normal((30, 20))


@pytest.fixture
def folder(tmp_path):
    """Two files of three LASSO problems each, with one matrix."""
    (tmp_path / "in").mkdir()
    for part in range(2):
        np.savez(tmp_path / "in" / f"part-{part}.npz", A=A, b=RNG.standard_normal((3, 30)), lam=2.0)
    return "in"


def test_a_directory_into_shards_and_again(command, folder, tmp_path):
    outcome = command("solve", folder, "--shards", "out", "--tol", "1e-8")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in ("6 in 2 shards", "6 converged", "problems a second"):
        assert expected in outcome.out
    assert Results.open(tmp_path / "out").problems == 6
    again = command("solve", folder, "--shards", "out", "--tol", "1e-8", "--json")
    found = json.loads(again.out)
    assert (found["problems"], found["found"], found["status"]) == (6, 6, {"converged": 6})
    assert found["worst_relative_gap"] <= 1e-8


def test_large_arrays_are_cut(command, tmp_path):
    np.save(tmp_path / "A.npy", A)
    np.save(tmp_path / "b.npy", RNG.standard_normal((7, 30)))
    outcome = command(
        "solve",
        "A.npy",
        "b.npy",
        "--lam-ratio",
        "0.1",
        "--shards",
        "out",
        "--chunk",
        "3",
        "--optimizer",
        "fista-restart",
    )
    assert outcome.code == 0
    assert [len(part) for part in Results.open(tmp_path / "out")] == [3, 3, 1]


def test_what_is_not_solved_is_exit_code_1(command, folder):
    outcome = command("solve", folder, "--shards", "out", "--max-iter", "1")
    assert outcome.code == 1
    assert "6 iteration_limit" in outcome.out


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (["--dask"], "--dask, --scheduler and --chunk go with --shards DIR"),
        (["--chunk", "5"], "--dask, --scheduler and --chunk go with --shards DIR"),
        (["--shards", "out", "--csv", "a.csv"], "--csv does not go with --shards"),
        (["--shards", "out", "--dask", "--scheduler", "tcp://x:1"], "--dask and --scheduler are given"),
        (["--shards", "out", "--lam", "two"], "--lam is 'two'"),
        (["--shards", "out", "--optimizer", "nobody"], "no model 'nobody'"),
    ],
)
def test_options_that_do_not_go_together(refused, folder, options, line):
    assert line in refused("solve", folder, *options)


def spoil_zip(folder):
    """An archive in place of an array."""
    np.save(folder / "b.npy", np.ones((2, 30)))
    with (folder / "A.npy").open("wb") as file:
        np.savez(file, A=A)
    return ["A.npy", "b.npy"]


def spoil_zarr(folder):
    """Two arrays, and a chunk of one of them damaged."""
    zarr = pytest.importorskip("zarr")
    zarr.create_array(folder / "A.zarr", data=A)
    zarr.create_array(folder / "b.zarr", data=np.ones((4, 30)), chunks=(2, 30))
    (folder / "b.zarr" / "c" / "0" / "0").write_bytes(b"damaged")
    return ["A.zarr", "b.zarr"]


def spoil_npz(folder):
    np.savez(folder / "p.npz", A=A * np.nan, b=np.ones(30))
    return ["p.npz"]


@pytest.mark.parametrize(
    ("spoil", "line"),
    [
        (spoil_zip, "A.npy is not a numpy array; save it with numpy.save"),
        (spoil_zarr, "b.zarr, rows 0 to 1, is damaged ("),
        (spoil_npz, "shard 0: p.npz: A has 600 entries that are NaN"),
    ],
)
def test_files_that_cannot_be_used_are_one_line_and_nothing_is_written(refused, tmp_path, spoil, line):
    assert line in refused("solve", *spoil(tmp_path), "--lam", "0.5", "--shards", "out")


def test_an_overwritten_file_is_one_line(command, folder, tmp_path):
    assert command("solve", folder, "--shards", "out").code == 0
    np.savez(tmp_path / folder / "part-1.npz", A=A, b=RNG.standard_normal((3, 30)), lam=2.0)
    outcome = command("solve", folder, "--shards", "out")
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert "shard 1 in out is of other problems" in line


def test_progress_has_rate_and_time_left():
    from sureprox.cli.solve_many import line
    from sureprox.many import ManyProgress

    assert line(ManyProgress(3, 300, 10, 1000, 100, 2.0)) == "300 of 1,000 problems, 100/s, 7 s left"
    assert line(ManyProgress(3, 300, 6, None, 0, 3.0)) == "300 problems, 100/s, 3 s left"
    assert line(ManyProgress(3, 300, None, None, 0, 3.0)) == "300 problems, 100/s"
