"""GO-Math-L2O: its formula, coordinate by coordinate, and the two symmetries that set it apart."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import refused
from naive_network import NaiveInstance, NaiveNetwork, sigmoid, soft, softplus
from optimizer_cases import BATCH, F64, HIDDEN, N, calm, gap, path, seeded, small_problem, start_point, states
from sureprox.optimizers import L2OPA, Activation, GoMathL2O, GradientMap, QShrink

MAPS = tuple(g.value for g in GradientMap)
ACTIVATION = {"lasso": "sigmoid", "logistic": "softplus"}
# Head biases of Q for which 200 steps stay bounded (with Xavier weights Q is about 1 and they do not): LH and STD feed
# L (x - x+) back through Q, and the softplus Q has a factor of 10.
Q_BIAS = {"lhnor": -2.0, "lh": -5.0, "std": -5.0}
Q_BIAS_SHIFT = {"lasso": 0.0, "logistic": -2.0}


def bounded(gradient_map: str, family: str, **options) -> GoMathL2O:
    optimizer = GoMathL2O(gradient_map=gradient_map, activation=ACTIVATION[family], hidden=HIDDEN, **options)
    return calm(optimizer, q_bias=Q_BIAS[gradient_map] + Q_BIAS_SHIFT[family])


def naive_path(optimizer: GoMathL2O, problem, i: int, x0: np.ndarray, step: float, steps: int):
    """x, R, Q, B of instance i after each step, written from the paper's formulas."""
    instance, network = NaiveInstance(problem, i), NaiveNetwork(optimizer.network)
    squash, r_scale, q_scale = {"sigmoid": (sigmoid, 2, 2), "softplus": (softplus, 1, 10)}[optimizer.activation.value]
    shrink = {"none": 1.0, "1/sqrtL": math.sqrt(step), "1/L": step, "1/L^2": step * step}[optimizer.q_shrink.value]
    x, v = x0.copy(), np.zeros(N)
    memory = [network.blank() for _ in range(N)]
    norms = [max(np.linalg.norm(u), 1e-20) for u in (instance.grad(x), *instance.bounds(x))]
    for _ in range(steps):
        g, (low, high) = instance.grad(x), instance.bounds(x)
        after, seen = np.zeros((2, N)), np.zeros((3, N))
        for j in range(N):
            features = [g[j] / norms[0], low[j] / norms[1], high[j] / norms[2]]
            out, memory[j] = network(features, memory[j])
            R, Q, B = r_scale * squash(out["R"]) * step, q_scale * squash(out["Q"]) * shrink, squash(out["B"])
            b1, b2 = out.get("b1", 0.0), out.get("b2", 0.0)
            x_next = soft(x[j] - R * g[j] - Q * v[j] - b1, instance.lam * R)
            G = {
                "lhnor": x[j] - x_next,
                "lh": (x[j] - x_next) / R,
                "std": (x[j] - x_next - Q * v[j] - b1) / R,
            }[optimizer.gradient_map.value]
            after[:, j] = x_next, (1 - B) * G + B * v[j] - b2
            seen[:, j] = R, Q, B
        x, v = after
        yield x, v, *seen


@pytest.mark.parametrize("gradient_map", MAPS)
@pytest.mark.parametrize("q_shrink", [q.value for q in QShrink])
@pytest.mark.parametrize("biases", [False, True])
@pytest.mark.parametrize("family", ACTIVATION)
def test_formula(gradient_map, q_shrink, biases, family):
    problem, x0 = small_problem(family), start_point()
    x0[0, :4] = 0.0  # both bounds of the subdifferential differ there
    optimizer = bounded(gradient_map, family, q_shrink=q_shrink, biases=biases).double()
    step = 1 / problem.lipschitz()
    walked = states(problem, optimizer, x0, 5)
    for i in range(2):
        expected = naive_path(optimizer, problem, i, x0[i].numpy(), float(step[i]), 5)
        for state, values in zip(walked[1:], expected, strict=True):
            for name, value in zip(("x", "v", "R", "Q", "B"), values, strict=True):
                assert gap(getattr(state, name)[i], torch.tensor(value)) <= 1e-12, name


def test_features_are_normalised_at_the_start_and_each_instance_has_its_own_norms():
    problem, x0 = small_problem("lasso"), start_point()
    walked = states(problem, bounded("lhnor", "lasso"), x0, 2)
    norms = torch.linalg.vector_norm(walked[1].features, dim=1)
    torch.testing.assert_close(norms, torch.ones(BATCH, 3, dtype=F64), rtol=1e-13, atol=0)
    assert torch.equal(walked[2].norms, walked[0].norms)
    assert not torch.allclose(torch.linalg.vector_norm(walked[2].features, dim=1), norms)


def test_without_a_penalty_the_empty_features_are_zero_not_nan():
    base = small_problem("lasso")
    problem = sp.lasso(base.f.A, base.f.b, 0.0)
    last = states(problem, bounded("lhnor", "lasso"), start_point(), 3)[-1]
    assert torch.isfinite(last.x).all()
    assert not last.features[:, :, 1:].any()


# --- symmetries -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ACTIVATION)
@pytest.mark.parametrize("gradient_map", MAPS)
def test_moving_the_problem_moves_the_path(gradient_map, family):
    problem, x0 = small_problem(family), start_point()
    t = 100 * (2 * torch.rand(BATCH, N, generator=seeded(), dtype=F64) - 1)
    t[0], t[1] = 0.3, 100.0  # a small, a large and a different shift for every coordinate
    optimizer = bounded(gradient_map, family)
    here = path(problem.shifted(t), optimizer, x0, 200) + t
    there = path(problem, optimizer, x0 + t, 200)
    assert there.abs().max() < 2 * there[0].abs().max() + 10  # the path does not blow up
    assert gap(there[-1], there[0]) > 0.1  # nor stand still
    assert gap(here, there) <= 1e-10


@pytest.mark.parametrize("family", ACTIVATION)
def test_l2o_pa_does_not_follow_the_problem(family):
    problem, x0, t = small_problem(family), start_point(), 10.0
    optimizer = calm(L2OPA(activation=ACTIVATION[family], hidden=HIDDEN))
    here = path(problem.shifted(t), optimizer, x0, 10) + t
    there = path(problem, optimizer, x0 + t, 10)
    assert gap(here, there) > 1e-3  # its features hold x itself


@pytest.mark.parametrize("c", [1e-3, 7.0, 1e3])
@pytest.mark.parametrize("gradient_map", MAPS)
@pytest.mark.parametrize("q_shrink", ["none", "1/L"])
def test_scaling_the_data_scales_the_path(gradient_map, q_shrink, c):
    problem, x0 = small_problem("lasso"), start_point()
    scaled = sp.lasso(problem.f.A, c * problem.f.b, c * problem.r.lam)
    optimizer = bounded(gradient_map, "lasso", q_shrink=q_shrink)
    ours, theirs = path(scaled, optimizer, c * x0, 100), path(problem, optimizer, x0, 100)
    assert gap(ours / c, theirs) <= 1e-10
    assert gap(theirs[100], theirs[0]) > 0.1


def test_the_biases_of_the_paper_break_the_scaling():
    problem, x0, c = small_problem("lasso"), start_point(), 7.0
    scaled = sp.lasso(problem.f.A, c * problem.f.b, c * problem.r.lam)
    optimizer = bounded("lhnor", "lasso", biases=True)
    assert gap(path(scaled, optimizer, c * x0, 20) / c, path(problem, optimizer, x0, 20)) > 1e-3


# --- initial state ----------------------------------------------------------------------------------------------------


def test_the_memory_starts_at_zero_unless_told_otherwise():
    problem = small_problem("lasso")
    state = GoMathL2O().init(problem, start_point())  # no generator is needed
    assert state.h.shape == state.c.shape == (2, BATCH * N, 20)
    for name in ("h", "c", "v", "R", "Q", "B"):
        assert not getattr(state, name).any(), name


def test_random_memory_does_not_depend_on_the_neighbours():
    problem, x0 = small_problem("lasso"), start_point()
    optimizer = bounded("lhnor", "lasso", initial_state="random")
    together = optimizer.init(problem, x0, generator=seeded())
    one = torch.tensor([2])
    alone = optimizer.init(problem.select(one), x0[one], generator=seeded())
    assert torch.equal(alone.h, together.h[:, 2 * N :])
    assert torch.equal(alone.c, together.c[:, 2 * N :])
    assert alone.h.any()


def test_the_paper_s_memory_needs_a_generator():
    optimizer = GoMathL2O(initial_state="paper")
    refused(lambda: optimizer.init(small_problem("lasso"), start_point()), "paper", "pass generator=torch.Generator()")


def test_the_memory_can_be_set_by_hand_and_matters():
    problem, x0 = small_problem("lasso"), start_point()
    optimizer = bounded("lhnor", "lasso")
    h, c = torch.randn(2, 2, BATCH * N, HIDDEN, generator=seeded(), dtype=F64)
    zero = optimizer.init(problem, x0)
    state = replace(zero, h=h, c=c)
    with torch.no_grad():
        moved, plain = optimizer.step(problem, state), optimizer.step(problem, zero)
    assert torch.equal(state.h, h)
    assert gap(moved.R, plain.R) > 1e-5
    # row i * n + j belongs to coordinate j of instance i: changing it changes that R alone
    row = 1 * N + 3
    h2 = h.clone()
    h2[0, row] += 1
    with torch.no_grad():
        changed = optimizer.step(problem, replace(state, h=h2)).R != moved.R
    assert changed.nonzero().tolist() == [[1, 3]]


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "known"),
    [
        ("gradient_map", "'lhnor', 'lh', 'std'"),
        ("q_shrink", "'none', '1/sqrtL', '1/L', '1/L^2'"),
        ("activation", "'sigmoid', 'softplus'"),
        ("initial_state", "'zeros', 'random', 'paper'"),
    ],
)
@pytest.mark.parametrize("value", ["lhnorm", None])
def test_an_unknown_variant_is_an_error_that_lists_the_known_ones(argument, known, value):
    refused(lambda: GoMathL2O(**{argument: value}), f"{argument} is {value!r}", f"choose one of {known}")


def test_variants_can_be_given_as_enums():
    optimizer = GoMathL2O(gradient_map=GradientMap.STD, q_shrink=QShrink.ONCE, activation=Activation.SOFTPLUS)
    assert optimizer.arguments["gradient_map"] == "std"
    assert type(optimizer.arguments["q_shrink"]) is str  # what goes into the card is plain


def test_untrained_weights_are_xavier_with_zero_biases():
    torch.manual_seed(0)
    for name, weight in GoMathL2O().named_parameters():
        if "bias" in name:
            assert not weight.any(), name
        else:
            bound = math.sqrt(6 / sum(weight.shape))
            assert 0.8 * bound < weight.abs().max() <= bound, name
