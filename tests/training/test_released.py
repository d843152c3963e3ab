"""The settings of the authors' released code: what they change in a step, in its gradient, and in training."""

import math

import pytest
import torch

from helpers import refused
from sureprox.base.errors import ConfigError
from sureprox.optimizers import L2ODM, L2OPA, AdaLISTA, RNNProp
from sureprox.sources import AnyStartLasso, LogisticFamily
from sureprox.training import preset, train
from sureprox.training.layerwise import LayerwiseRun
from sureprox.training.meta import MetaAdam
from sureprox.training.presets import RELEASED_LAYERS
from training_cases import (
    CPU,
    LASSO,
    LOGISTIC,
    bitwise,
    layerwise_config,
    network,
    small_config,
    unrolled_run,
    weights_of,
)

FED = (L2OPA, L2ODM, RNNProp)


def problem_and_start(dtype=torch.float64):
    generator = torch.Generator().manual_seed(5)
    return LASSO.sample(3, generator, dtype), LASSO.start(3, generator, dtype)


def unrolled(optimizer, steps: int):
    """The point after some steps and the gradient of its sum with respect to the weights."""
    problem, x0 = problem_and_start()
    state = optimizer.init(problem, x0)
    for _ in range(steps):
        state = optimizer.step(problem, state)
    loss = state.x.square().sum()
    return state.x.detach(), torch.autograd.grad(loss, list(optimizer.parameters()), allow_unused=True)


@pytest.mark.parametrize("kind", FED)
def test_detached_features_change_the_gradient_and_nothing_else(kind):
    attached, cut = (network(kind.kind, detached=detached).double() for detached in (False, True))
    assert bitwise(weights_of(attached), weights_of(cut))
    for steps, alike in ((1, True), (4, False)):  # the first features do not depend on the weights
        (x, g), (y, h) = unrolled(attached, steps), unrolled(cut, steps)
        assert torch.equal(x, y)
        same = all(torch.allclose(a, b, rtol=1e-9, atol=0) for a, b in zip(g, h, strict=True) if a is not None)
        assert same == alike


@pytest.mark.parametrize("kind", FED)
def test_detached_gradients_are_those_of_features_that_are_given(kind):
    """The same steps by a network whose subgradient is a constant: taken from the run itself, written down before."""
    optimizer = network(kind.kind, detached=True).double()
    problem, x0 = problem_and_start()
    with torch.no_grad():
        states = [optimizer.init(problem, x0)]
        for _ in range(3):
            states.append(optimizer.step(problem, states[-1]))
    _, expected = unrolled(optimizer, 3)
    attached = network(kind.kind, detached=False).double()
    attached.take(weights_of(optimizer))
    forward = attached.network.forward
    kept = iter([state.features for state in states[1:]])

    def given(features, h, c):
        constant = next(kept)
        # the released L2O-DM cuts the gradient off, and not x
        fed = torch.stack([constant[..., 0], features[..., 1]], 2) if kind is L2ODM else constant
        return forward(fed, h, c)

    attached.network.forward = given
    _, found = unrolled(attached, 3)
    assert all(torch.allclose(a, b, rtol=1e-9) for a, b in zip(found, expected, strict=True) if a is not None)


@pytest.mark.parametrize("kind", [L2ODM, RNNProp])
def test_memory_has_the_size_that_is_asked_for(kind):
    problem, x0 = problem_and_start()
    plain, small = (kind(initial_state="random", memory_scale=scale).init(problem, x0) for scale in (1.0, 0.01))
    assert torch.equal(small.h, 0.01 * plain.h)
    assert torch.equal(small.c, 0.01 * plain.c)
    zeros = kind(memory_scale=0.01).init(problem, x0)
    assert not zeros.h.any()


def test_the_gradient_is_divided_where_it_is_fed():
    problem, x0 = problem_and_start()
    features = [
        optimizer.step(problem, optimizer.init(problem, x0)).features
        for optimizer in (L2ODM(), L2ODM(gradient_scale=1 / 128))
    ]
    assert torch.allclose(features[1][..., 0], features[0][..., 0] / 128)
    assert torch.equal(features[1][..., 1], features[0][..., 1])


def test_rnnprop_hardly_sees_the_size_of_a_gradient():
    problem, x0 = problem_and_start()
    points = []
    for scale in (1.0, 1 / 128):
        torch.manual_seed(0)
        optimizer = RNNProp(gradient_scale=scale).double()
        state = optimizer.init(problem, x0)
        for _ in range(3):
            state = optimizer.step(problem, state)
        points.append(state.x)
    assert torch.allclose(*points, atol=1e-4)


@pytest.mark.parametrize("name", ["memory_scale", "gradient_scale", "step_size"])
@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_sizes_must_be_positive(name, value):
    for kind in (L2ODM, RNNProp):
        refused(lambda kind=kind: kind(**{name: value}), f"{name} is {value}", "finite and > 0")


def test_presets_of_the_released_code():
    lasso = {kind: preset("lasso-released", kind) for kind in ("go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop")}
    rates = {kind: recipe.training.learning_rate for kind, recipe in lasso.items()}
    assert rates == {"go-math-l2o": 0.01, "l2o-pa": 0.01, "l2o-dm": 0.01, "rnnprop": 0.003}
    assert {kind: recipe.training.validate_every for kind, recipe in lasso.items()} == dict.fromkeys(rates, 20) | {
        "rnnprop": 5
    }
    assert all(recipe.training.repeat and recipe.training.validation == 512 for recipe in lasso.values())
    built = {kind: recipe.build() for kind, recipe in lasso.items()}
    assert "detached" not in built["go-math-l2o"].arguments
    assert all(built[kind].detached for kind in ("l2o-pa", "l2o-dm", "rnnprop"))
    assert (built["l2o-dm"].gradient_scale, built["l2o-dm"].memory_scale) == (1 / 128, 1.0)
    assert (built["rnnprop"].gradient_scale, built["rnnprop"].memory_scale) == (1 / 128, 0.01)
    logistic = preset("logistic-released", "rnnprop")
    assert (logistic.training.validation, logistic.training.validate_every) == (1024, 5)
    assert (logistic.training.learning_rate, logistic.build().memory_scale) == (0.003, 1.0)
    unrolls = preset("lasso-released", "ada-lista")
    assert unrolls.training == RELEASED_LAYERS
    assert unrolls.arguments == {"m": 250, "step": 0.2, "threshold": 0.2}
    assert preset("logistic-released", "ada-lista").arguments["labels"]
    refused(lambda: preset("logistic", "ada-lista"), "logistic-released", error=ConfigError)


class Noted:
    """A family that keeps what it has drawn."""

    def __init__(self):
        self.n, self.drawn = LASSO.n, []

    def sample(self, batch, generator, dtype=torch.float32):
        problem = LASSO.sample(batch, generator, dtype)
        self.drawn.append(float(problem.f.b.sum()))
        return problem

    def start(self, batch, generator, dtype=torch.float32):
        return LASSO.start(batch, generator, dtype)


@pytest.mark.parametrize("repeat", [True, False])
def test_the_problems_of_an_epoch_come_again(repeat):
    family = Noted()
    unrolled_run(network(), family, small_config(repeat=repeat)).go()
    first, second = family.drawn[1:7], family.drawn[7:13]  # before them the validation set
    assert len(set(first)) == 6
    assert (first == second) == repeat


def test_a_run_that_repeats_goes_on_to_the_same_weights(tmp_path):
    from sureprox.training import StopTraining

    config = small_config(repeat=True)
    whole, parts = network(), network()
    train(whole, LASSO, config, device="cpu", backend="plain")

    def stop(event):
        if event["event"] == "batch" and event["batch"] == 7:
            raise StopTraining

    assert not train(parts, LASSO, config, tmp_path, device="cpu", backend="plain", listeners=[stop]).completed
    again = network(seed=3)
    assert train(again, LASSO, config, tmp_path, device="cpu", backend="plain").completed
    assert bitwise(weights_of(whole), weights_of(again))


def layers(config, optimizer=None, family=LASSO, *listeners):
    from sureprox.training import Recipe

    optimizer = optimizer or network("ada-lista")
    recipe = Recipe("ada-lista", optimizer.arguments, family, config)
    return LayerwiseRun(recipe, optimizer, CPU, None, list(listeners), False), optimizer


def test_rates_of_lower_layers_are_smaller():
    """The first update of Adam moves every number by its rate."""
    seen = []
    config = layerwise_config(steps=1, layer_decay=0.3, matrices_first=True, last_decay=0.02, validate_every=1000)
    run, optimizer = layers(config)
    run.listeners.append(lambda e: seen.append(weights_of(optimizer)) if e["event"] == "batch" else None)
    run.go()
    moved = {name: float((seen[4][name] - seen[3][name]).abs().max()) for name in seen[0]}  # second layer, stage 2
    rate = config.learning_rate * config.decay
    assert moved["thresholds.1"] == pytest.approx(rate, rel=1e-2)
    assert moved["thresholds.0"] == pytest.approx(0.3 * rate, rel=1e-2)
    assert moved["W1"] == pytest.approx(0.3 * rate, rel=1e-2)
    assert float((seen[0]["W1"] - torch.eye(LASSO.m)).abs().max()) > 0  # stage 1 learns it too
    assert [config.rate(b) for b in range(3)] == pytest.approx([0.003, 0.0006, 0.00006])


def test_a_stage_ends_when_it_no_longer_improves():
    updates = []
    config = layerwise_config(steps=40, pool=2, patience=2, learning_rate=1e-12, validate_every=1000)
    run, _ = layers(config)
    run.listeners.append(lambda e: updates.append(e["batch"]) if e["event"] == "batch" else None)
    result = run.go()
    assert result.completed
    assert result.batches == config.total_batches
    assert config.patience * config.pool * 6 <= len(updates) < config.total_batches / 2
    assert {batch for batch in updates if batch % 40 == 0} == {40, 80, 120, 160, 200, 240}


def test_the_loss_may_be_the_plain_distance():
    run, _ = layers(layerwise_config(relative=False))
    problem, x0, target = run.held_out
    run.optimizer.requires_grad_(False)
    state = run.optimizer.step(problem, run.optimizer.init(problem, x0))
    expected = float((state.x - target).square().sum(1).mean())
    assert float(run._loss(problem, x0, target, 1)) == pytest.approx(expected, rel=1e-5)


def test_ada_lista_on_logistic_problems_reads_the_labels():
    optimizer = AdaLISTA(LOGISTIC.m, layers=2, step=0.2, threshold=0.1, labels=True)
    generator = torch.Generator().manual_seed(0)
    problem, x0 = LOGISTIC.sample(2, generator, torch.float64), LOGISTIC.start(2, generator, torch.float64)
    found = optimizer.step(problem, optimizer.init(problem, x0)).x
    A, y = problem.f.A, problem.f.y
    moved = x0 - 0.2 * torch.einsum("bij,bi->bj", A, torch.einsum("bij,bj->bi", A, x0) - y)
    expected = torch.sign(moved) * (moved.abs() - 0.1).clamp(min=0)
    assert torch.allclose(found, expected, atol=1e-6)
    result = train(optimizer, LOGISTIC, layerwise_config(), device="cpu")
    assert result.completed
    assert math.isfinite(result.best_validation)
    lasso, x0 = problem_and_start()
    refused(lambda: AdaLISTA(LASSO.m, labels=True).init(lasso, x0), "solves logistic problems")
    plain = AdaLISTA(LogisticFamily().m)
    refused(lambda: train(plain, LogisticFamily(), layerwise_config(layers=10)), "for LASSO", error=ConfigError)


def test_a_rate_for_each_parameter():
    parameters = [torch.zeros(2), torch.zeros(3)]
    meta = MetaAdam(parameters, clip=0.0)
    meta.rate.fill_(0.1)
    meta.update([torch.ones(2), -torch.ones(3)], torch.tensor(True), [1.0, 0.5])
    assert parameters[0].tolist() == pytest.approx([-0.1] * 2, rel=1e-5)
    assert parameters[1].tolist() == pytest.approx([0.05] * 3, rel=1e-5)


def test_starts_of_every_kind():
    family = AnyStartLasso(m=5, n=2000, nonzeros=2)
    x = family.start(400, torch.Generator().manual_seed(0), torch.float64)
    mean = x.mean(1)
    assert not x[0::4].any()
    assert mean[1::4].abs().max() < 0.15
    for kind, most in ((2, 10.0), (3, 100.0)):
        shift = mean[kind::4]
        assert 0.9 * most < shift.abs().max() < most + 0.15
        assert 0.3 < float((shift > 0).double().mean()) < 0.7
    assert preset("lasso-any-start").family == AnyStartLasso()
    assert preset("lasso-any-start").training == preset("lasso-7").training
