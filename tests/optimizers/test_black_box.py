"""L2O-DM and RNNprop against their formulas, coordinate by coordinate."""

import math

import numpy as np
import pytest
import torch

from helpers import refused
from naive_network import NaiveInstance, NaiveNetwork, elu
from optimizer_cases import BATCH, F64, HIDDEN, N, calm, gap, small_problem, start_point, states
from sureprox.optimizers import L2ODM, RNNProp

families = pytest.mark.parametrize("family", ["lasso", "logistic"])


@families
def test_l2o_dm_formula(family):
    problem, x0, i = small_problem(family), start_point(), 2
    x0[i, :3] = 0.0  # there the subgradient takes the middle of [-lam, lam]
    optimizer = calm(L2ODM(step_size=0.2, hidden=HIDDEN)).double()
    instance, network = NaiveInstance(problem, i), NaiveNetwork(optimizer.network)
    x, memory = x0[i].numpy().copy(), [network.blank() for _ in range(N)]
    for state in states(problem, optimizer, x0, 6)[1:]:
        g = instance.subgradient(x)
        after = np.zeros(N)
        for j in range(N):
            out, memory[j] = network([g[j], x[j]], memory[j])
            after[j] = x[j] + 0.2 * elu(out["move"])
        x = after
        assert gap(state.x[i], torch.tensor(x)) <= 1e-12


@families
@pytest.mark.parametrize(("beta1", "beta2"), [(0.95, 0.95), (0.5, 0.9), (0.0, 0.0)])
def test_rnnprop_formula(family, beta1, beta2):
    problem, x0, i = small_problem(family), start_point(), 1
    x0[i, :3] = 0.0
    optimizer = calm(RNNProp(beta1, beta2, step_size=0.2, hidden=HIDDEN)).double()
    instance, network = NaiveInstance(problem, i), NaiveNetwork(optimizer.network)
    x, memory = x0[i].numpy().copy(), [network.blank() for _ in range(N)]
    mean, square = np.zeros(N), np.zeros(N)
    for k, state in enumerate(states(problem, optimizer, x0, 6)[1:], 1):
        g = instance.subgradient(x)
        mean, square = beta1 * mean + (1 - beta1) * g, beta2 * square + (1 - beta2) * g**2
        after = np.zeros(N)
        for j in range(N):
            scale = math.sqrt(square[j] / (1 - beta2**k)) + 1e-8
            features = [g[j] / scale, mean[j] / (1 - beta1**k) / scale]
            out, memory[j] = network(features, memory[j])
            after[j] = x[j] - 0.2 * math.tanh(out["move"])
        x = after
        assert gap(state.x[i], torch.tensor(x)) <= 1e-12


def test_rnnprop_has_finite_gradients_where_the_gradient_of_f_is_zero():
    """A column of zeros with lam = 0: the features divide 0 by sqrt(0) + eps."""
    base = small_problem("lasso")
    A = base.f.A.clone()
    A[:, :, 0] = 0.0
    problem = type(base)(type(base.f)(A, base.f.b), type(base.r)(0.0))
    optimizer = calm(RNNProp(hidden=HIDDEN))
    x0 = start_point().requires_grad_()
    state = optimizer.init(problem, x0)
    for _ in range(3):
        state = optimizer.step(problem, state)
    state.x.sum().backward()
    assert torch.isfinite(x0.grad).all()
    assert all(torch.isfinite(p.grad).all() for p in optimizer.parameters())


@pytest.mark.parametrize("make", [L2ODM, RNNProp])
def test_no_lipschitz_constant_is_computed_unless_given(make, monkeypatch):
    problem = small_problem("lasso")
    monkeypatch.setattr(type(problem), "lipschitz", lambda *a, **k: pytest.fail("L was computed"))
    state = make(hidden=HIDDEN).init(problem, start_point())
    assert torch.equal(state.step_size, torch.ones(BATCH, dtype=F64))


@pytest.mark.parametrize("step_size", [0.0, -0.1, float("nan"), float("inf")])
@pytest.mark.parametrize("make", [L2ODM, RNNProp])
def test_bad_step_size(make, step_size):
    refused(lambda: make(step_size=step_size), f"step_size is {step_size}", "finite and > 0")


@pytest.mark.parametrize("beta", [-0.1, 1.0, float("nan")])
@pytest.mark.parametrize("name", ["beta1", "beta2"])
def test_bad_betas(name, beta):
    refused(lambda: RNNProp(**{name: beta}), str(beta), "[0, 1)")


@pytest.mark.parametrize("eps", [0.0, -1.0, float("nan")])
def test_bad_eps(eps):
    refused(lambda: RNNProp(eps=eps), f"eps is {eps}", "finite and > 0")
