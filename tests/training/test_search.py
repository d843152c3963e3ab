"""Searches: reproducible, resumed, pruned, and what fails is recorded."""

import json
import signal
import sys
from dataclasses import replace

import pytest
import torch

from helpers import refused
from sureprox.base.errors import ConfigError, InputError
from sureprox.training import Choice, Range, Recipe, default_space, preset, read_recipe, recipe_text, search, train
from sureprox.training.jobs import Ending, Job, drawn
from sureprox.training.space import applied, check_space, read_space, values_of
from sureprox.training.trials import STARTUP, Trial, run_trial
from training_cases import LASSO, bitwise, network, small_config, weights_of

pytest.importorskip("optuna")

SMALL = Recipe("go-math-l2o", network().arguments, LASSO, small_config())
RATES = {"learning_rate": Range(1e-7, 0.03, log=True), "arguments.hidden": Choice((2, 4)), "segment": Choice((2, 4))}


def quickly(out, recipe=SMALL, space=RATES, **options):
    return search(recipe, out, space=space, device="cpu", backend="plain", **options)


def found(made):
    """Everything but the seconds."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in made.rows()]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Eight trials, one after another."""
    out = tmp_path_factory.mktemp("whole")
    return out, quickly(out, trials=8)


def test_the_best_is_a_recipe_that_gives_its_loss_again(whole):
    out, made = whole
    assert [row.number for row in made.trials] == list(range(8))
    assert made.trials[0].values == values_of(SMALL, RATES)
    complete = [row for row in made.trials if row.ending == "completed"]
    assert len(complete) >= STARTUP
    assert made.best.best_validation == min(row.best_validation for row in complete)
    assert made.best.best_validation < max(row.best_validation for row in complete)
    best = read_recipe(out / "best.toml")
    assert best == replace(made.recipe, arguments=best.arguments)
    optimizer = drawn(best)
    result = train(optimizer, best.family, best.training, device="cpu", backend="plain")
    assert result.best_validation == made.best.best_validation
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["best"], summary["trials"]) == (made.best.number, made.rows())


def test_an_interrupted_search_is_the_same_search(tmp_path, monkeypatch, whole):
    """Ctrl-C in the middle of the third trial, and after the fifth; a call for fewer trials in between does nothing."""
    asked = iter(range(10_000))

    def interrupt():
        if next(asked) == 2 * 12 + 5:
            signal.raise_signal(signal.SIGINT)
        return False

    monkeypatch.setattr("sureprox.training.jobs.unwanted", interrupt)
    first = quickly(tmp_path, trials=8)
    assert first.interrupted
    assert [row.ending for row in first.trials] == ["completed", "completed", "interrupted"]
    monkeypatch.undo()

    def stop(row):
        if row.number == 4:
            raise KeyboardInterrupt

    second = quickly(tmp_path, trials=8, progress=stop)
    assert second.interrupted
    assert len(second.trials) == 5
    assert len(quickly(tmp_path, trials=3).trials) == 5
    with (tmp_path / "study.journal").open("a") as file:
        file.write('{"half a line')  # of a process that was killed
    assert found(quickly(tmp_path, trials=8)) == found(whole[1])


def test_a_finished_search_runs_nothing(whole):
    out, made = whole
    before = {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("*")}
    assert found(quickly(out, trials=8)) == found(made)
    assert {path: path.stat().st_mtime_ns for path in (out / "trials").rglob("*")} == before


@pytest.mark.filterwarnings("default")
def test_trials_on_a_cluster(tmp_path, workers):
    made = quickly(tmp_path, trials=4, cluster=workers, parallel=2, space={"learning_rate": Range(0.001, 0.03)})
    assert [row.ending for row in made.trials] == ["completed"] * 4
    best = applied(SMALL, made.best.values)
    result = train(drawn(best), LASSO, best.training, device="cpu", backend="plain")
    assert result.best_validation == made.best.best_validation


def test_a_trial_that_fails_is_recorded(tmp_path):
    heard = []
    made = quickly(tmp_path, trials=4, space={"batch": Choice((3, 10**12))}, progress=heard.append)
    endings = {row.values["batch"]: row.ending for row in made.trials}
    assert endings == {3: "completed", 10**12: "failed"}
    (error,) = {row.error for row in made.trials if row.ending is Ending.FAILED}
    assert error.startswith("a batch of 1000000000000 problems")
    assert made.best.values == {"batch": 3}
    assert tuple(heard) == made.trials


def test_values_that_do_not_go_together_are_a_failed_trial(tmp_path, monkeypatch):
    def check(optimizer, family, config):
        if config.segment == 4:
            raise ConfigError("not with a segment of 4")

    monkeypatch.setattr(sys.modules["sureprox.training.search"], "check_fit", check)
    heard = []
    made = quickly(tmp_path, trials=4, space={"segment": Choice((2, 4))}, progress=heard.append)
    assert tuple(heard) == made.trials
    assert {(row.values["segment"], row.error) for row in made.trials} == {(2, ""), (4, "not with a segment of 4")}


def judged(tmp_path, best: float, trials: int = STARTUP) -> Trial:
    """A trial after `trials` others that had reached `best` from the first batch on."""
    steps = tuple((batch, best) for batch in (0, 4, 8, 12))
    return Trial(0, Job("0000", SMALL, tmp_path, "cpu", "plain"), (steps,) * trials)


def test_a_trial_worse_than_the_median_is_given_up(tmp_path):
    told = run_trial(judged(tmp_path, -1.0))
    assert (told.outcome.ending, told.outcome.batches) == ("pruned", 4)  # the first tenth is not judged
    assert [batch for batch, _ in told.steps] == [0, 4]
    assert run_trial(judged(tmp_path, -1.0)) == told  # a worker that died before it could say so


@pytest.mark.parametrize(("best", "trials"), [(1e9, STARTUP), (-1.0, STARTUP - 1)])
def test_others_are_run_to_their_end(tmp_path, best, trials):
    told = run_trial(judged(tmp_path, best, trials))
    assert (told.outcome.ending, told.outcome.batches) == ("completed", 12)
    torch.manual_seed(0)
    alone = SMALL.build()
    train(alone, LASSO, SMALL.training, tmp_path / "alone", device="cpu", backend="plain")
    assert bitwise(weights_of(alone), torch.load(tmp_path / "checkpoint.pt")["best_weights"])


@pytest.mark.parametrize(
    ("space", "line"),
    [
        ({}, "the search varies nothing"),
        ({"lerning_rate": Range(0.1, 1.0)}, "unknown search key 'lerning_rate'; did you mean 'learning_rate'?"),
        ({"arguments.width": Choice((1, 2))}, "unknown search key 'arguments.width'"),
        ({"seed": Range(0, 9)}, "search key 'seed' is not varied"),
        ({"length": Choice((4, 8))}, "search key 'length' is not varied"),
        ({"learning_rate": Range(1.0, 0.1)}, "low = 1.0 and high = 0.1; low must be smaller"),
        ({"learning_rate": Range(0.0, 1.0, log=True)}, "low = 0.0 on a log scale; it must be > 0"),
        ({"learning_rate": Range(-1.0, 1.0)}, "reaches -1.0, which cannot be trained: learning_rate is -1.0"),
        ({"learning_rate": Range(0.1, float("inf"))}, "has high = inf"),
        ({"learning_rate": Range(0.1, 1.0, step=-1)}, "has step = -1"),
        ({"learning_rate": 0.1}, "is a float; pass a Range or a Choice"),
        ({"batch": Range(1.5, 3.0)}, "over numbers that are not whole"),
        ({"segment": Choice((2, 3))}, "reaches 3, which cannot be trained: length is 4"),
        ({"loss": Choice(("mean", "median"))}, "reaches 'median', which cannot be trained"),
        ({"clip": Choice(())}, "must list at least one"),
        ({"arguments.hidden": Choice((4, 0))}, "reaches 0, which cannot be trained"),
    ],
)
def test_bad_ranges_are_refused_before_anything_is_written(tmp_path, space, line):
    refused(lambda: quickly(tmp_path / "out", space=space), line, error=ConfigError)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"trials": 0}, "trials is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"parallel": True}, "parallel is True"),
        ({"backend": "x"}, "backend is 'x'"),
    ],
)
def test_bad_options_are_refused(tmp_path, options, line):
    refused(lambda: search(SMALL, tmp_path / "out", **options), line, error=ConfigError)


def test_another_search_in_the_directory_is_refused(whole):
    out, _ = whole
    refused(lambda: quickly(out, space={"clip": Range(0.1, 1.0)}), "begun with another space", error=ConfigError)
    refused(lambda: quickly(out, seed=1), "begun with another seed", error=ConfigError)
    other = replace(SMALL, training=small_config(batch=5))
    refused(lambda: quickly(out, recipe=other), "begun with another recipe", error=ConfigError)


def test_a_file_that_is_no_study_is_refused(tmp_path):
    (tmp_path / "study.journal").write_text("[1]\n[2]\n")
    refused(lambda: quickly(tmp_path), "is not a study", error=InputError)


def test_without_optuna_the_line_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    refused(lambda: quickly(tmp_path / "out"), "pip install optuna", error=InputError)
    assert not (tmp_path / "out").exists()


def test_spaces_from_files():
    table = {
        "learning_rate": {"low": 1e-3, "high": 0.1, "log": True},
        "clip": [0.0, 1.0],
        "arguments": {"hidden": {"low": 8, "high": 32, "step": 8}},
    }
    assert read_space(table) == {
        "learning_rate": Range(1e-3, 0.1, log=True),
        "clip": Choice((0.0, 1.0)),
        "arguments.hidden": Range(8, 32, step=8),
    }


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({}, "[search] must name what is varied"),
        ([], "[search] must name what is varied"),
        ({"clip": 1.0}, "search key 'clip' is 1.0; write a list"),
        ({"clip": {"low": 1.0}}, "needs both low and high"),
        ({"clip": {"low": 1.0, "high": 2.0, "steps": 1}}, "unknown search.clip key 'steps'; did you mean 'step'?"),
        ({"clip": {"low": "a", "high": 2.0}}, "has low = 'a'; it must be a number"),
        ({"clip": {"low": 1.0, "high": 2.0, "log": 1}}, "has log = 1"),
        ({"arguments": [1]}, "'arguments' must be a table"),
    ],
)
def test_bad_tables_are_refused(table, line):
    refused(lambda: read_space(table), line, error=ConfigError)


@pytest.mark.parametrize("name", ["lasso-7", "lasso-1", "logistic", "tiny", "sure-lasso", "sure-tiny"])
def test_the_default_ranges_hold_the_recipe(name):
    recipe = preset(name)
    space = default_space(recipe)
    check_space(space, recipe)
    assert values_of(recipe, space).keys() == space.keys()
    assert ("decay" in space) == (getattr(recipe.training, "epochs", 1) > 1)


@pytest.mark.parametrize(
    "recipe",
    [preset("lasso-3"), preset("logistic", "l2o-pa"), preset("tiny", "ada-lista", layers=3), preset("sure-logistic")],
    ids=lambda recipe: recipe.optimizer,
)
def test_recipes_as_text(tmp_path, recipe):
    (tmp_path / "r.toml").write_text(recipe_text(recipe))
    again = read_recipe(tmp_path / "r.toml")
    assert again == replace(recipe, arguments=recipe.build().arguments)
    refused(lambda: recipe_text(replace(recipe, family=object())), "family is a object", error=ConfigError)
