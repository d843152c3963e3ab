"""Reference solutions against celer and scikit-learn, easy and hard, and what is promised about the gap."""

import warnings

import celer
import numpy as np
import pytest
import sklearn.linear_model as sklearn
import torch
from sklearn.exceptions import ConvergenceWarning

import sureprox as sp
from helpers import F64, autoregressive, labels, lam_max, normal, random_problem, refused, with_ratio

SEEDS = range(20)


def random_case(kind: str, seed: int) -> sp.Problem:
    """One problem of random shape (tall or wide), conditioning and lam."""
    rng = np.random.default_rng(seed)
    m, n = int(rng.integers(10, 60)), int(rng.integers(5, 60))
    ratio = float(10 ** rng.uniform(-2, -0.1))
    A = autoregressive(1, m, n, float(rng.choice([0.0, 0.5, 0.9])), seed)
    rhs = 3 * normal(1, m, seed=seed + 1) if kind == "lasso" else labels(1, m, seed + 1)
    return with_ratio(kind, A, rhs, ratio)


def arrays(problem: sp.Problem) -> tuple[np.ndarray, np.ndarray, float]:
    f = problem.f
    rhs = getattr(f, f.batched[1])
    return np.asfortranarray(f.A[0].numpy()), rhs[0].numpy(), float(problem.r.lam[0])


def objective(problem: sp.Problem, x: np.ndarray) -> float:
    return float(problem.objective(torch.from_numpy(np.asarray(x, dtype=np.float64)).reshape(1, -1)))


def by_celer(problem: sp.Problem) -> float:
    A, rhs, lam = arrays(problem)
    options = {"fit_intercept": False, "tol": 1e-12, "max_epochs": 20000}
    if isinstance(problem.f, sp.problems.LeastSquares):
        return objective(problem, celer.Lasso(alpha=lam / len(rhs), **options).fit(A, rhs).coef_)
    return objective(problem, celer.LogisticRegression(C=1 / (lam * len(rhs)), **options).fit(A, 2 * rhs - 1).coef_)


def by_sklearn(problem: sp.Problem) -> float:
    A, rhs, lam = arrays(problem)
    m = len(rhs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        if isinstance(problem.f, sp.problems.LeastSquares):
            model = sklearn.Lasso(alpha=lam / m, fit_intercept=False, tol=1e-15, max_iter=1000000)
            return objective(problem, model.fit(A, rhs).coef_)
        model = sklearn.LogisticRegression(
            C=1 / (lam * m), l1_ratio=1.0, solver="liblinear", fit_intercept=False, tol=1e-12, max_iter=100000
        )
        return objective(problem, model.fit(A, rhs).coef_)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_agrees_with_celer_and_scikit_learn(kind, seed):
    problem = random_case(kind, seed)
    best = sp.reference(problem)
    value = float(best.objective)
    assert float(best.gap) <= 1e-12 * value
    assert value == objective(problem, best.x[0].numpy())
    assert by_celer(problem) == pytest.approx(value, rel=1e-9)
    assert by_sklearn(problem) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("shape", [(60, 40), (40, 60)], ids=["tall", "wide"])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_hard_problems(kind, shape):
    """Columns with correlation 0.99 and lam = 0.01 lam_max."""
    m, n = shape
    A = autoregressive(2, m, n, 0.99, seed=3)
    rhs = 3 * normal(2, m, seed=4) if kind == "lasso" else labels(2, m, seed=4)
    problem = with_ratio(kind, A, rhs, 0.01)
    best = sp.reference(problem)
    assert (best.gap <= 1e-12 * best.objective).all()
    for i in range(2):
        value = float(best.objective[i])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            theirs = by_celer(problem.select(torch.tensor([i])))
        assert value <= theirs * (1 + 1e-12)
        if kind == "lasso":  # on some of the logistic ones celer gives up at a relative gap of 1e-4
            assert theirs == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("seed", [4, 5])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_supports_that_fista_alone_does_not_find(kind, seed):
    """Almost separable, correlation 0.99: full Newton steps change signs, and 60,000 iterations do not help."""
    A = autoregressive(2, 60, 100, 0.99, seed)
    rhs = 3 * normal(2, 60, seed=seed + 1) if kind == "lasso" else labels(2, 60, seed=seed + 1)
    problem = with_ratio(kind, A, rhs, 0.01)
    best = sp.reference(problem, rounds=10)
    assert (best.gap <= 1e-12 * best.objective).all()


def test_result_is_float64_also_for_float32_problems_and_shared_matrices():
    problem = random_problem("lasso", shared=True).to(dtype=torch.float32)
    best = sp.reference(problem)
    assert {best.x.dtype, best.objective.dtype, best.gap.dtype} == {F64}
    assert best.x.shape == (3, 12)
    assert best.objective.shape == best.gap.shape == (3,)
    assert (best.gap <= 1e-12 * best.objective).all()


def test_shifted_problem_has_the_same_optimum():
    problem = random_problem("lasso")
    plain, moved = sp.reference(problem), sp.reference(problem.shifted(100.0))
    torch.testing.assert_close(plain.objective, moved.objective, rtol=2e-12, atol=0)
    torch.testing.assert_close(plain.x, moved.x + 100.0, rtol=0, atol=1e-6)


def test_without_penalty_it_is_least_squares():
    problem = random_problem("lasso", m=20, n=6, ratio=0.0)
    exact = torch.linalg.lstsq(problem.f.A, problem.f.b.unsqueeze(2)).solution.squeeze(2)
    best = sp.reference(problem)
    torch.testing.assert_close(best.x, exact, rtol=0, atol=1e-10)
    assert (best.objective <= problem.objective(exact) * (1 + 1e-12)).all()


def test_above_lam_max_it_is_exactly_zero():
    best = sp.reference(random_problem("logistic", ratio=1.0001))
    assert not best.x.any()


def test_the_bracket_holds_the_optimum():
    """F* lies in [objective - gap, objective], at a loose tolerance too."""
    problem = random_problem("logistic", m=20, n=8)
    rough, best = sp.reference(problem, tol=1e-3), sp.reference(problem)
    assert (rough.objective - rough.gap <= best.objective).all()
    assert (rough.objective >= best.objective - best.gap).all()


def test_an_instance_does_not_see_its_batch():
    A, b = normal(4, 20, 15), normal(4, 20, seed=1)
    problem = with_ratio("lasso", A, b, torch.tensor([0.5, 0.1, 0.05, 0.01], dtype=F64))
    together = sp.reference(problem)
    for i in range(4):
        alone = sp.reference(problem.select(torch.tensor([i])))
        torch.testing.assert_close(alone.objective[0], together.objective[i], rtol=1e-12, atol=0)


def test_no_gradient_is_kept():
    problem = sp.lasso(normal(2, 8, 5), normal(2, 8, seed=1).requires_grad_(), 0.2)
    assert not sp.reference(problem).x.requires_grad


def test_failure_is_an_error_that_says_how_far_it_came():
    problem = random_problem("logistic", m=8, n=12, ratio=1e-8)
    assert (lam_max(problem) > 0).all()
    refused(
        lambda: sp.reference(problem, rounds=1, sweep=10),
        "the reference solver reached a relative gap of",
        "not 1.0e-12, in 10 iterations",
        "raise rounds or tol",
        error=sp.SureproxError,
    )


@pytest.mark.parametrize(
    ("options", "line"),
    [({"tol": "small"}, "tol is 'small'"), ({"rounds": 0}, "rounds is 0"), ({"sweep": 1.5}, "max_iter is 1.5")],
)
def test_bad_arguments_are_one_line(options, line):
    refused(lambda: sp.reference(random_problem("lasso"), **options), line)
    refused(lambda: sp.reference(3, **options), "problem is a int; make one with sureprox.lasso")
