"""`ElasticNet`, bounds, sparse X, warm starts and regularisation paths against scikit-learn's at a tight tolerance."""

import tracemalloc
import warnings

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import optimize, sparse
from sklearn.datasets import load_diabetes
from sklearn.exceptions import ConvergenceWarning

from helpers import refused
from sureprox.sklearn import ElasticNet, Lasso, NonNegativeLeastSquares, enet_path, lasso_path, linear


def data(seed=0, m=40, n=15, targets=None):
    """Correlated columns of different means and units."""
    random = np.random.default_rng(seed)
    X = (random.normal(size=(m, n)) + random.normal(size=(m, 1))) * 10 ** random.uniform(-1, 1, n)
    Y = X @ random.normal(size=(n, targets or 1)) + random.normal(size=(m, targets or 1)) + 3
    return X + random.normal(size=n), Y if targets else Y[:, 0]


def sparse_data(m=120, n=40):
    random = np.random.default_rng(4)
    X = sparse.random(m, n, 0.1, random_state=random, format="csr")
    return X, X[:, :5] @ np.arange(1, 6) + 0.1 * random.normal(size=m)


def assert_same(ours, reference, digits=1e-6):
    scale = max(1.0, np.abs(reference.coef_).max())
    np.testing.assert_allclose(ours.coef_, reference.coef_, rtol=0, atol=digits * scale)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, rtol=digits, atol=digits * scale)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.01])
@pytest.mark.parametrize("intercept", [True, False])
def test_same_coefficients(l1_ratio, positive, intercept):
    X, y = data(1)
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    options = {"l1_ratio": l1_ratio, "positive": positive, "fit_intercept": intercept}
    reference = theirs.ElasticNet(0.3, tol=1e-15, max_iter=1_000_000, **options).fit(X, y, sample_weight=weights)
    ours = ElasticNet(0.3, **options).fit(X, y, sample_weight=weights)
    assert_same(ours, reference)
    assert 0 <= ours.dual_gap_ <= 1e-10 * np.square(y).mean()


def test_without_l1_it_is_ridge():
    X, y = data(2)
    ours = ElasticNet(0.7, l1_ratio=0).fit(X, y)
    assert_same(ours, theirs.Ridge(0.7 * len(y)).fit(X, y))


def test_gap_bounds_the_distance():
    X, y = data(3)

    def objective(model):
        w = model.coef_
        return np.square(y - model.predict(X)).mean() / 2 + 0.1 * (0.3 * np.abs(w).sum() + 0.35 * w @ w)

    best = objective(ElasticNet(0.1, l1_ratio=0.3, tol=1e-13).fit(X, y))
    for count in (10, 20, 40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = ElasticNet(0.1, l1_ratio=0.3, max_iter=count, optimizer="go-math-l2o/lasso").fit(X, y)
        assert -1e-12 <= objective(model) - best <= model.dual_gap_ + 1e-12


def test_an_alpha_and_a_share_for_each_target():
    X, Y = data(4, targets=3)
    alphas, shares = [0.1, 1.0, 0.01], [1.0, 0.5, 0.2]
    together = ElasticNet(alphas, l1_ratio=shares).fit(X, Y)
    for k in range(3):
        alone = ElasticNet(alphas[k], l1_ratio=shares[k]).fit(X, Y[:, k])
        np.testing.assert_allclose(together.coef_[k], alone.coef_, rtol=1e-8, atol=1e-10)
        assert together.intercept_[k] == pytest.approx(alone.intercept_)
    refused(lambda: ElasticNet([0.1, 0.2]).fit(X, Y), "alpha has 2 numbers", "3 targets")


def test_nonnegative_least_squares():
    X, y = data(5)
    assert_same(NonNegativeLeastSquares().fit(X, y), theirs.LinearRegression(positive=True).fit(X, y))
    alone = NonNegativeLeastSquares(fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(alone.coef_, optimize.nnls(X, y)[0], atol=1e-8)


def test_warm_start_begins_at_the_last_solution():
    X, y = data(6)
    model = ElasticNet(0.1, warm_start=True, optimizer="fista-restart", tol=1e-12).fit(X, y)
    again = model.n_iter_, model.fit(X, y).n_iter_
    assert again[0] > again[1] == 1
    model.alpha = 0.09
    assert_same(model.fit(X, y), ElasticNet(0.09).fit(X, y), 1e-8)
    assert model.fit(X[:, :4], y).coef_.shape == (4,)  # nothing to start from


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_sparse_data_that_stays_sparse(monkeypatch, intercept, positive):
    monkeypatch.setattr(linear, "SMALL", 0)
    X, y = sparse_data()
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    options = {"l1_ratio": 0.7, "fit_intercept": intercept, "positive": positive}
    reference = theirs.ElasticNet(0.002, tol=1e-14, max_iter=100_000, **options).fit(
        X.toarray(), y, sample_weight=weights
    )
    assert_same(ElasticNet(0.002, tol=1e-13, **options).fit(X, y, sample_weight=weights), reference)


def test_a_large_sparse_matrix_is_not_made_dense():
    X = sparse.random(1000, 10_000, 2e-3, random_state=0, format="csr")  # 80 MB if it were dense
    y = np.asarray(X[:, :3].sum(1)).ravel()
    tracemalloc.start()  # sees NumPy's memory, where a dense copy would begin
    model = Lasso(2e-4, tol=1e-3).fit(X, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.count_nonzero(model.coef_) > 0
    assert peak < 10e6


def test_tolerance_zero_is_as_small_as_float64_can_tell():
    X, y = data(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = Lasso(0.1, tol=0, max_iter=50).fit(X, y)
    assert_same(model, theirs.Lasso(0.1, tol=1e-15, max_iter=1_000_000).fit(X, y))


def test_names_of_the_columns():
    pandas = pytest.importorskip("pandas")
    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = Lasso(0.1).fit(X, y)
    assert list(model.feature_names_in_) == list(X.columns)
    with pytest.raises(ValueError, match="feature names"):
        model.predict(X[X.columns[::-1]])
    both = Lasso(0.1).fit(X, pandas.DataFrame({"a": y, "b": -y}))
    np.testing.assert_allclose(both.coef_[1], -model.coef_, atol=1e-9)


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.4])
def test_paths(l1_ratio, positive):
    X, y = data(8)
    X, y = X - X.mean(0), y - y.mean()
    options = {"l1_ratio": l1_ratio, "alphas": 12, "positive": positive}
    alphas, coefs, gaps, counts = enet_path(X, y, return_n_iter=True, **options)
    expected = theirs.enet_path(X, y, tol=1e-14, max_iter=1_000_000, **options)
    np.testing.assert_allclose(alphas, expected[0], rtol=1e-9)
    np.testing.assert_allclose(coefs, expected[1], rtol=0, atol=1e-6 * np.abs(expected[1]).max())
    assert gaps.shape == (12,)
    assert len(counts) == 12
    assert (gaps <= 1e-10 * np.square(y).mean()).all()


def test_a_path_for_each_target():
    X, Y = data(9, targets=2)
    alphas, coefs, gaps = lasso_path(X, Y, alphas=[0.1, 3.0, 1.0])
    np.testing.assert_array_equal(alphas, [3, 1, 0.1])
    assert coefs.shape == (2, 15, 3)
    assert gaps.shape == (2, 3)
    for k in range(2):
        np.testing.assert_allclose(coefs[k], lasso_path(X, Y[:, k], alphas=alphas)[1], rtol=1e-8, atol=1e-10)
    refused(lambda: lasso_path(X, Y, l1_ratio=0.5), "enet_path")
    refused(lambda: enet_path(X, Y, l1_ratio=0), "l1_ratio is 0", "alphas=")


def test_bad_parameters_are_one_line():
    X, y = data()
    refused(lambda: ElasticNet(l1_ratio=1.5).fit(X, y), "l1_ratio is 1.5", "between 0 and 1")
    refused(lambda: ElasticNet(precompute="yes").fit(X, y), "precompute has value 'yes'", "(15, 15)")
    refused(lambda: ElasticNet(precompute=np.eye(3)).fit(X, y), "precompute has shape (3, 3)")
    refused(lambda: ElasticNet(tol=True).fit(X, y), "tol is True")


@pytest.mark.parametrize("precompute", [True, "auto", "gram"])
def test_precompute_changes_nothing(precompute):
    X, y = data()
    gram = (X - X.mean(0)).T @ (X - X.mean(0)) if precompute == "gram" else precompute
    np.testing.assert_array_equal(Lasso(precompute=gram).fit(X, y).coef_, Lasso().fit(X, y).coef_)
