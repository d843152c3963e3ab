"""`sureprox advise`."""

import json

import numpy as np
import pytest

RNG = np.random.default_rng(4)


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "p.npz", A=RNG.standard_normal((20, 10)), b=RNG.standard_normal((5, 20)), lam=1.0)
    return "p.npz"


def test_text_and_json(command, shelf, file):
    shelf("go-math-l2o/lasso")
    outcome = command("advise", file, "--budget", "60", "--device", "cpu")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out.startswith("5 lasso problems from p.npz: use ")
    for expected in ("restarted FISTA", "go-math-l2o/lasso", "per problem", "those it was trained on"):
        assert expected in outcome.out
    outcome = command("advise", file, "--budget", "60", "--device", "cpu", "--json", "--tol", "1e-4")
    assert (outcome.code, outcome.err) == (0, "")
    found = json.loads(outcome.out)
    assert (found["source"], found["problems"], found["tol"]) == ("p.npz", 5, 1e-4)
    whole = {entry["solver"]: entry["whole"] for entry in found["timings"] if entry["whole"] is not None}
    assert found["solver"] == min(whole, key=whole.get)
    assert found["familiarity"][0]["model"] == "go-math-l2o/lasso"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["missing.npz"], "missing.npz does not exist"),
        (["p.npz", "--model", "no/model"], "no model 'no/model'"),
        (["p.npz", "--budget", "0"], "budget is 0"),
        (["p.npz", "--sample", "0"], "sample is 0"),
        (["p.npz", "--tol", "2"], "tol is 2"),
        (["p.npz", "--kind", "logistic"], "has no 'y'"),
        (["p.npz", "--device", "tpu"], "device is 'tpu'"),
    ],
)
def test_what_is_wrong_is_one_line(refused, shelf, file, options, expected):
    shelf("go-math-l2o/lasso")
    assert expected in refused("advise", *options)
