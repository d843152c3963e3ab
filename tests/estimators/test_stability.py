"""Stability selection: the shares of halves, counted again by scikit-learn's lasso, and what is proved about them."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import Lasso

import sureprox.sklearn.stability as stability
from sureprox.base.errors import InputError
from sureprox.sklearn import StabilitySelection

ENGINES = ("auto", "plain")


def data(m: int = 60, n: int = 12, noise: float = 0.5) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(4)
    X = rng.standard_normal((m, n)) + 3
    return X, X[:, 0] - 2 * X[:, 1] + 0.7 * X[:, 2] + noise * rng.standard_normal(m) + 5


def counted(X, y, fitted, weakness) -> np.ndarray:
    """The shares (K, n) by one lasso after the other, with the halves and weights that the seed 7 gives."""
    random, half = np.random.RandomState(7), len(y) // 2
    orders = [random.permutation(len(y)) for _ in range(fitted.n_samples // 2)]
    halves = [rows for order in orders for rows in (order[:half], order[half : 2 * half])]
    factors = np.where(random.rand(len(halves), X.shape[1]) < 0.5, 1.0, weakness)
    counts = np.zeros((len(fitted.alphas_), X.shape[1]))
    for rows, v in zip(halves, factors, strict=True):
        for k, alpha in enumerate(fitted.alphas_):
            net = Lasso(alpha=alpha, tol=1e-14, max_iter=100_000).fit(X[rows] * v, y[rows])
            counts[k] += np.abs(net.coef_) > 1e-10
    return counts / len(halves)


@pytest.mark.parametrize("weakness", [0.4, 1])
def test_the_shares_are_those_of_single_lassos(weakness):
    X, y = data()
    fitted = StabilitySelection(n_samples=10, alphas=6, weakness=weakness, random_state=7).fit(X, y)
    np.testing.assert_allclose(fitted.stability_path_, counted(X, y, fitted, weakness))
    np.testing.assert_array_equal(fitted.scores_, fitted.stability_path_.max(0))
    assert fitted.get_support()[:3].all()
    assert fitted.get_support().sum() < 12
    np.testing.assert_array_equal(fitted.transform(X), X[:, fitted.get_support()])
    assert (fitted.scores_least_ <= fitted.scores_).all()
    assert (fitted.scores_ <= fitted.scores_most_).all()
    assert fitted.proved_ > 0.9
    assert fitted.certified_.all()
    assert fitted.false_selections_ > 0


def test_nothing_is_certified_where_nothing_is_proved(monkeypatch):
    X, y = data()
    prove = stability.proved
    monkeypatch.setattr(stability, "proved", lambda problem, x, gap: prove(problem, x, torch.full_like(gap, torch.inf)))
    loose = StabilitySelection(n_samples=4, alphas=[0.3], random_state=0).fit(X, y)
    assert loose.proved_ == 0
    assert (loose.scores_least_ == 0).all()
    assert (loose.scores_most_ == 1).all()
    assert not loose.certified_.any()


def test_the_answer_depends_on_the_seed_alone(monkeypatch):
    X, y = data()
    first, again = (StabilitySelection(n_samples=10, alphas=5, random_state=1).fit(X, y) for _ in range(2))
    monkeypatch.setattr(stability, "ROOM", 1)  # one half at a time
    apart = StabilitySelection(n_samples=10, alphas=5, random_state=1).fit(X, y)
    other = StabilitySelection(n_samples=10, alphas=5, random_state=2).fit(X, y)
    for same in (again, apart):
        np.testing.assert_array_equal(same.stability_path_, first.stability_path_)
    assert (other.stability_path_ != first.stability_path_).any()
    few = [StabilitySelection(n_samples=2, alphas=[1.0, 0.5], random_state=1, engine=engine) for engine in ENGINES]
    kernels, plain = (one.fit(X, y).stability_path_ for one in few)
    np.testing.assert_array_equal(kernels, plain)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"n_samples": 5}, "n_samples is 5; it must be an even number >= 2"),
        ({"threshold": 0.5}, "threshold is 0.5 and weakness 0.5; they must be > 0.5 and > 0"),
        ({"weakness": 1.5}, "weakness is 1.5; it must be a finite number between 0 and 1"),
        ({"alphas": [0.1, -1]}, "alphas is -1"),
        ({"alphas": []}, "alphas must be numbers > 0"),
        ({"alphas": [0.0]}, "alphas must be numbers > 0"),
        ({"alphas": 0}, "alphas is 0; it must be a finite number >= 1"),
        ({"eps": 0}, "eps is 0"),
    ],
)
def test_parameters_that_mean_nothing_are_refused(wrong, words):
    with pytest.raises(InputError, match=words.replace("(", "\\(")):
        StabilitySelection(**wrong).fit(*data())


def test_a_response_that_is_constant_selects_nothing():
    X, y = data()
    fitted = StabilitySelection(n_samples=4, alphas=3, random_state=0).fit(X, 0 * y)
    assert not fitted.get_support().any()
