"""Ada-LISTA grows layer by layer: what each stage may change, and that it learns."""

import pytest
import torch

from helpers import lam_max, relative_error
from sureprox.optimizers import FISTA
from sureprox.solve.solve import solve
from sureprox.training import Recipe, train
from sureprox.training.layerwise import LayerwiseRun
from training_cases import CPU, LASSO, bitwise, changed, layerwise_config, network, of_kind, weights_of

SELDOM = 1000


def layerwise_run(optimizer, config, *listeners) -> LayerwiseRun:
    recipe = Recipe("ada-lista", optimizer.arguments, LASSO, config)
    return LayerwiseRun(recipe, optimizer, CPU, None, list(listeners), False)


@pytest.fixture(scope="module")
def history():
    """Weights before the first and after every batch; three layers, two updates a stage."""
    optimizer = network("ada-lista", layers=3)
    seen = [weights_of(optimizer)]

    def note(event):
        if event["event"] == "batch":
            seen.append(weights_of(optimizer))

    layerwise_run(optimizer, layerwise_config(layers=3, steps=2, validate_every=SELDOM), note).go()
    assert len(seen) == 3 * 3 * 2 + 1
    return seen


def own(layer: int) -> set[str]:
    return {f"step_sizes.{layer}", f"thresholds.{layer}"}


@pytest.mark.parametrize("layer", range(3))
def test_the_first_stage_learns_the_new_layer_alone(history, layer):
    start, end = history[6 * layer : 6 * layer + 3 : 2]
    assert changed(start, end) == own(layer)


@pytest.mark.parametrize("layer", range(3))
@pytest.mark.parametrize("stage", [1, 2])
def test_later_stages_learn_everything_up_to_the_layer(history, layer, stage):
    at = 6 * layer + 2 * stage
    expected = {"W1", "W2"}.union(*(own(below) for below in range(layer + 1)))
    assert changed(history[at], history[at + 2]) == expected


@pytest.mark.parametrize("layer", [1, 2])
def test_a_new_layer_starts_where_the_one_before_has_arrived(history, layer):
    """One update of Adam moves every learned number by the rate, 0.003."""
    before, after = history[6 * layer], history[6 * layer + 1]
    for name in ("step_sizes", "thresholds"):
        moved = float((after[f"{name}.{layer}"] - before[f"{name}.{layer - 1}"]).abs())
        assert moved == pytest.approx(0.003, rel=1e-2)


def test_momentum_is_forgotten_from_stage_to_stage():
    """Right after the start of a stage Adam has counted one step."""
    counts = []
    run = layerwise_run(network("ada-lista"), layerwise_config(), lambda event: event)
    run.listeners.append(lambda e: counts.append(int(run.meta.count)) if e["event"] == "batch" else None)
    run.go()
    assert counts == [1, 2, 3] * 6


def test_validation_repeats_the_newest_layer():
    optimizer = network("ada-lista", layers=3)
    run = layerwise_run(optimizer, layerwise_config(layers=3))
    with torch.no_grad():
        optimizer.step_sizes[0].fill_(0.3)
    run.validate()
    assert [float(value.detach()) for value in optimizer.step_sizes] == pytest.approx([0.3] * 3)
    run.progress.batch = 10  # in the second layer
    with torch.no_grad():
        optimizer.step_sizes[1].fill_(0.1)
    run.validate()
    assert [float(value.detach()) for value in optimizer.step_sizes] == pytest.approx([0.3, 0.1, 0.1])


def test_the_loss_is_the_relative_distance_to_the_solution():
    optimizer = network("ada-lista")
    run = layerwise_run(optimizer, layerwise_config(dtype="float64"))
    problem, x0, target = run.pool[0]
    assert bool((lam_max(problem) > 0.1).all())  # the solutions are not zero
    exact = solve(problem, FISTA(restart=True), max_iter=20_000, tol=1e-12).x
    assert relative_error(target, exact) <= 1e-2
    state = optimizer.init(problem, x0)
    for _ in range(2):
        state = optimizer.step(problem, state)
    naive = torch.stack([(x - t).square().sum() / t.square().sum() for x, t in zip(state.x, target, strict=True)])
    loss = run._loss(problem, x0, target, 2)
    assert relative_error(loss, naive.mean()) <= 1e-12


def test_training_brings_the_loss_down():
    events, optimizer = [], network("ada-lista")
    first = weights_of(optimizer)
    result = train(
        optimizer, LASSO, layerwise_config(steps=30, validate_every=30), device="cpu", listeners=[events.append]
    )
    losses = [event["loss"] for event in of_kind(events, "validation")]
    assert result.best_validation == pytest.approx(min(losses), rel=1e-6)
    assert min(losses) < 0.8 * losses[0]
    batches = [event["loss"] for event in of_kind(events, "batch")]
    assert sum(batches[-10:]) < 0.8 * sum(batches[:10])
    assert not bitwise(first, weights_of(optimizer))
