"""`LogisticRegression` against scikit-learn's at a tight tolerance."""

import numpy as np
import pytest
import sklearn.linear_model as theirs
import torch
from scipy import sparse
from scipy.special import expit
from sklearn import __version__ as version
from sklearn.datasets import load_breast_cancer
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

import sureprox as sp
from helpers import refused
from sureprox.sklearn import LogisticRegression

L1 = {"l1_ratio": 1} if tuple(map(int, version.split(".")[:2])) >= (1, 8) else {"penalty": "l1"}


def truth(C, fit_intercept=True, **options):
    """saga leaves the intercept free; without one, liblinear is much faster."""
    solver = {"solver": "saga", "tol": 1e-12} if fit_intercept else {"solver": "liblinear", "tol": 1e-10}
    return theirs.LogisticRegression(
        C=C, fit_intercept=fit_intercept, max_iter=200_000, random_state=0, **solver, **L1, **options
    )


def random_data(seed: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    m, n = int(random.integers(20, 60)), int(random.integers(2, 25))
    X = random.normal(size=(m, n)) + random.normal(size=n) / 2
    y = X @ random.normal(size=n) + 2 * random.normal(size=m) > random.normal()
    y[:2] = [False, True]
    return X, np.where(y, "yes", "no")


def assert_same(ours, reference):
    np.testing.assert_allclose(ours.coef_, reference.coef_, rtol=0, atol=1e-5)
    if reference.coef_.any():
        np.testing.assert_allclose(ours.intercept_, reference.intercept_, rtol=0, atol=1e-5)


@pytest.mark.parametrize(("C", "intercept"), [(0.1, True), (0.02, True), (1.0, False), (3.0, False)])
def test_breast_cancer(C, intercept):
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    ours, reference = LogisticRegression(C=C, fit_intercept=intercept).fit(X, y), truth(C, intercept).fit(X, y)
    assert_same(ours, reference)
    np.testing.assert_allclose(ours.predict_proba(X), reference.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(ours.predict(X), reference.predict(X))
    assert ours.coef_.shape == (1, 30)
    assert ours.n_iter_.shape == ours.intercept_.shape == (1,)


@pytest.mark.parametrize("seed", range(50))
def test_random_problems(seed):
    X, y = random_data(seed)
    C, intercept = 10 ** np.random.default_rng(seed).uniform(-1, 0.5), seed % 2 == 0
    ours = LogisticRegression(C=C, fit_intercept=intercept).fit(X, y)
    assert_same(ours, truth(C, intercept).fit(X, y))
    assert ours.classes_.tolist() == ["no", "yes"]
    if intercept and not ours.coef_.any():  # where saga stops with any intercept
        assert ours.intercept_[0] == pytest.approx(np.log((y == "yes").sum() / (y == "no").sum()), abs=1e-9)
    assert ours.dual_gap_ <= 1e-6 * C * len(y)


@pytest.mark.parametrize("class_weight", [None, "balanced", {"no": 3.0, "yes": 0.5}])
def test_sample_and_class_weights(class_weight):
    X, y = random_data(3)
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    if class_weight == "balanced":
        weights = np.ones(len(y))  # scikit-learn has changed what balanced means beside sample weights
    ours = LogisticRegression(class_weight=class_weight).fit(X, y, sample_weight=weights)
    assert_same(ours, truth(1.0, class_weight=class_weight).fit(X, y, sample_weight=weights))


def test_units_and_means_of_the_features_do_not_matter():
    """Raw columns from 1e-3 to 1e3: coordinate by coordinate the solution of the scaled problem with scaled weights."""
    X, y = load_breast_cancer(return_X_y=True)
    model = LogisticRegression(C=0.1).fit(X, y)
    moved = LogisticRegression(C=0.1).fit(X + 100.0, y)
    np.testing.assert_allclose(moved.coef_, model.coef_, rtol=1e-4, atol=1e-7)
    gradient = X.T @ (model.predict_proba(X)[:, 1] - y) * 0.1
    on = model.coef_[0] != 0
    assert (np.abs(gradient) <= 1 + 1e-5).all()
    np.testing.assert_allclose(gradient[on], -np.sign(model.coef_[0][on]), atol=1e-5)


def test_conversion_of_C_and_the_duality_gap():
    """lam = 1 / (n C); dual_gap_ is in units of C sum_i loss_i + |w|_1."""
    X, y = random_data(8)
    C, n = 0.7, len(y)
    ours = LogisticRegression(C=C, fit_intercept=False, tol=1e-4).fit(X, y)
    problem = sp.logistic(X, (y == "yes").astype(float), 1 / (n * C))
    best = sp.reference(problem)
    above = C * n * float(problem.objective(torch.tensor(ours.coef_)) - best.objective)
    assert -1e-12 <= above <= ours.dual_gap_ + 1e-12
    assert ours.dual_gap_ <= 1e-4 * C * n * float(best.objective) * 1.01


def test_duality_gap_with_an_intercept_bounds_the_distance():
    X, y = random_data(10)
    signs = np.where(y == "yes", 1.0, -1.0)

    def objective(model):
        return np.logaddexp(0, -signs * model.decision_function(X)).sum() + np.abs(model.coef_).sum()

    best = LogisticRegression(tol=1e-12).fit(X, y)
    assert best.dual_gap_ <= 1e-9
    for tol in (1e-1, 1e-2, 1e-3):
        model = LogisticRegression(tol=tol).fit(X, y)
        assert -1e-10 <= objective(model) - objective(best) <= model.dual_gap_ + 1e-10


def test_sparse_data_and_probabilities():
    X, y = random_data(12)
    X = X * (np.abs(X) > 0.5)
    dense, from_sparse = LogisticRegression().fit(X, y), LogisticRegression().fit(sparse.csc_array(X), y)
    np.testing.assert_array_equal(dense.coef_, from_sparse.coef_)
    probabilities = dense.predict_proba(sparse.csr_array(X))
    np.testing.assert_allclose(probabilities.sum(1), 1)
    np.testing.assert_allclose(np.log(probabilities), dense.predict_log_proba(X))


def test_one_class_is_refused():
    X, y = random_data(0)
    with pytest.raises(ValueError, match="only one class"):
        LogisticRegression().fit(X, np.ones(len(y)))
    with pytest.raises(ValueError, match="only one class"):
        LogisticRegression().fit(X, y, sample_weight=(y == "no").astype(float))


def test_bad_parameters_are_one_line():
    X, y = random_data(0)
    refused(lambda: LogisticRegression(C=0).fit(X, y), "C is 0", "> 0")
    refused(lambda: LogisticRegression(l1_ratio=1.5).fit(X, y), "l1_ratio is 1.5", "between 0 and 1")
    refused(lambda: LogisticRegression(tol=-1).fit(X, y), "tol is -1")


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("C", [1e10, 1e12, 1e15])
def test_separable_data_that_is_not_at_the_optimum_warns(C, intercept):
    """The loss is then so small that its gradient is, wherever x is. With more iterations it gets there."""
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 10))
    y = X[:, 0] + 0.3 * X[:, 1] > 0
    options = {"C": C, "fit_intercept": intercept, "tol": 1e-10}
    with pytest.warns(ConvergenceWarning, match="did not reach tol"):
        model = LogisticRegression(max_iter=20, **options).fit(X, y)
    assert model.dual_gap_ > 1

    model = LogisticRegression(max_iter=300, **options).fit(X, y)
    signs, design = 2 * y - 1, np.hstack([X, -X, np.ones((60, 2)) * [1, -1]] if intercept else [X, -X])
    cost = np.concatenate([np.ones(20), np.zeros(2 if intercept else 0)])

    def objective(z):
        margin = signs * (design @ z)
        return C * np.logaddexp(0, -margin).sum() + cost @ z, cost - C * design.T @ (signs * expit(-margin))

    w, c = model.coef_[0], model.intercept_[0] if intercept else 0.0
    found = np.concatenate([np.maximum(w, 0), np.maximum(-w, 0), [max(c, 0), max(-c, 0)] if intercept else []])
    value, slope = objective(found)
    assert model.dual_gap_ <= 1e-10 * value
    assert slope.min() >= -1e-4  # and no direction descends, nor does what is used ascend
    assert np.abs(slope[found > 0]).max() <= 1e-4


def test_without_a_warning_the_gap_is_within_the_tolerance():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 10))
    y = X[:, 0] + 0.3 * X[:, 1] > 0
    model = LogisticRegression(C=1e2, tol=1e-8).fit(X, y)
    margin = (2 * y - 1) * (X @ model.coef_[0] + model.intercept_)
    objective = 1e2 * np.logaddexp(0, -margin).sum() + np.abs(model.coef_).sum()
    assert 0 <= model.dual_gap_ <= 1e-8 * objective
