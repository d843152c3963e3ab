"""Ada-LISTA: its formula, its layers, and what it refuses."""

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import refused
from naive_network import soft
from optimizer_cases import F64, M, calm, gap, path, small_problem, start_point
from sureprox.optimizers import ISTA, AdaLISTA


def fill(optimizer: AdaLISTA, step: float, threshold: float) -> AdaLISTA:
    optimizer = optimizer.double()
    with torch.no_grad():
        for parameters, value in ((optimizer.step_sizes, step), (optimizer.thresholds, threshold)):
            for parameter in parameters:
                parameter.fill_(value)
    return optimizer


def test_with_identity_matrices_and_the_step_of_ista_it_is_ista():
    base = small_problem("lasso")
    problem, x0, step = sp.lasso(base.f.A, base.f.b, 0.07), start_point(), 0.25
    optimizer = fill(AdaLISTA(M, layers=3), step, 0.07 * step)
    assert torch.equal(optimizer.W1, torch.eye(M, dtype=F64))
    expected = path(problem, ISTA(), x0, 40, step_size=torch.full((3,), step, dtype=F64))
    assert gap(path(problem, optimizer, x0, 40), expected) <= 1e-12


def test_formula_with_full_matrices():
    problem, x0 = small_problem("lasso"), start_point()
    optimizer = calm(AdaLISTA(M, layers=3), seed=2).double()
    W1, W2 = optimizer.W1.detach().numpy(), optimizer.W2.detach().numpy()
    assert np.abs(W1 - W1.T).max() > 1e-3  # not symmetric: a missing transpose shows
    A, b, x = problem.f.A[1].numpy(), problem.f.b[1].numpy(), x0[1].numpy()
    for k, state in enumerate(path(problem, optimizer, x0, 3)[1:]):
        s, theta = float(optimizer.step_sizes[k].detach()), float(optimizer.thresholds[k].detach())
        v = x - s * A.T @ (W1.T @ (W1 @ (A @ x))) + s * A.T @ (W2 @ b)
        x = np.array([soft(value, theta) for value in v])
        assert gap(state[1], torch.tensor(x)) <= 1e-12


def test_layer_k_at_step_k_and_the_last_layer_repeats():
    problem, x0 = small_problem("lasso"), start_point()
    optimizer = AdaLISTA(M, layers=2).double()
    with torch.no_grad():
        for layer, (step, threshold) in enumerate(((0.1, 0.01), (0.2, 0.03))):
            optimizer.step_sizes[layer].fill_(step)
            optimizer.thresholds[layer].fill_(threshold)
    walked = path(problem, optimizer, x0, 6)
    first = path(problem, fill(AdaLISTA(M, layers=1), 0.1, 0.01), x0, 1)
    rest = path(problem, fill(AdaLISTA(M, layers=1), 0.2, 0.03), first[1], 5)
    assert torch.equal(walked[1], first[1])
    assert torch.equal(walked[2:], rest[1:])


def test_lam_does_not_enter():
    problem, optimizer, x0 = small_problem("lasso"), AdaLISTA(M), start_point()
    other = sp.lasso(problem.f.A, problem.f.b, 5.0)
    assert torch.equal(path(problem, optimizer, x0, 5), path(other, optimizer, x0, 5))


@pytest.mark.parametrize("call", ["init", "step"])
def test_other_problems_are_refused(call):
    good, x0 = small_problem("lasso"), start_point()

    def use(optimizer: AdaLISTA, problem: sp.Problem):
        if call == "init":
            return optimizer.init(problem, x0)
        return optimizer.step(problem, AdaLISTA(M).init(good, x0))

    refused(lambda: use(AdaLISTA(M + 1), good), f"solves LASSO with {M + 1} rows", f"LeastSquares with {M} rows")
    refused(lambda: use(AdaLISTA(M), small_problem("logistic")), f"solves LASSO with {M} rows", "got Logistic")


@pytest.mark.parametrize("value", [0, -1, 2.0, "8", True])
def test_bad_sizes(value):
    refused(lambda: AdaLISTA(value), f"m is {value!r}", "whole number >= 1")
    refused(lambda: AdaLISTA(M, layers=value), f"layers is {value!r}", "whole number >= 1")
