"""Optimizers that never come to rest: float32 is left for float64 all the same, and every instance is solved."""

import pytest
import torch

import sureprox as sp
from certified_cases import random_weights
from sureprox.optimizers import FISTA, L2OPA, GoMathL2O, Optimizer, Sure
from sureprox.problems import Problem
from sureprox.solve.solution import Solution
from sureprox.sources import LassoFamily, LogisticFamily

FAMILIES = {
    "lasso": LassoFamily(m=50, n=100, nonzeros=10),
    "logistic": LogisticFamily(m=80, n=30, nonzeros=8, lam=0.01),
}
OPTIONS = {"max_iter": 1000, "polish": False}


def garbage() -> Sure:
    """Sure with noise for weights."""
    with torch.random.fork_rng():
        torch.manual_seed(1)
        optimizer = Sure()
        with torch.no_grad():
            for weight in optimizer.parameters():
                weight.copy_(0.9 * torch.randn_like(weight))
    return optimizer


RESTLESS: dict[str, Optimizer] = {
    "sure": garbage(),
    "l2o-pa": random_weights(L2OPA, 0),
    "go-math-l2o": random_weights(GoMathL2O, 1, activation="softplus", gradient_map="std"),
}


@pytest.fixture(scope="module")
def by_fista() -> dict[str, tuple[Problem, Solution]]:
    solved = {}
    for name, family in FAMILIES.items():
        problem = family.sample(40, torch.Generator().manual_seed(0), torch.float32)
        solved[name] = problem, sp.solve(problem, FISTA(restart=True), **OPTIONS)
        assert solved[name][1].converged.all()
    return solved


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("name", RESTLESS)
@pytest.mark.parametrize("certify", [True, "audit"])
def test_float64_takes_over_whatever_the_optimizer_does(by_fista, name, family, certify):
    problem, fista = by_fista[family]
    # audits leave an optimizer alone that keeps up with FISTA, even where FISTA with restarts is quicker
    options = OPTIONS | ({"max_iter": 4000} if certify == "audit" else {})
    solution = sp.solve(problem, RESTLESS[name], certify=certify, **options)
    assert solution.converged.all()
    assert solution.refined.any()
    exact = problem.to(dtype=torch.float64)
    torch.testing.assert_close(exact.objective(solution.x.double()), solution.objective, rtol=1e-13, atol=0)
    assert (solution.objective <= fista.objective * (1 + 2e-6)).all()
