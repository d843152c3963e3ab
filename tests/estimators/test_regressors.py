"""`HuberRegressor`, `PoissonRegressor` and `GroupLasso` against scikit-learn, celer and optimality conditions."""

import celer
import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import optimize, sparse
from sklearn.base import clone

from helpers import refused
from sureprox.sklearn import GroupLasso, HuberRegressor, Lasso, PoissonRegressor, linear


def data(seed=0, m=60, n=12):
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, n)) * random.uniform(0.5, 2, n) + random.normal(size=n)
    y = X[:, :4] @ np.array([1, -1, 0.5, 0.5]) / 2 + 0.3 * random.normal(size=m)
    y[:5] += 10
    return X, y


def smallest(loss, X, alpha):
    """min loss(X w + c) + alpha |w|_1 by L-BFGS-B on w = u - v, u, v >= 0: (w, c)."""
    n = X.shape[1]

    def value(p):
        z, slope = loss(X @ (p[:n] - p[n : 2 * n]) + p[-1])
        g = X.T @ slope
        return z + alpha * p[:-1].sum(), np.concatenate([g + alpha, alpha - g, [slope.sum()]])

    bounds = [(0, None)] * (2 * n) + [(None, None)]
    options = {"maxiter": 100_000, "maxfun": 100_000, "ftol": 0, "gtol": 1e-12, "maxls": 100}
    p = optimize.minimize(value, np.zeros(2 * n + 1), jac=True, method="L-BFGS-B", bounds=bounds, options=options).x
    return p[:n] - p[n : 2 * n], p[-1]


@pytest.mark.parametrize("alpha", [0.01, 0.1])
def test_huber_with_l1(alpha):
    X, y = data(1)

    def loss(z):
        r = z - y
        u = r.clip(-0.5, 0.5)
        return (u * (r - u / 2)).mean(), u / len(y)

    w, c = smallest(loss, X, alpha)
    ours = HuberRegressor(alpha, delta=0.5).fit(X, y)
    np.testing.assert_allclose(ours.coef_, w, atol=1e-5)
    assert ours.intercept_ == pytest.approx(c, abs=1e-5)
    assert 0 < np.count_nonzero(ours.coef_) < 12
    assert np.abs(ours.coef_ - Lasso(alpha).fit(X, y).coef_).max() > 0.1  # which the outliers pull away


def test_huber_with_l2_is_scikit_learns_at_its_scale():
    X, y = data(2)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    reference = theirs.HuberRegressor(alpha=1.0, tol=1e-10, max_iter=10_000).fit(X, y, sample_weight=weights)
    s = reference.scale_
    ours = HuberRegressor(s / weights.sum(), delta=1.35 * s, l1_ratio=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)


def counts(seed):
    X, _ = data(seed)
    return X, np.random.default_rng(seed).poisson(np.exp(0.3 * X[:, 0] - 0.2 * X[:, 1] + 2)).astype(float)


@pytest.mark.parametrize("intercept", [True, False])
def test_poisson_with_l2_is_scikit_learns(intercept):
    X, y = counts(3)
    weights = np.random.default_rng(0).uniform(0, 2, len(y))
    options = {"alpha": 0.3, "fit_intercept": intercept}
    reference = theirs.PoissonRegressor(solver="newton-cholesky", tol=1e-12, **options).fit(X, y, weights)
    ours = PoissonRegressor(l1_ratio=0, **options).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-8)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-8)
    np.testing.assert_allclose(ours.predict(X), reference.predict(X), rtol=1e-7)
    assert ours.score(X, y, weights) == pytest.approx(reference.score(X, y, weights))


def test_poisson_with_l1():
    X, y = counts(4)
    w, c = smallest(lambda z: ((np.exp(z) - y * z).mean(), (np.exp(z) - y) / len(y)), X, 0.5)
    ours = PoissonRegressor(0.5).fit(X, y)
    np.testing.assert_allclose(ours.coef_, w, atol=1e-5)
    assert ours.intercept_ == pytest.approx(c, abs=1e-5)
    assert 0 < np.count_nonzero(ours.coef_) < 12
    refused(lambda: PoissonRegressor().fit(X, -y), "y")


@pytest.mark.parametrize("model", [HuberRegressor(0.05), PoissonRegressor(0.05)])
def test_sparse_data_that_stays_sparse(monkeypatch, model):
    X, y = counts(5)
    X = np.where(np.abs(X) > 1, X, 0.0)
    dense = clone(model).fit(X, y)
    monkeypatch.setattr(linear, "SMALL", 0)
    ours = clone(model).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(ours.coef_, dense.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(dense.intercept_, abs=1e-6)


def test_targets_of_a_huber_loss_are_a_batch():
    X, y = data(5)
    both = HuberRegressor(0.05).fit(X, np.stack([y, y[::-1]], 1))
    np.testing.assert_allclose(both.coef_[1], HuberRegressor(0.05).fit(X, y[::-1]).coef_, atol=1e-9)
    assert both.predict(X).shape == (len(y), 2)


@pytest.mark.parametrize("intercept", [True, False])
def test_group_lasso_is_celers(intercept):
    X, y = data(6)
    groups = [[0, 5, 7], [1, 2], [3, 4, 6, 8], [9, 10, 11]]
    weights = np.sqrt([3, 2, 4, 3])
    reference = celer.GroupLasso(groups, 0.5, tol=1e-14, weights=weights, fit_intercept=intercept).fit(X, y)
    ours = GroupLasso(0.5, groups=groups, fit_intercept=intercept).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-6)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-6)
    zero = [not ours.coef_[group].any() for group in groups]
    assert 0 < sum(zero) < 4


def test_ways_to_name_groups():
    X, y = data(7)
    by_size = GroupLasso(0.1, groups=3).fit(X, y).coef_
    labels = np.arange(12) // 3
    np.testing.assert_array_equal(GroupLasso(0.1, groups=labels).fit(X, y).coef_, by_size)
    np.testing.assert_array_equal(GroupLasso(0.1, groups=np.arange(12).reshape(4, 3)).fit(X, y).coef_, by_size)
    np.testing.assert_allclose(GroupLasso(0.1).fit(X, y).coef_, Lasso(0.1).fit(X, y).coef_, atol=1e-6)
    free = np.where(labels == 2, -1, labels)
    free[labels == 3] = 2
    assert GroupLasso(100.0, groups=free).fit(X, y).coef_.nonzero()[0].tolist() == [6, 7, 8]
    refused(lambda: GroupLasso(groups=5).fit(X, y), "groups is 5", "12 features")
    refused(lambda: GroupLasso(groups=[0, 1]).fit(X, y), "groups name 2 coordinates", "12")


def test_bad_parameters_are_one_line():
    X, y = data()
    refused(lambda: HuberRegressor(delta=-1).fit(X, y), "delta is -1")
    refused(lambda: PoissonRegressor(-1).fit(X, np.abs(y)), "alpha is -1")
