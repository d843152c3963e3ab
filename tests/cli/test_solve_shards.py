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
        (["--shards", "out", "--csv", "a.csv"], "--out, --csv and --target do not go with --shards"),
        (["--shards", "out", "--dask", "--scheduler", "tcp://x:1"], "--dask and --scheduler are given"),
        (["--shards", "out", "--lam", "two"], "--lam is 'two'"),
        (["--shards", "out", "--optimizer", "nobody"], "no optimizer 'nobody'"),
    ],
)
def test_options_that_do_not_go_together(refused, folder, options, line):
    assert line in refused("solve", folder, *options)


def test_progress_has_rate_and_time_left():
    from sureprox.cli.solve_many import line
    from sureprox.many import ManyProgress

    assert line(ManyProgress(3, 300, 10, 1000, 100, 2.0)) == "300 of 1,000 problems, 100/s, 7 s left"
    assert line(ManyProgress(3, 300, 6, None, 0, 3.0)) == "300 problems, 100/s, 3 s left"
    assert line(ManyProgress(3, 300, None, None, 0, 3.0)) == "300 problems, 100/s"
