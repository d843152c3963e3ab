"""L2O-PA against its formula, coordinate by coordinate."""

import numpy as np
import pytest
import torch

from helpers import refused
from naive_network import NaiveInstance, NaiveNetwork, sigmoid, soft, softplus
from optimizer_cases import HIDDEN, N, calm, gap, small_problem, start_point, states
from sureprox.optimizers import L2OPA


@pytest.mark.parametrize("activation", ["sigmoid", "softplus"])
@pytest.mark.parametrize("family", ["lasso", "logistic"])
def test_formula(activation, family):
    problem, x0, i = small_problem(family), start_point(), 1
    optimizer = calm(L2OPA(activation=activation, hidden=HIDDEN)).double()
    squash, a_scale = (sigmoid, 2.0) if activation == "sigmoid" else (softplus, 0.3)
    step = float(1 / problem.lipschitz()[i])
    instance, network = NaiveInstance(problem, i), NaiveNetwork(optimizer.network)
    x, z = x0[i].numpy().copy(), x0[i].numpy().copy()
    memory = [network.blank() for _ in range(N)]
    for state in states(problem, optimizer, x0, 6)[1:]:
        g, after = instance.grad(x), np.zeros((4, N))
        for j in range(N):
            out, memory[j] = network([g[j], x[j]], memory[j])
            P, a = 2 * squash(out["P"]) * step, a_scale * squash(out["a"])
            z_next = soft(x[j] - P * g[j], instance.lam * P)
            after[:, j] = z_next + a * (z_next - z[j]), z_next, P, a
        x, z = after[0], after[1]
        for name, value in zip(("x", "z", "P", "momentum"), after, strict=True):
            assert gap(getattr(state, name)[i], torch.tensor(value)) <= 1e-12, name


def test_unknown_activation():
    refused(lambda: L2OPA(activation="tanh"), "activation is 'tanh'", "'sigmoid', 'softplus'")
