"""Whole runs in which batches go wrong: counted, survived, and given up when there are too many."""

import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.training import Recipe, train
from sureprox.training.checkpoint import Checkpoint
from sureprox.training.config import family_dict
from sureprox.training.run import PATIENCE
from training_cases import LASSO, Poisoned, bitwise, network, of_kind, small_config, unrolled_run, weights_of

SELDOM = 1000  # batches between validations: only the first and the last


class Watched:
    """A run whose weights are noted after every batch."""

    def __init__(self, *bad: int, **changes):
        self.optimizer = network()
        self.first = weights_of(self.optimizer)
        self.events, self.after = [], {}
        self.run = unrolled_run(self.optimizer, Poisoned(*bad), small_config(**changes), self.note)
        self.result = self.run.go()

    def note(self, event):
        self.events.append(event)
        if event["event"] == "batch":
            self.after[event["batch"]] = weights_of(self.optimizer)

    def of_kind(self, kind):
        return of_kind(self.events, kind)


def test_a_failed_batch_changes_nothing_and_its_neighbours_go_on():
    watched = Watched(5)
    batches = watched.of_kind("batch")
    assert [event["batch"] for event in batches if event["skipped"]] == [5]
    assert (batches[4]["loss"], batches[4]["gradient"], batches[4]["segments"]) == (None, None, 0)
    assert bitwise(watched.after[5], watched.after[4])
    assert not bitwise(watched.after[6], watched.after[5])
    assert all(event["segments"] == 2 and event["loss"] > 0 for event in batches if not event["skipped"])
    assert watched.result.completed
    assert watched.result.failures == 1


def test_after_a_failed_batch_the_run_goes_on_as_if_the_batch_had_not_been():
    """Weights, momentum and count: batch 2 fails, and the next is taken as the second one."""
    watched = Watched(2, batches=3, epochs=1)
    assert int(watched.run.meta.count) == 2 * 2
    assert watched.result.batches == 3


def test_too_many_failures_end_the_run_with_one_line(tmp_path):
    optimizer, family, config = network(), Poisoned(3, 6, 8), small_config(max_failures=2, validate_every=SELDOM)
    first = weights_of(optimizer)
    refused(
        lambda: train(optimizer, family, config, tmp_path, device="cpu"),
        "3 batches",
        "max_failures = 2",
        "lower the learning rate",
        error=sp.TrainingError,
    )
    assert bitwise(weights_of(optimizer), first)  # only batch 0 was validated: the best weights, as the message says
    recipe = Recipe(optimizer.kind, optimizer.arguments, family, config)
    found = Checkpoint.load(tmp_path / "checkpoint.pt", recipe.as_dict())
    assert (found.progress.batch, found.progress.failures) == (8, 3)
    assert not bitwise(found.weights, first)


def test_as_many_failures_as_allowed_are_survived():
    assert Watched(3, 6, 8, max_failures=3).result.failures == 3


def test_after_some_failures_in_a_row_the_best_weights_come_back():
    watched = Watched(4, 5, 6, validate_every=SELDOM)
    assert PATIENCE == 3
    assert not bitwise(watched.after[3], watched.first)
    assert bitwise(watched.after[6], watched.after[3])  # the weights change after the event of the batch
    (note,) = watched.of_kind("note")
    assert note["batch"] == 6
    assert "back to the weights of batch 0" in note["text"]
    assert int(watched.run.meta.count) == 2 * 6  # only the batches after it: the momentum was forgotten
    moved = max(float((watched.after[7][k] - watched.first[k]).abs().max()) for k in watched.first)
    assert moved <= 2.5 * 0.01  # two steps of Adam at rate 0.01 from the first weights


def test_without_a_finite_validation_nothing_is_taken_back():
    watched = Watched(0, 4, 5, 6, validate_every=SELDOM)
    assert watched.of_kind("note") == []
    assert int(watched.run.meta.count) == 2 * 9
    validations = watched.of_kind("validation")
    assert [event["loss"] for event in validations] == [None, None]
    assert watched.result.best_validation == float("inf")


def test_a_good_batch_between_failures_starts_the_count_anew():
    watched = Watched(4, 5, 7, 8, validate_every=SELDOM)
    assert watched.of_kind("note") == []
    assert watched.result.failures == 4


def test_a_diverging_batch_ends_early_and_is_no_failure(monkeypatch):
    monkeypatch.setattr("sureprox.training.segment.Course.DIVERGED", 0.0)  # every finite loss counts as diverged
    watched = Watched()
    assert [event["segments"] for event in watched.of_kind("batch")] == [1] * 12
    assert not any(event["skipped"] for event in watched.of_kind("batch"))
    assert watched.result.failures == 0
    assert watched.result.completed


def test_a_family_of_the_users_own_is_described_by_its_class():
    assert family_dict(Poisoned()) == {"name": "Poisoned"}
    assert family_dict(LASSO) == {"name": "lasso", "m": 6, "n": 8, "nonzeros": 2, "lam": 0.1}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_run_works_in_the_precision_of_its_config(dtype):
    watched = Watched(dtype=dtype, batches=1, epochs=1)
    assert {value.dtype for value in watched.after[1].values()} == {getattr(torch, dtype)}
    assert watched.run.validation.dtype == getattr(torch, dtype)
