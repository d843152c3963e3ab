"""Solutions with each loss: the minimum that scipy's L-BFGS-B finds with x = p - q, p, q >= 0."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import sureprox as sp
from helpers import F64, normal
from loss_cases import NAMES, full, matrix
from sureprox.problems import L1, Poisson, Problem


def lowest(problem: Problem, i: int) -> float:
    """min F of instance i, by value and gradient of f in another method's hands."""
    one = problem.select(torch.tensor([i]))
    lam, n = float(one.r.lam[0]), one.n

    def split(v):
        x = torch.tensor(v[None, :n] - v[None, n:], dtype=F64).requires_grad_()
        value = one.f.value(x).sum()
        (g,) = torch.autograd.grad(value, x)
        g = g[0].numpy()
        return float(value.detach()) + lam * v.sum(), np.concatenate([g + lam, lam - g])

    options = {"maxiter": 5000, "maxfun": 20_000, "ftol": 1e-15, "gtol": 1e-11, "maxcor": 30}
    return minimize(
        split, np.zeros(2 * n), jac=True, method="L-BFGS-B", bounds=[(0, None)] * 2 * n, options=options
    ).fun


@pytest.mark.parametrize("name", [name for name in NAMES if name != "poisson identity"])
def test_the_minimum_is_that_of_scipy(name):
    f = full(name)
    problem = Problem(f, L1(0.1 * f.grad(torch.zeros(f.shape, dtype=F64)).abs().amax(1)))
    solution = sp.solve(problem, tol=1e-9, max_iter=5000)
    assert solution.converged.all()
    assert (solution.x != 0).any(1).all()
    for i in range(problem.batch):
        assert float(solution.objective[i]) == pytest.approx(lowest(problem, i), rel=1e-7)


def test_poisson_converges_from_zero_with_large_counts():
    A = matrix("poisson")
    x = torch.tensor([2.0, -1.0, 1.5, 0.0, 1.0], dtype=F64)
    y = torch.poisson((A @ x).exp(), generator=torch.Generator().manual_seed(0))
    assert y.max() > 1000
    lam = torch.ones(len(y), dtype=F64)
    problem = Problem(Poisson(A, y), L1(lam))
    solution = sp.solve(problem, tol=1e-6, max_iter=3000)
    assert solution.converged.all()
    for i in range(len(y)):
        assert float(solution.objective[i]) == pytest.approx(lowest(problem, i), rel=1e-6)


def test_a_guess_of_L_that_is_far_too_small_is_raised():
    A = 5 * normal(2, 12, 4).abs()
    f = Poisson(A, torch.poisson(A.sum(2), generator=torch.Generator().manual_seed(0)), offset=-30 + 0 * A[:, :, 0])
    problem = Problem(f, L1(0.5))
    solution = sp.solve(problem, tol=1e-6, max_iter=20_000, certify=True, polish=False)
    assert solution.converged.all()
    assert (solution.rejected > 0).all()
