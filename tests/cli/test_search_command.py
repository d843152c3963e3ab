"""`sureprox search`."""

import json
from pathlib import Path

import pytest

pytest.importorskip("optuna")

FILE = """
preset = "tiny"
[arguments]
hidden = 4
layers = 1
[training]
batches = 3
batch = 4
validation = 4
[search]
learning_rate = {low = 1e-4, high = 0.1, log = true}
arguments.hidden = [2, 4]
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "mine.toml").write_text(FILE)
    return "mine.toml"


def test_a_search_goes_on_and_its_best_is_trained(command, file):
    first = command("search", file, "--out", "out", "--trials", "2", "--device", "cpu")
    assert (first.code, first.err) == (0, "")
    assert "trial 0: completed, best validation" in first.out
    assert f"train it with: sureprox train --config {Path('out/best.toml')}" in first.out
    second = command("search", file, "--out", "out", "--trials", "3", "--device", "cpu", "--json")
    assert second.code == 0
    found = json.loads(second.out)
    assert [trial["number"] for trial in found["trials"]] == [0, 1, 2]
    assert "trial 0: completed" not in second.err
    assert "trial 2: completed" in second.err
    best = found["trials"][found["best"]]
    assert best["best_validation"] == min(trial["best_validation"] for trial in found["trials"])
    trained = command("train", "--config", "out/best.toml", "--out", "best", "--device", "cpu")
    assert f"best validation loss {best['best_validation']:.6g}" in trained.out


def test_no_trial_completed_is_exit_code_1(command, tmp_path):
    (tmp_path / "large.toml").write_text(
        'preset = "tiny"\n[family]\nm = 200000\nn = 200000\n[search]\nclip = [0.1, 1.0]\n'
    )
    outcome = command("search", "large.toml", "--out", "out", "--trials", "2", "--device", "cpu")
    assert outcome.code == 1
    assert "trial 1: failed: a batch of 16 problems of 200000 x 200000 needs" in outcome.out
    assert "no trial was completed" in outcome.out
    assert not Path("out/best.toml").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["lasso-99"], "preset is 'lasso-99'"),
        (["absent.toml"], "cannot read absent.toml"),
        (["mine.toml", "--optimizer", "l2o-pa"], "mine.toml is given with --optimizer or --argument"),
        (["bad.toml"], "search key 'clip' has low = 2.0 and high = 1.0; low must be smaller"),
        (["tiny", "--trials", "0"], "Invalid value for '--trials'"),
        (["tiny", "--device", "tpu"], "device is 'tpu'"),
        (["tiny", "--dask", "tcp:"], "cluster 'tcp:' cannot be reached"),
    ],
)
def test_what_is_refused(refused, file, tmp_path, words, line):
    (tmp_path / "bad.toml").write_text('preset = "tiny"\n[search]\nclip = {low = 2.0, high = 1.0}\n')
    assert line in refused("search", *words, "--out", "out")
