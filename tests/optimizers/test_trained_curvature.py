"""Weights that were trained with the paper's L of logistic problems get that L, whichever one the problem has."""

import pytest
import torch

import sureprox as sp
from helpers import refused
from optimizer_cases import calm
from sureprox.guarantee import Certified
from sureprox.optimizers import L2OPA, GoMathL2O
from sureprox.sources import LogisticFamily


def problems(batch=3):
    """The same logistic problems with the paper's L and with the sharp one."""
    paper = LogisticFamily(m=60, n=20, nonzeros=5).sample(batch, torch.Generator().manual_seed(0), torch.float64)
    return paper, sp.logistic(paper.f.A, paper.f.y, paper.r.lam)


def saved(make, tmp_path, **family):
    sp.save(calm(make()), tmp_path / "model", family=family)
    return sp.load(tmp_path / "model")


@pytest.mark.parametrize("make", [lambda: GoMathL2O(hidden=4), lambda: L2OPA(hidden=4)], ids=["go-math-l2o", "l2o-pa"])
def test_paths_are_the_same_with_either_L(make, tmp_path):
    optimizer = saved(make, tmp_path, name="logistic", curvature=1.0)
    paper, sharp = problems()
    torch.testing.assert_close(sharp.step_size(), 4 * paper.step_size(), rtol=1e-9, atol=0)
    x0 = torch.zeros(3, 20, dtype=torch.float64)
    with torch.no_grad():
        a, b = (list(sp.iterate(p, optimizer, optimizer.init(p, x0), 5))[-1] for p in (paper, sharp))
    torch.testing.assert_close(a.step_size, b.step_size, rtol=1e-9, atol=0)
    torch.testing.assert_close(a.x, b.x, rtol=1e-7, atol=1e-9)


def test_certified_passes_its_own_step_on(tmp_path):
    optimizer = saved(lambda: GoMathL2O(hidden=4), tmp_path, name="logistic", curvature=1.0)
    _, sharp = problems()
    state = Certified(optimizer).init(sharp, torch.zeros(3, 20, dtype=torch.float64))
    torch.testing.assert_close(state.step_size, sharp.step_size())  # FISTA's tracks keep the sharp one
    torch.testing.assert_close(state.inner.step_size, sharp.step_size() / 4)


def test_other_problems_and_other_weights_keep_theirs(tmp_path):
    lasso = sp.lasso(torch.eye(3, dtype=torch.float64), torch.ones(1, 3, dtype=torch.float64), 0.1)
    x0 = torch.zeros(1, 3, dtype=torch.float64)
    optimizer = saved(lambda: GoMathL2O(hidden=4), tmp_path, name="logistic", curvature=1.0)
    torch.testing.assert_close(optimizer.init(lasso, x0).step_size, lasso.step_size())
    unknown = saved(lambda: GoMathL2O(hidden=4), tmp_path, name="logistic")
    _, sharp = problems()
    state = unknown.init(sharp, torch.zeros(3, 20, dtype=torch.float64))
    torch.testing.assert_close(state.step_size, sharp.step_size())


def test_a_shipped_model_solves_what_a_user_writes():
    """Twenty iterations in the paper's setting; with the sharp L taken for the paper's, none came to an end."""
    family = LogisticFamily()
    paper = family.sample(2, torch.Generator().manual_seed(5))
    solution = sp.solve(sp.logistic(paper.f.A, paper.f.y, paper.r.lam), "go-math-l2o/logistic", certify=False)
    assert bool(solution.converged.all())
    assert int(solution.iterations.max()) <= 30


@pytest.mark.parametrize("value", [0, -1.0, "1", True, float("inf"), [1.0]])
def test_a_curvature_that_is_none(tmp_path, value):
    refused(lambda: saved(lambda: GoMathL2O(hidden=4), tmp_path, curvature=value), "curvature", error=sp.WeightsError)
