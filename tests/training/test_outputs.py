"""What a run validates on, keeps and writes: fixed set, best weights, card, log, TensorBoard."""

import json
from dataclasses import replace
from datetime import date

import pytest
import torch
from safetensors.torch import save as serialise

import sureprox as sp
from sureprox.optimizers.weights import _parse as parse
from sureprox.optimizers.weights import read_card
from sureprox.training import Recipe, read_log, train
from sureprox.training.segment import validation_loss
from sureprox.training.unrolled import UnrolledRun
from training_cases import (
    LASSO,
    Poisoned,
    bitwise,
    network,
    of_kind,
    small_config,
    strict_lines,
    unrolled_run,
    weights_of,
)


def test_the_validation_set_is_the_same_in_every_run():
    runs = [
        unrolled_run(network(kind, seed), LASSO, small_config(**changes))
        for kind, seed, changes in (
            ("go-math-l2o", 0, {}),
            ("go-math-l2o", 3, {"learning_rate": 0.5, "batch": 7, "segment": 4}),
            ("rnnprop", 1, {"epochs": 5}),
        )
    ]
    for run in runs[1:]:
        assert all(map(torch.equal, run.validation.tensors(), runs[0].validation.tensors()))
        assert torch.equal(run.validation_state.x, runs[0].validation_state.x)
    other = unrolled_run(network(), LASSO, small_config(seed=1))
    assert not torch.equal(other.validation.f.A, runs[0].validation.f.A)


def test_validation_problems_are_not_training_problems():
    class Noting(Poisoned):
        def sample(self, *args):
            drawn.append(super().sample(*args))
            return drawn[-1]

    drawn = []
    unrolled_run(network(), Noting(), small_config(batch=4, batches=3, epochs=1)).go()
    rows = [problem.f.b for problem in drawn]
    assert len(rows) == 4
    assert not any(torch.equal(rows[i], rows[j]) for i in range(4) for j in range(i))


def test_validation_event_is_the_validation_loss():
    events, optimizer = [], network()
    run = unrolled_run(optimizer, LASSO, small_config(), events.append)
    expected = [float(value) for value in validation_loss(run.validation, optimizer, run.validation_state, 4)]
    run.go()
    first = of_kind(events, "validation")[0]
    assert first["batch"] == 0
    assert [first["loss"], first["final"]] == pytest.approx(expected, rel=1e-6)


def test_training_starts_from_the_memory_of_the_config_and_validation_from_that_of_the_optimizer():
    first, trained = weights_of(network()), {}
    for memory in ("zeros", "paper"):
        optimizer = network()
        run = unrolled_run(optimizer, LASSO, small_config(initial_state=memory))
        assert (run.trainee.initial_state, optimizer.initial_state) == (memory, "zeros")
        assert not bool(run.validation_state.h.any())
        run.go()
        trained[memory] = weights_of(optimizer)
        assert not bitwise(trained[memory], first)  # the trainee shares its weights
    assert not bitwise(trained["zeros"], trained["paper"])


def test_validations_come_at_the_start_every_few_batches_and_at_the_end():
    events = []
    unrolled_run(network(), LASSO, small_config(validate_every=5), events.append).go()
    assert [event["batch"] for event in of_kind(events, "validation")] == [0, 5, 10, 12]
    rates = [event["rate"] for event in of_kind(events, "batch")]
    assert rates == pytest.approx([0.01] * 6 + [0.001] * 6)


@pytest.mark.parametrize(("losses", "best"), [([5, 3, 4, 6], 4), ([5, 6, 7, 8], 0), ([5, 4, 3, 2], 12)])
def test_the_weights_of_the_smallest_validation_loss_are_kept(tmp_path, monkeypatch, losses, best):
    seen, values, optimizer = {}, iter(losses), network()

    def judge(self):
        seen[self.progress.batch] = weights_of(optimizer)
        value = torch.tensor(float(next(values)))
        return value, value + 100

    monkeypatch.setattr(UnrolledRun, "validate", judge)
    result = train(optimizer, LASSO, small_config(), tmp_path, device="cpu")
    assert (result.best_batch, result.best_validation) == (best, min(losses))
    assert bitwise(weights_of(optimizer), seen[best])
    assert bitwise(weights_of(sp.load(tmp_path / "model")), seen[best])
    assert not any(bitwise(seen[best], other) for batch, other in seen.items() if batch != best)
    assert not optimizer.training


def test_a_validation_that_is_not_finite_is_never_the_best(monkeypatch):
    values = iter([5.0, float("nan"), 4.0, float("-inf") * 0])
    monkeypatch.setattr(UnrolledRun, "validate", lambda self: (torch.tensor(next(values)), torch.tensor(1.0)))
    events = []
    result = train(network(), LASSO, small_config(), device="cpu", listeners=[events.append])
    assert (result.best_batch, result.best_validation) == (8, 4.0)
    assert [event["loss"] for event in of_kind(events, "validation")] == [5.0, None, 4.0, None]


def test_the_model_and_its_card(tmp_path):
    optimizer, config = network("l2o-pa", activation="softplus"), small_config(seed=3, loss="weighted")
    result = train(optimizer, LASSO, config, tmp_path, device="cpu")
    card = read_card(tmp_path / "model")
    recipe = Recipe("l2o-pa", optimizer.arguments, LASSO, config).as_dict()
    assert (card.optimizer, card.arguments, card.family) == ("l2o-pa", recipe["arguments"], recipe["family"])
    assert card.training == recipe["training"] | {"backend": "plain", "device": "cpu"}
    assert (card.seed, card.version) == (3, sp.__version__)
    assert abs((date.fromisoformat(card.date) - date.today()).days) <= 1
    assert card.metrics == {
        "validation_loss": result.best_validation,
        "best_batch": result.best_batch,
        "failed_batches": 0,
        "seconds": round(result.seconds, 1),
    }
    assert result.seconds > 0
    loaded = sp.load(tmp_path / "model")
    assert bitwise(weights_of(loaded), weights_of(optimizer))
    assert loaded.arguments == optimizer.arguments


def test_the_log_is_json_without_nan_and_tells_everything(tmp_path):
    events, optimizer = [], network()
    train(optimizer, Poisoned(0, 2, 5), small_config(), tmp_path, device="cpu", listeners=[events.append])
    lines = strict_lines(tmp_path / "log.jsonl")
    assert lines == events == read_log(tmp_path / "log.jsonl")
    assert [line["event"] for line in (lines[0], lines[-1])] == ["start", "end"]
    described = Recipe(optimizer.kind, optimizer.arguments, Poisoned(), small_config()).as_dict()
    assert lines[0]["recipe"] == described
    assert (lines[0]["backend"], lines[0]["device"]) == ("plain", "cpu")
    assert lines[0]["machine"].startswith("CPU ")
    assert date.fromisoformat(lines[0]["date"]).year >= 2026
    assert [line["batch"] for line in of_kind(lines, "batch")] == list(range(1, 13))
    assert [line["loss"] for line in of_kind(lines, "validation")] == [None] * 4
    assert lines[-1] == {
        "event": "end",
        "batch": 12,
        "seconds": lines[-1]["seconds"],
        "completed": True,
        "failures": 2,
        "best": None,
    }
    times = [line["seconds"] for line in lines]
    assert times == sorted(times)
    assert times[-1] > 0


def test_a_last_line_cut_off_by_a_crash_is_left_out(tmp_path):
    path = tmp_path / "log.jsonl"
    path.write_text(json.dumps({"event": "batch"}) + "\n" + '{"event": "val')
    assert read_log(path) == [{"event": "batch"}]


def test_without_a_directory_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    train(network(), LASSO, small_config(), device="cpu")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("default")  # not ours: TensorBoard's own imports
def test_tensorboard_has_the_scalars_of_the_log(tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    config = replace(small_config(), batches=2)
    train(network(), LASSO, config, tmp_path, device="cpu", tensorboard=True)
    found = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    lines = read_log(tmp_path / "log.jsonl")
    for kind, name in (("batch", "loss"), ("batch", "gradient"), ("batch", "rate"), ("validation", "loss")):
        scalars = [(scalar.step, scalar.value) for scalar in found.Scalars(f"{kind}/{name}")]
        expected = [(line["batch"], line[name]) for line in of_kind(lines, kind)]
        assert [step for step, _ in scalars] == [step for step, _ in expected]
        assert [value for _, value in scalars] == pytest.approx([value for _, value in expected], rel=1e-5)


@pytest.mark.parametrize("second", [2, 3, 4, 5])
def test_a_model_whose_length_begins_like_a_pickle_is_read(second):
    """A safetensors file begins with the length of its header, here 0x80 and the number of a pickle protocol."""
    weights = {"w": torch.arange(3.0)}
    size = 0x80 + 256 * second
    found = next(
        data for pad in range(size) if (data := serialise(weights, {"pad": "x" * pad}))[:2] == bytes([0x80, second])
    )
    assert bitwise(parse(found, "model"), weights)
