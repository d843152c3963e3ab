"""LASSO problems of every kind that can be polished."""

import pytest
import torch

import sureprox as sp
from helpers import F64, autoregressive, normal, random_problem, with_ratio
from sureprox.problems import LeastSquares, WeightedL1


def weighted(weights, m=40, n=60, batch=3):
    return sp.Problem(LeastSquares(normal(batch, m, n), normal(batch, m, seed=1)), WeightedL1(weights))


PROBLEMS = {
    "a matrix each": lambda: random_problem("lasso", m=40, n=60),
    "a shared matrix": lambda: random_problem("lasso", m=40, n=60, shared=True),
    "tall": lambda: random_problem("lasso", m=90, n=30, ratio=0.01),
    "one instance": lambda: random_problem("lasso", batch=1, m=40, n=60),
    "moved": lambda: random_problem("lasso", m=40, n=60).shifted(torch.linspace(-3, 3, 60, dtype=F64)),
    "weighted": lambda: weighted(torch.linspace(1, 20, 60, dtype=F64)),
    "weights of their own": lambda: weighted(5 * normal(3, 60, seed=2).abs() + 1),
    "a free coordinate": lambda: weighted(torch.cat([torch.zeros(1, dtype=F64), torch.full((59,), 8.0, dtype=F64)])),
    "correlated": lambda: with_ratio("lasso", autoregressive(3, 40, 60, 0.95), normal(3, 40, seed=1), 0.1),
}

EVERY = pytest.mark.parametrize("problem", [made() for made in PROBLEMS.values()], ids=PROBLEMS)
