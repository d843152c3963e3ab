"""`sureprox solve`: results against scikit-learn, exit codes, and one line for everything that is wrong."""

import csv
import json
import os
import subprocess
import sys

import numpy as np
import pytest
import torch

import sureprox as sp

RNG = np.random.default_rng(3)
A, B = RNG.standard_normal((30, 20)), RNG.standard_normal((3, 30))


@pytest.fixture
def file(tmp_path):
    """Three LASSO problems with one matrix in problems.npz; other keys on request."""

    def save(**changes):
        content = {"A": A, "b": B, "lam": 2.0} | changes
        np.savez(tmp_path / "problems.npz", **{key: value for key, value in content.items() if value is not None})
        return "problems.npz"

    return save


def test_solutions_are_scikit_learns(command, file, tmp_path):
    linear_model = pytest.importorskip("sklearn.linear_model")
    outcome = command("solve", file(), "--tol", "1e-9", "--csv", "summary.csv")
    assert (outcome.code, outcome.err) == (0, "")
    for expected in (
        "3 converged",
        "3 lasso, 30 x 20, from problems.npz",
        "float64 on cpu",
        "solutions.npz",
    ):
        assert expected in outcome.out
    with np.load(tmp_path / "solutions.npz") as found:
        assert found["x"].shape == (3, 20)
        for x, b in zip(found["x"], B, strict=True):
            theirs = linear_model.Lasso(2.0 / 30, fit_intercept=False, tol=1e-12).fit(A, b).coef_
            np.testing.assert_allclose(x, theirs, atol=1e-6)
        values = 0.5 * ((found["x"] @ A.T - B) ** 2).sum(1) + 2.0 * np.abs(found["x"]).sum(1)
        np.testing.assert_allclose(found["objective"], values, rtol=1e-12)
        assert (found["gap"] <= 1e-9 * found["objective"]).all()
        assert found["status"].tolist() == ["converged"] * 3
        assert found["converged"].all()
        assert set(found["track"]) <= {"optimizer", "fista", "restarted fista", "start", "polish", "active set"}
        np.testing.assert_array_equal(found["lam"], [2.0] * 3)
        rows = list(csv.DictReader((tmp_path / "summary.csv").read_text().splitlines()))
        assert [int(row["iterations"]) for row in rows] == found["iterations"].tolist()
        assert [float(row["objective"]) for row in rows] == found["objective"].tolist()


def test_polish_can_be_left_out(command, file):
    tracks = []
    for option in ("--polish", "--no-polish"):
        outcome = command("solve", file(), "--tol", "1e-9", "--optimizer", "fista", option, "--json")
        assert outcome.code == 0
        tracks.append({instance["track"] for instance in json.loads(outcome.out)["instances"]})
    assert tracks[0] == {"polish"}
    assert "polish" not in tracks[1]


def test_json_is_all_there_is_on_stdout(command, file):
    outcome = command("solve", file(), "--json", "--no-certify", "--optimizer", "fista")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert (found["problems"], found["m"], found["n"], found["kind"]) == (3, 30, 20, "lasso")
    assert found["status"] == {"converged": 3}
    assert (found["optimizer"], found["certify"]) == ("fista", False)
    assert found["worst_relative_gap"] <= 1e-6
    assert [row["problem"] for row in found["instances"]] == [0, 1, 2]
    assert found["iterations"]["max"] == max(row["iterations"] for row in found["instances"])


def test_not_converged_is_exit_code_1_and_written(command, file, tmp_path):
    outcome = command("solve", file(), "--max-iter", "3", "--json")
    line = "sureprox: 3 of 3 problems did not converge within 3 iterations; raise --max-iter or --tol\n"
    assert (outcome.code, outcome.err) == (1, line)
    assert json.loads(outcome.out)["status"] == {"iteration_limit": 3}
    with np.load(tmp_path / "solutions.npz") as found:
        assert found["iterations"].tolist() == [3, 3, 3]
        assert not found["converged"].any()


def test_no_gap_is_no_number(command, file):
    """lam = 0: the gap says nothing, the KKT residual decides."""
    outcome = command("solve", file(lam=0.0), "--json")
    assert outcome.code == 0
    found = json.loads(outcome.out)
    assert found["worst_relative_gap"] is None or found["worst_relative_gap"] >= 0
    assert found["status"] == {"converged": 3}


def test_start_and_options_are_used(command, file, tmp_path):
    assert command("solve", file(), "--tol", "1e-10").code == 0
    with np.load(tmp_path / "solutions.npz") as found:
        x = found["x"]
    outcome = command("solve", file(x0=x), "--json", "--cheap", "--lam", "2", "--out", "again.npz")
    assert json.loads(outcome.out)["iterations"]["max"] == 0
    assert (tmp_path / "again.npz").exists()
    found = json.loads(command("solve", file(lam=None), "--lam-ratio", "1.0", "--dtype", "float32", "--json").out)
    assert found["dtype"] == "float32"
    with np.load(tmp_path / "solutions.npz") as made:
        assert not made["x"].any()


def test_pretrained_and_logistic(command, tmp_path):
    np.savez(tmp_path / "p.npz", A=A, y=B > 0, lam=0.05)
    outcome = command("solve", "p.npz", "--optimizer", "go-math-l2o/logistic", "--json", "--tol", "1e-4")
    assert outcome.code == 0
    assert json.loads(outcome.out)["kind"] == "logistic"
    with np.load(tmp_path / "solutions.npz") as found:
        problem = sp.logistic(A, B > 0, 0.05)
        torch.testing.assert_close(torch.tensor(found["objective"]), problem.objective(torch.tensor(found["x"])))
        best = sp.reference(problem).objective.numpy()
        assert (found["objective"] - best <= 1e-4 * best).all()


def test_many_problems_are_not_listed(command, tmp_path):
    np.savez(tmp_path / "p.npz", A=A, b=RNG.standard_normal((30, 30)), lam=3.0)
    outcome = command("solve", "p.npz", "--tol", "1e-3")
    assert outcome.code == 0
    assert "30 converged" in outcome.out
    assert "found by" not in outcome.out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["missing.npz"], "missing.npz does not exist"),
        ([], "Missing argument"),
        (["problems.npz", "problems.npz"], "cannot read problems"),
        (
            ["problems.npz", "--optimizer", "go-math-l2o/laso"],
            "no model 'go-math-l2o/laso'; did you mean 'go-math-l2o/lasso'?",
        ),
        (["problems.npz", "--optimizer", "ada-lista/lasso"], "this AdaLISTA solves LASSO with 250 rows"),
        (["problems.npz", "--device", "tpu"], "device is 'tpu'"),
        (["problems.npz", "--dtype", "float16"], "dtype is 'float16'"),
        (["problems.npz", "--lam", "much"], "--lam is 'much'"),
        (["problems.npz", "--lam", "-1"], "lam is -1"),
        (["problems.npz", "--lam", "1", "--lam-ratio", "1"], "both given"),
        (["problems.npz", "--kind", "logistic"], "has no 'y'"),
        (["problems.npz", "--kind", "ridge"], "kind is 'ridge'"),
        (["problems.npz", "--target", "x"], "--target goes with a table"),
        (["problems.npz", "--tol", "0"], "tol is 0.0"),
        (["problems.npz", "--tol", "small"], "Invalid value for '--tol'"),
        (["problems.npz", "--max-iter", "-1"], "max_iter is -1"),
        (["problems.npz", "--cheap", "--no-certify"], "choose one"),
        (["problems.npz", "--out", "no/where.npz"], "there is no directory no"),
        (["problems.npz", "--out", "."], "it is a directory"),
        (["problems.npz", "--out", "problems.npz"], "would be written over what is read"),
        (["problems.npz", "--out", "same", "--csv", "same"], "given for two results"),
        (["problems.npz", "--csv", "problems.npz/s.csv"], "there is no directory"),
        (["problems.npz", "--certfy"], "No such option"),
    ],
)
def test_what_is_wrong_is_one_line_and_writes_nothing(refused, file, options, expected):
    file()
    assert expected in refused("solve", *options)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"A": None, "X": A}, "has no 'A' (it holds b, lam, X)"),
        ({"lam": None}, "there is no lam; give --lam"),
        ({"b": B[:, :9]}, "b has shape (3, 9); A of shape (30, 20) needs"),
        ({"b": B * np.nan}, "b has 90 entries that are NaN or infinite"),
        ({"A": A.astype(object)}, "a pickle which could run code"),
    ],
)
def test_wrong_content_is_one_line_and_writes_nothing(refused, file, changes, expected):
    assert expected in refused("solve", file(**changes))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu_is_one_line(refused, file):
    assert "torch finds no GPU here" in refused("solve", file(), "--device", "cuda")


def test_failing_while_writing_leaves_the_old_file(command, file, tmp_path, monkeypatch):
    (tmp_path / "solutions.npz").write_text("old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    outcome = command("solve", file())
    assert outcome.code == 2
    assert "No space left" in outcome.err
    assert (tmp_path / "solutions.npz").read_text() == "old"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["problems.npz", "solutions.npz"]


def test_help_names_every_command_and_the_exit_codes(command):
    listed = command("--help").out
    for name in ("demo", "models", "solve", "advise", "train", "evaluate", "reproduce", "audit", "bench"):
        (line,) = [line for line in listed.splitlines() if line.split()[1:2] == [name]]
        assert len(line.split()) > 4
    text = command("solve", "--help").out
    for expected in ("0 every problem converged", "1 some did not", "2 the input or an option cannot be used"):
        assert expected in text


def test_shell_completion():
    """As bash asks for it: commands, options, and the names of optimizers."""

    def completed(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_SUREPROX_COMPLETE": "complete_bash"}
        code = "from sureprox.cli import main; main()"
        command = [sys.executable, "-c", code]
        result = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, timeout=240)
        return result.stdout.split()

    assert completed("sureprox so") == ["solve"]
    assert completed("sureprox solve x.npz --optimizer go-math-l2o/lo") == ["go-math-l2o/logistic"]
