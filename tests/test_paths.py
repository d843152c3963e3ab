"""Paths: every point is the solution that a solve of its own finds, and t_max is where x = 0 begins."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import lasso_path

import sureprox as sp
from form_cases import PAIRS, data, lam, problem
from helpers import F64, labels, normal, refused
from sureprox.problems import LeastSquares, Logistic, Problem, Softmax
from sureprox.problems.penalties import Separable, WeightedL1, Zero

B, M, N = 3, 12, 6
RATIOS = [1.0, 0.5, 0.2, 0.05]
NAN = float("nan")


def lasso() -> Problem:
    return sp.lasso(normal(B, M, N), normal(B, M, seed=1), torch.tensor([0.3, 1.0, 4.0], dtype=F64))


def scaled(given: Problem, t: torch.Tensor) -> Problem:
    """f + t r."""
    return Problem(given.f, given.r.scaled(t))


def test_a_lasso_path_is_that_of_scikit_learn():
    given = lasso()
    found = sp.path(given, RATIOS, tol=1e-10)
    assert found.converged.all()
    for i in range(B):
        alphas, coefficients, _ = lasso_path(
            given.f.A[i].numpy(), given.f.b[i].numpy(), alphas=(found.scales[i] * given.r.lam[i] / M).numpy(), tol=1e-13
        )
        assert np.allclose(alphas, (found.scales[i] * given.r.lam[i] / M).numpy())
        np.testing.assert_allclose(found.x[i].numpy(), coefficients.T, rtol=1e-4, atol=1e-5)
    assert (found.x[:, -1] != 0).any(1).all()


WITH_PATHS = [pair for pair in PAIRS if pair[1] in ("l1", "weighted", "groups", "sparse groups")][::3]


@pytest.mark.parametrize(("loss", "penalty"), WITH_PATHS)
def test_every_point_is_a_solution_of_its_own_problem(loss, penalty):
    given = problem(loss, penalty, "own")
    found = sp.path(given, [0.9, 0.3], tol=1e-8, max_iter=5000)
    assert found.converged.all()
    for k in range(2):
        alone = sp.solve(scaled(given, found.scales[:, k]), tol=1e-8, max_iter=5000)
        torch.testing.assert_close(found.objective[:, k], alone.objective, rtol=1e-7, atol=0)
        objective = scaled(given, found.scales[:, k]).certificate(found.x[:, k]).objective
        torch.testing.assert_close(objective, found.objective[:, k], rtol=1e-14, atol=0)
    assert (lam(data(loss, False)) > 0).all()


@pytest.mark.parametrize(
    "make",
    [
        lambda: lasso(),
        lambda: sp.nonnegative(normal(B, M, N), normal(B, M, seed=1), 0.3),
        lambda: sp.elastic_net(normal(B, M, N), normal(B, M, seed=1), 0.3, 0.2),
        lambda: sp.group_lasso(normal(B, M, N), normal(B, M, seed=1), [[0, 1, 2], [3, 4], [5]], 0.3),
        lambda: Problem(Logistic(normal(B, M, N), labels(B, M)), WeightedL1(torch.tensor([0.0, 1, 1, 2, 1, 1]))),
        lambda: Problem(Softmax(normal(B, M, 2), (normal(B, M, seed=2) > 0).to(F64)), Separable(0.3)),
    ],
    ids=["lasso", "nonnegative", "elastic net", "groups", "weighted, one free", "softmax"],
)
def test_zero_is_the_solution_from_t_max_on_and_not_below(make):
    given = make()
    found = sp.path(given, [1.001, 0.97], tol=1e-10, max_iter=5000)
    assert found.converged.all()
    held = torch.ones(given.n, dtype=torch.bool)
    if isinstance(given.r, WeightedL1):
        held[0] = False
    assert (found.x[:, 0, held].abs() <= 1e-6).all()
    assert (found.x[:, 1, held].abs() > 1e-6).any(1).all()


def test_many_ratios_in_any_order_are_solved_once_each():
    ratios = torch.logspace(0, -2, 37)[torch.randperm(37, generator=torch.Generator().manual_seed(0))]
    found = sp.path(lasso(), ratios, tol=1e-8)
    assert found.x.shape == (B, 37, N)
    torch.testing.assert_close(found.scales, found.scales.amax(1, keepdim=True) * ratios.double() / ratios.max())
    assert found.converged.all()
    sizes = found.x.abs().sum(2).gather(1, ratios.argsort(descending=True).expand(B, -1))
    assert (sizes.diff(dim=1) >= -1e-4).all()  # the l1 norm grows along a path
    same = sp.path(lasso(), [0.5, 0.5, 0.1])
    assert torch.equal(same.scales[:, 0], same.scales[:, 1])
    torch.testing.assert_close(same.objective[:, 0], same.objective[:, 1], rtol=1e-6, atol=0)


def test_float32_and_a_start_at_zero_data():
    found = sp.path(lasso().to(dtype=torch.float32), [0.5, 0.1])
    assert found.converged.all()
    nothing = sp.path(sp.lasso(normal(B, M, N), 0 * normal(B, M), 1.0), [0.5])
    assert nothing.converged.all()
    assert (nothing.x == 0).all()


BAD = {
    "empty": (lambda p: sp.path(p, []), "finite numbers > 0"),
    "negative": (lambda p: sp.path(p, [0.5, -1.0]), "finite numbers > 0"),
    "zero": (lambda p: sp.path(p, [0.0]), "finite numbers > 0"),
    "nan": (lambda p: sp.path(p, [NAN]), "finite numbers > 0"),
    "infinite": (lambda p: sp.path(p, [float("inf")]), "finite numbers > 0"),
    "a word": (lambda p: sp.path(p, "half"), "ratios is a str"),
    "complex": (lambda p: sp.path(p, [1j]), "ratios is a list"),
    "masked": (lambda p: sp.path(p, np.ma.masked_equal([1.0, 2.0], 1)), "1 masked entries"),
    "shifted": (lambda p: sp.path(p.shifted(1.0), [0.5]), "not shifted"),
    "no problem": (lambda p: sp.path(p.f.A, [0.5]), "problem is a Tensor"),
    "x0": (lambda p: sp.path(p, [0.5], x0=torch.zeros(N)), "leave out x0"),
    "ridge": (lambda p: sp.path(Problem(p.f, Separable(l2=1.0)), [0.5]), "needs l1 > 0"),
    "l2 and nothing": (lambda p: sp.path(Problem(LeastSquares(p.f.A, p.f.b), Separable(0.0, 1.0)), [0.5]), "l1 > 0"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused(case):
    call, *parts = BAD[case]
    refused(lambda: call(lasso()), *parts)


def test_without_a_penalty_every_point_is_the_free_solution():
    given = lasso()
    found = sp.path(Problem(given.f, Zero()), [0.5], tol=1e-9, max_iter=5000)
    theirs = np.linalg.lstsq(given.f.A[0].numpy(), given.f.b[0].numpy(), rcond=None)[0]
    np.testing.assert_allclose(found.x[0, 0].numpy(), theirs, rtol=1e-4, atol=1e-5)
