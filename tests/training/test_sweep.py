"""Sweeps: every recipe once, resumed after anything, and the same weights wherever they are trained."""

import json
import os
import signal
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import sureprox as sp
from cluster_cases import hold_runs
from helpers import refused
from sureprox.base.errors import ConfigError, SureproxError
from sureprox.training import Recipe, paper_settings, preset, read_log, settings, sweep, train, with_seeds
from sureprox.training.jobs import drawn
from training_cases import LASSO, bitwise, network, of_kind, small_config, timeless, weights_of

SMALL = Recipe("go-math-l2o", network().arguments, LASSO, small_config())
TOO_LARGE = replace(SMALL, training=small_config(batch=10**12))
LONG = replace(SMALL, training=small_config(batches=80, validate_every=50, checkpoint_every=10))


def quickly(recipes, out, **options):
    return sweep(recipes, out, device="cpu", backend="plain", **options)


def model(out: Path, name: str):
    return weights_of(sp.load(out / name / "model"))


def test_every_recipe_once_and_as_train_does_it(tmp_path):
    recipes = with_seeds({"a": SMALL}, (0, 3))
    heard = []
    watched = []
    made = quickly(
        recipes, tmp_path / "out", progress=heard.append, watch=lambda name, batch: watched.append((name, batch))
    )
    assert made.completed
    assert tuple(heard) == made.outcomes
    assert [entry for entry in watched if entry[1]] == [(name, batch) for name in recipes for batch in (4, 8, 12)]
    assert [row["name"] for row in made.rows()] == ["a/seed-0", "a/seed-3"]
    for name, recipe in recipes.items():
        torch.manual_seed(recipe.training.seed)
        alone = recipe.build()
        result = train(alone, LASSO, recipe.training, device="cpu", backend="plain")
        assert bitwise(model(tmp_path / "out", name), weights_of(alone))
        (outcome,) = [row for row in made.outcomes if row.name == name]
        assert (outcome.best_validation, outcome.best_batch) == (result.best_validation, result.best_batch)
    assert made.best == min(made.outcomes, key=lambda row: row.best_validation)
    written = json.loads((tmp_path / "out" / "summary.json").read_text())["runs"]
    assert [{key: row[key] for key in row if key != "recipe"} for row in written] == made.rows()


def test_what_is_done_stays_done(tmp_path):
    quickly({"a": SMALL}, tmp_path)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "a").iterdir() if path.name != ".lock"}
    made = quickly({"a": SMALL, "b": replace(SMALL, training=small_config(seed=1))}, tmp_path)
    assert [row.earlier for row in made.outcomes] == [True, False]
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_failure_loses_no_other_recipe(tmp_path):
    made = quickly({"a": TOO_LARGE, "b": SMALL}, tmp_path)
    assert [row.ending for row in made.outcomes] == ["failed", "completed"]
    assert made.outcomes[0].error.startswith("a batch of 1000000000000 problems of 6 x 8 needs")
    (told,) = [row for row in json.loads((tmp_path / "summary.json").read_text())["runs"] if row["name"] == "a"]
    assert (told["ending"], told["error"]) == ("failed", made.outcomes[0].error)


def test_an_interrupted_sweep_goes_on(tmp_path, monkeypatch):
    """Ctrl-C during the first of two: it ends with a checkpoint, the second is not begun; then both are as ever."""
    recipes = {"a": SMALL, "b": replace(SMALL, training=small_config(seed=1))}
    wanted = iter([True] * 4 + [False] * 100)

    def interrupt():
        if not next(wanted):
            signal.raise_signal(signal.SIGINT)
        return False

    monkeypatch.setattr("sureprox.training.jobs.unwanted", interrupt)
    made = quickly(recipes, tmp_path / "out")
    assert [(row.ending, row.batches) for row in made.outcomes] == [("interrupted", 5), ("waiting", 0)]
    monkeypatch.undo()
    assert quickly(recipes, tmp_path / "out").completed
    quickly(recipes, tmp_path / "whole")
    for name in recipes:
        assert bitwise(model(tmp_path / "out", name), model(tmp_path / "whole", name))


@pytest.mark.filterwarnings("default")
def test_a_worker_is_killed(tmp_path, workers):
    """Its recipe goes on elsewhere from the checkpoint, to the bits of a sweep that nothing happened to."""
    recipes = with_seeds({"a": LONG}, (0, 1))
    whole = quickly(recipes, tmp_path / "whole")
    victims = list(workers.run(os.getpid).values())
    held, ended = tmp_path / "held", threading.Event()
    held.touch()  # however late the kill comes, no run has come to its end
    workers.run(hold_runs, str(held))

    def kill():
        while not all(batches(tmp_path / "out" / name) >= 10 for name in recipes):
            if ended.wait(0.005):
                return
        os.kill(victims[0], signal.SIGKILL)
        held.unlink()

    killer = threading.Thread(target=kill)
    killer.start()
    watched = set()
    try:
        made = quickly(recipes, tmp_path / "out", cluster=workers, watch=lambda name, batch: watched.add((name, batch)))
    finally:
        ended.set()
        killer.join(60)
        workers.run(hold_runs, None)
    assert made.completed
    assert {(name, batch) for name in recipes for batch in (50, 100)} <= watched
    starts = [of_kind(read_log(tmp_path / "out" / name / "log.jsonl"), "start") for name in recipes]
    assert sorted(len(told) for told in starts) == [1, 2]
    assert [told[-1]["batch"] > 0 for told in starts if len(told) == 2] == [True]
    numbers = ("name", "ending", "best_validation", "best_batch", "batches", "failures")
    assert [[row[key] for key in numbers] for row in made.rows()] == [
        [row[key] for key in numbers] for row in whole.rows()
    ]
    for name in recipes:
        assert bitwise(model(tmp_path / "out", name), model(tmp_path / "whole", name))
        ours, theirs = (read_log(tmp_path / run / name / "log.jsonl") for run in ("out", "whole"))
        assert timeless(ours) == timeless(theirs)


def batches(run: Path) -> int:
    path = run / "checkpoint.pt"
    return torch.load(path)["progress"]["batch"] if path.exists() else -1


def test_a_task_whose_workers_all_die_is_told(tmp_path, monkeypatch):
    lost = SureproxError("a task was given up after its worker died 4 times")
    module = sys.modules["sureprox.training.sweep"]  # its name is that of the function too
    monkeypatch.setattr(module, "done_on", lambda cluster, function, jobs, at_once: ((job, lost) for job in jobs))
    (outcome,) = quickly({"a": SMALL}, tmp_path).outcomes
    assert (outcome.ending, outcome.error) == ("failed", str(lost))


@pytest.mark.parametrize(
    ("recipes", "line"),
    [
        ({}, "no recipes are given"),
        ({"../a": SMALL}, "a recipe is called '../a'"),
        ({"a": SMALL, "a/b": SMALL}, "the directory of recipe a/b would lie in that of a"),
        ({"a": "lasso-1"}, "recipe a is a str"),
        ({"a": replace(SMALL, arguments={"hidden": -1})}, "recipe a: go-math-l2o cannot be built"),
        ({"a": replace(SMALL, optimizer="sure", arguments={})}, "recipe a: sure is trained with a StreamConfig"),
    ],
)
def test_bad_recipes_are_refused_before_anything_is_written(tmp_path, recipes, line):
    refused(lambda: quickly(recipes, tmp_path / "out"), line, error=ConfigError)
    assert not (tmp_path / "out").exists()


def test_runs_of_other_recipes_are_refused(tmp_path):
    quickly({"a": SMALL}, tmp_path)
    other = replace(SMALL, training=small_config(seed=5))
    refused(lambda: quickly({"a": other}, tmp_path), "another recipe (training.seed differ)", error=ConfigError)


def test_the_settings_of_the_paper():
    recipes = paper_settings()
    assert len(recipes) == len(settings()) == 24
    assert recipes["go-math-l2o/lasso"] == preset("lasso-7")
    assert recipes["go-math-l2o/lasso-setting-24"] == preset("lasso-24")


def test_drawn_weights_leave_the_default_generator_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, second = drawn(SMALL), drawn(SMALL)
    assert torch.equal(torch.get_rng_state(), before)
    assert bitwise(weights_of(first), weights_of(second))
