"""The paper's shifted proximal operator: its formula, where it is right, and what it does to every method."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

import sureprox as sp
from evaluation_cases import CPU
from helpers import normal, refused
from sureprox.evaluation.datasets import Dataset, draw, solved
from sureprox.evaluation.experiment import trace
from sureprox.evaluation.paper_prox import PaperProxProblem
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.optimizers import FISTA, ISTA, Optimizer

LAM = 0.5


def shifted_by(t: float) -> PaperProxProblem:
    return PaperProxProblem.of(sp.lasso(normal(1, 2, 1), normal(1, 2), LAM).shifted(t))


def printed(v: float, t: float, p: float) -> float:
    """The formula as it stands in the paper."""
    return -t + np.sign(v) * max(0.0, abs(v) - LAM * p + np.sign(v) * t)


@given(st.floats(-50, 50), st.floats(-50, 50), st.floats(0.01, 5))
def test_the_formula_and_where_it_is_right(v: float, t: float, p: float) -> None:
    problem = shifted_by(t)
    point, step = torch.tensor([[v]], dtype=torch.float64), torch.tensor([[p]], dtype=torch.float64)
    ours = float(problem.prox(point, step))
    assert ours == pytest.approx(printed(v, t, p), abs=1e-12)
    exact = float(sp.Problem(problem.f, problem.r, problem.shift).prox(point, step))
    if np.sign(v) == np.sign(v + t):
        assert ours == pytest.approx(exact, abs=1e-9)
    elif abs(v + t) > LAM * p + 1e-9:
        assert ours == pytest.approx(-t, abs=1e-9)
        assert exact != pytest.approx(-t, abs=1e-10)


def test_it_stays_what_it_is() -> None:
    problem = shifted_by(3.0)
    assert isinstance(problem.to(dtype=torch.float32), PaperProxProblem)
    assert isinstance(problem.select(torch.tensor([0])), PaperProxProblem)
    assert isinstance(problem.shifted(1.0), PaperProxProblem)
    x, step = torch.tensor([[2.0]], dtype=torch.float64), torch.tensor([[0.1]], dtype=torch.float64)
    torch.testing.assert_close(problem.proximal_step(x, step), problem.prox(x - step * problem.grad(x), step))


def test_it_needs_a_shifted_l1_penalty() -> None:
    refused(lambda: PaperProxProblem.of(sp.lasso(normal(1, 2, 1), normal(1, 2), LAM)), "shifted L1")


@pytest.fixture(scope="module")
def lasso(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return solved(draw("lasso", 8, 0), tmp_path_factory.mktemp("optima"), CPU)


@pytest.mark.parametrize("t", [10.0, -10.0])
@pytest.mark.parametrize("name", ["ista", "fista", "fista-restart", "go-math-l2o/lasso"])
def test_every_method_stalls_with_it(lasso: Dataset, t: float, name: str) -> None:
    """At the paper's size all end at one mean gap between 1.2 and 1.35; with the exact operator they go on."""
    classical: dict[str, Optimizer] = {"ista": ISTA(), "fista": FISTA(), "fista-restart": FISTA(restart=True)}
    optimizer = classical.get(name) or sp.load(name)
    paper = trace(optimizer, lasso, Scenario("lasso", Move.PAPER_PROX, t), 150)
    assert 1.15 < float(paper.gaps[-1].mean()) < 1.35
    assert float(paper.gaps[-1].mean()) == pytest.approx(float(paper.gaps[-2].mean()), rel=1e-3)
    if name not in ("ista", "fista"):  # these are still on their way after 150 iterations
        exact = trace(optimizer, lasso, Scenario("lasso", Move.OBJECTIVE, t), 150)
        assert float(exact.gaps[-1].mean()) < 1e-4


@pytest.mark.parametrize("t", [10.0, -10.0])
def test_what_it_solves_is_the_problem_on_one_orthant(lasso: Dataset, t: float) -> None:
    """For t > 0 nothing gets past x + t <= 0, for t < 0 past x + t >= 0; scikit-learn knows the optimum there."""
    seen = trace(FISTA(restart=True), lasso, Scenario("lasso", Move.PAPER_PROX, t), 200)
    for i in range(4):
        A, b = lasso.problem.f.A[i].numpy(), lasso.problem.f.b[i].numpy()
        model = Lasso(alpha=0.1 / len(b), positive=True, fit_intercept=False, tol=1e-10, max_iter=100_000)
        x = -np.sign(t) * model.fit(-np.sign(t) * A, b).coef_
        there = 0.5 * np.sum((A @ x - b) ** 2) + 0.1 * np.abs(x).sum()
        best = float(lasso.best[i])
        assert float(seen.gaps[-1, i]) == pytest.approx((there - best) / best, rel=1e-4)
