"""`sureprox sweep`."""

import json
from pathlib import Path

import pytest

import sureprox as sp
from sureprox.cli.sweep import chosen, chosen_seeds
from sureprox.training import preset, preset_names

SMALL = ("--set", "batches=2", "--set", "batch=4", "--set", "validation=4", "--device", "cpu", "--out", "out")


def test_presets_and_files_and_again(command):
    Path("mine.toml").write_text('preset = "tiny"\noptimizer = "l2o-pa"\n[arguments]\nhidden = 4\n')
    outcome = command("sweep", "tiny", "mine.toml", *SMALL)
    assert (outcome.code, outcome.err) == (0, "")
    assert "mine: best validation" in outcome.out
    assert f"summary: {Path('out/summary.json')}" in outcome.out
    assert sp.load("out/mine/model").kind == "l2o-pa"
    assert sp.load("out/tiny/model").kind == "go-math-l2o"
    again = command("sweep", "tiny", "mine.toml", *SMALL, "--json")
    found = json.loads(again.out)
    assert [(row["name"], row["ending"], row["earlier"]) for row in found["runs"]] == [
        ("tiny", "completed", True),
        ("mine", "completed", True),
    ]


def test_a_recipe_that_fails_is_exit_code_1(command):
    Path("large.toml").write_text('preset = "tiny"\n[family]\nm = 200000\nn = 200000\n')
    outcome = command("sweep", "large.toml", "tiny", "--seeds", "1", *SMALL)
    assert outcome.code == 1
    assert "failed: large/seed-1: a batch of 4 problems of 200000 x 200000 needs" in outcome.out
    assert sp.optimizers.read_card("out/tiny/seed-1/model").seed == 1


def test_names_and_patterns():
    assert list(chosen(["lasso-1?", "tiny"], None, [], [], None)) == [*(f"lasso-1{k}" for k in range(10)), "tiny"]
    assert len(chosen(["lasso-*"], "rnnprop", [], [], "0,1")) == 52
    everything = chosen(["all-settings"], None, ["gradient_map=std"], ["batch=8"], None)
    assert everything["go-math-l2o/lasso"].arguments["gradient_map"] == "std"
    assert {recipe.training.batch for recipe in everything.values()} == {8}
    assert chosen(["tiny", "tiny"], None, [], [], None) == {"tiny": preset("tiny")}
    assert "lasso-1" in preset_names()


def test_seeds():
    assert chosen_seeds(None) == ()
    assert chosen_seeds("3,0-2, 2") == (3, 0, 1, 2)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["lasso-99"], "preset is 'lasso-99'; did you mean"),
        (["nothing-*"], "preset is 'nothing-*'; choose one of"),
        (["absent.toml"], "cannot read absent.toml: No such file"),
        (["a.toml", "b/a.toml"], "two recipes are called a; rename one of the files"),
        (["a.toml", "--optimizer", "l2o-pa"], "a.toml is given with --optimizer or --argument"),
        (["tiny", "--seeds", "2-1"], "--seeds is '2-1'; write whole numbers"),
        (["tiny", "--seeds", "0-99999999999"], "--seeds is '0-99999999999'; at most 1,000"),
        (["tiny", "--set", "lerning_rate=1"], "unknown training key 'lerning_rate'; did you mean 'learning_rate'?"),
        (["tiny", "--backend", "magic"], "backend is 'magic'"),
        (["tiny", "--device", "tpu"], "device is 'tpu'"),
        (["tiny", "--dask", "tcp:"], "cluster 'tcp:' cannot be reached"),
    ],
)
def test_what_is_refused(refused, tmp_path, words, line):
    (tmp_path / "a.toml").write_text('preset = "tiny"\n')
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "a.toml").write_text('preset = "sure-tiny"\n')
    assert line in refused("sweep", *words, "--out", "out")
