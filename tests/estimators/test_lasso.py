"""`Lasso` against scikit-learn's at a tight tolerance."""

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

import sureprox as sp
from helpers import refused
from sureprox.sklearn import Lasso


def truth(X, y, alpha, **options):
    return theirs.Lasso(alpha, tol=1e-14, max_iter=1_000_000, **options)


def random_data(seed: int, targets: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Wide or tall, columns of different means and units, correlated."""
    random = np.random.default_rng(seed)
    m, n = (int(size) for size in random.integers(5, 60, 2))
    X = random.normal(size=(m, n)) + random.uniform(0, 1) * random.normal(size=(m, 1))
    X = X * 10 ** random.uniform(-1, 1, n) + random.normal(size=n)
    shape = (m,) if targets is None else (m, targets)
    return X, X @ random.normal(size=(n, *shape[1:])) * (random.uniform() < 0.5) + random.normal(size=shape)


def strongest(X, y) -> float:
    return float(np.abs((X - X.mean(0)).T @ (y - y.mean(0))).max() / len(X))


def assert_same(ours, reference):
    scale = max(1.0, np.abs(reference.coef_).max())
    np.testing.assert_allclose(ours.coef_, reference.coef_, rtol=0, atol=1e-5 * scale)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, rtol=1e-5, atol=1e-5 * scale)


@pytest.mark.parametrize("alpha", [1.0, 0.1, 0.001])
@pytest.mark.parametrize("load", [load_diabetes, load_breast_cancer])
def test_real_data(load, alpha):
    X, y = load(return_X_y=True)
    ours, reference = Lasso(alpha).fit(X, y), truth(X, y, alpha).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, rtol=0, atol=1e-5)
    assert ours.intercept_ == pytest.approx(reference.intercept_, abs=1e-5)
    assert ours.score(X, y) == pytest.approx(reference.score(X, y), abs=1e-9)


@pytest.mark.parametrize("seed", range(50))
def test_random_problems(seed):
    X, y = random_data(seed)
    alpha = strongest(X, y) * 10 ** np.random.default_rng(seed).uniform(-2, -0.3)
    intercept = seed % 3 != 0
    ours = Lasso(alpha, fit_intercept=intercept).fit(X, y)
    assert_same(ours, truth(X, y, alpha, fit_intercept=intercept).fit(X, y))
    assert ours.dual_gap_ <= 1e-9 * np.square(y).mean()


def test_targets_are_a_batch_of_problems():
    X, Y = random_data(3, targets=4)
    alpha = 0.05 * strongest(X, Y)
    ours = Lasso(alpha).fit(X, Y)
    assert_same(ours, truth(X, Y, alpha).fit(X, Y))
    assert ours.coef_.shape == (4, X.shape[1])
    assert ours.predict(X).shape == Y.shape
    assert len(ours.n_iter_) == len(ours.dual_gap_) == 4
    alone = Lasso(alpha).fit(X, Y[:, 2])
    np.testing.assert_allclose(ours.coef_[2], alone.coef_, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("intercept", [True, False])
def test_sample_weights(intercept):
    X, y = random_data(5)
    alpha, weights = 0.1 * strongest(X, y), np.random.default_rng(0).uniform(0, 3, len(y))
    reference = truth(X, y, alpha, fit_intercept=intercept).fit(X, y, sample_weight=weights)
    assert_same(Lasso(alpha, fit_intercept=intercept).fit(X, y, sample_weight=weights), reference)


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_data(kind):
    X, y = random_data(7)
    X = X * (np.abs(X) > np.median(np.abs(X)))
    alpha = 0.1 * strongest(X, y)
    dense, from_sparse = Lasso(alpha).fit(X, y), Lasso(alpha).fit(kind(X), y)
    np.testing.assert_array_equal(dense.coef_, from_sparse.coef_)
    np.testing.assert_allclose(from_sparse.predict(kind(X)), dense.predict(X))
    assert sparse.issparse(dense.sparse_coef_)
    np.testing.assert_array_equal(dense.sparse_coef_.toarray()[0], dense.coef_)


def test_conversion_of_alpha():
    """lam = n alpha on the centred data, and the objective divided by n."""
    X, y = random_data(9)
    alpha, n = 0.1 * strongest(X, y), len(y)
    ours = Lasso(alpha).fit(X, y)
    reference = sp.reference(sp.lasso(X - X.mean(0), y - y.mean(), n * alpha))
    np.testing.assert_allclose(ours.coef_, reference.x[0].numpy(), rtol=0, atol=1e-7)
    residual = y - ours.predict(X)
    objective = residual @ residual / (2 * n) + alpha * np.abs(ours.coef_).sum()
    assert objective - float(reference.objective) / n <= ours.dual_gap_ + 1e-12 * objective


def test_loose_tolerance_is_certified_too():
    X, y = random_data(11)
    alpha = 0.02 * strongest(X, y)
    loose, tight = (Lasso(alpha, tol=tol).fit(X, y) for tol in (1e-2, 1e-12))

    def objective(model):
        return np.square(y - model.predict(X)).mean() / 2 + alpha * np.abs(model.coef_).sum()

    assert 0 <= objective(loose) - objective(tight) + 1e-14 <= loose.dual_gap_ + 1e-12
    assert loose.dual_gap_ <= 1e-2 * objective(loose)
    assert loose.n_iter_ <= tight.n_iter_


@pytest.mark.parametrize("optimizer", [sp.optimizers.ISTA(), sp.optimizers.FISTA(), "go-math-l2o/lasso"])
def test_any_optimizer_gives_the_same_answer(optimizer):
    X, y = load_diabetes(return_X_y=True)
    np.testing.assert_allclose(Lasso(0.1, optimizer=optimizer).fit(X, y).coef_, Lasso(0.1).fit(X, y).coef_, atol=1e-5)


def test_without_a_penalty_it_is_least_squares():
    X, y = load_diabetes(return_X_y=True)
    assert_same(Lasso(0.0).fit(X, y), theirs.LinearRegression().fit(X, y))


def test_constant_column_and_target():
    X, y = random_data(13)
    X[:, 0] = 1e6 + 0.1
    model = Lasso(0.1 * strongest(X, y)).fit(X, y)
    assert model.coef_[0] == 0
    constant = Lasso().fit(X, np.full(len(y), 3.5))
    assert not constant.coef_.any()
    assert constant.intercept_ == 3.5


def test_too_few_iterations_are_a_warning():
    X, y = load_breast_cancer(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match=r"1 of 1 problems did not reach tol=1e-10 in 10 iterations"):
        model = Lasso(0.0001, max_iter=10).fit(X, y)
    assert model.n_iter_ == 10


def test_bad_parameters_are_one_line():
    X, y = random_data(0)
    refused(lambda: Lasso(-1.0).fit(X, y), "alpha is -1.0", ">= 0")
    refused(lambda: Lasso("much").fit(X, y), "alpha is 'much'")
    refused(lambda: Lasso(max_iter=0).fit(X, y), "max_iter is 0")
    refused(lambda: Lasso(tol=-1e-3).fit(X, y), "tol is -0.001", ">= 0")
    refused(lambda: Lasso(device="abacus").fit(X, y), "device is 'abacus'", "'cpu', 'cuda' or 'auto'")
    refused(lambda: Lasso(optimizer=3).fit(X, y), "optimizer is a int")
    refused(lambda: Lasso().fit(X, y, sample_weight=-np.ones(len(y))), "sample_weight must be >= 0")


def test_parameters_stay_and_a_fit_can_be_repeated():
    X, y = random_data(1)
    model = Lasso(0.1, device="auto")
    before = model.get_params()
    first = model.fit(X, y).coef_
    assert model.get_params() == before
    check_is_fitted(model)
    np.testing.assert_allclose(model.fit(X, y).coef_, first, rtol=0, atol=0)


@pytest.mark.parametrize("weight", [1e-300, 1e-40, 1e-29, 1e200])
def test_only_the_ratios_of_the_sample_weights_matter(weight):
    X, y = random_data(3)
    weights = np.random.default_rng(0).uniform(0.5, 2, len(y))
    alpha = 0.1 * strongest(X, y)
    plain, scaled = (Lasso(alpha).fit(X, y, sample_weight=size * weights) for size in (1.0, weight))
    assert np.count_nonzero(plain.coef_) > 0
    np.testing.assert_allclose(scaled.coef_, plain.coef_, rtol=1e-9, atol=1e-12 * np.abs(plain.coef_).max())
    assert scaled.dual_gap_ <= 1e-10 * y.var()


@pytest.mark.parametrize("unit", [1e160, 1e-160])
def test_features_whose_squares_overflow_or_underflow(unit):
    X, y = random_data(3)
    alpha = 0.1 * strongest(X, y)
    plain, scaled = Lasso(alpha).fit(X, y), Lasso(alpha * unit).fit(X * unit, y)
    assert np.count_nonzero(plain.coef_) > 0
    np.testing.assert_allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-9, atol=1e-12 * np.abs(plain.coef_).max())


def test_masked_entries_and_too_many_iterations_are_refused():
    X, y = random_data(3)
    refused(lambda: Lasso().fit(np.ma.masked_greater(X, X.min()), y), "X has", "masked entries", "fill them")
    refused(lambda: Lasso().fit(X, np.ma.masked_greater(y, y.min())), "y has", "masked entries", "fill them")
    refused(lambda: Lasso(max_iter=2**70).fit(X, y), f"max_iter is {2**70}", "at most")
