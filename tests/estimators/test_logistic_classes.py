"""`LogisticRegression` of several classes with all penalties, and `LogisticRegressionCV`, against scikit-learn's."""

import warnings

import numpy as np
import pytest
import sklearn.linear_model as theirs
from scipy import sparse
from sklearn import __version__ as version
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupKFold
from sklearn.preprocessing import StandardScaler

from helpers import refused
from sureprox.sklearn import LogisticRegression, LogisticRegressionCV, linear

RECENT = tuple(map(int, version.split(".")[:2])) >= (1, 8)


def truth(C=1.0, l1_ratio=0.0, **options):
    """saga for penalties with L1, which scikit-learn up to 1.7 had other names for; else Newton's method."""
    solver = {"solver": "saga" if l1_ratio else "newton-cg", "tol": 1e-12, "max_iter": 100_000, "random_state": 0}
    penalty = {"l1_ratio": l1_ratio}
    if not RECENT:
        penalty = {"penalty": "elasticnet", "l1_ratio": l1_ratio} if l1_ratio else {"penalty": "l2"}
        penalty = {"penalty": None} if np.isinf(C) else penalty
        C = 1.0 if np.isinf(C) else C
    return theirs.LogisticRegression(C=C, **penalty, **solver, **options)


def iris():
    X, y = load_iris(return_X_y=True)
    return StandardScaler().fit_transform(X), np.array(["setosa", "versicolor", "virginica"])[y]


def noisy(seed=0, m=80, classes=3):
    """Classes that no plane separates."""
    random = np.random.default_rng(seed)
    X = random.normal(size=(m, 6)) + random.normal(size=6)
    return X, (X[:, 0] + 2 * random.normal(size=m) > np.linspace(-2, 2, classes + 1)[1:-1, None]).sum(0)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("l1_ratio", [1.0, 0.5, 0.0])
def test_three_classes(l1_ratio, intercept):
    X, y = iris()
    options = {"C": 0.5, "l1_ratio": l1_ratio, "fit_intercept": intercept, "class_weight": {"setosa": 2.0}}
    ours, reference = LogisticRegression(**options).fit(X, y), truth(**options).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), reference.predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(ours.predict_log_proba(X), reference.predict_log_proba(X), atol=1e-4)
    np.testing.assert_array_equal(ours.predict(X), reference.predict(X))
    assert ours.decision_function(X).shape == (150, 3)
    assert ours.dual_gap_ <= 1e-9


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("l1_ratio", [0.5, 0.0])
def test_weights_of_the_rows(classes, l1_ratio):
    X, y = noisy(1, classes=classes)
    weights = np.random.default_rng(0).integers(0, 3, len(y)).astype(float)
    ours = LogisticRegression(C=0.3, l1_ratio=l1_ratio).fit(X, y, weights)
    reference = truth(C=0.3, l1_ratio=l1_ratio).fit(X, y, weights)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=1e-5)


@pytest.mark.parametrize("classes", [2, 4])
def test_no_penalty(classes):
    X, y = noisy(2, classes=classes)
    ours, reference = LogisticRegression(C=np.inf).fit(X, y), truth(C=np.inf).fit(X, y)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.intercept_, reference.intercept_, atol=1e-5)


def test_gap_bounds_the_distance_of_several_classes():
    X, y = noisy(3, classes=4)

    def objective(model):
        return -2 * model.predict_log_proba(X)[np.arange(len(y)), y].sum() + np.abs(model.coef_).sum()

    best = objective(LogisticRegression(C=2).fit(X, y))
    for tol in (1e-1, 1e-3, 1e-5):
        model = LogisticRegression(C=2, tol=tol).fit(X, y)
        assert -1e-9 <= objective(model) - best <= model.dual_gap_ + 1e-9


def test_no_iterations_leave_the_start():
    X, y = iris()
    with pytest.warns(ConvergenceWarning, match="in 0 iterations"):
        model = LogisticRegression(max_iter=0).fit(X, y)
    assert not model.coef_.any()
    assert model.n_iter_ == 0
    warm = LogisticRegression(warm_start=True).fit(X, y)
    again = warm.n_iter_[0], warm.fit(X, y).n_iter_[0]
    assert again[0] > again[1] == 1


def test_sparse_data_that_stays_sparse(monkeypatch):
    X, y = noisy(4)
    X = np.where(np.abs(X) > 1, X, 0.0)
    dense = LogisticRegression(C=0.5).fit(X, y)
    monkeypatch.setattr(linear, "SMALL", 0)
    ours = LogisticRegression(C=0.5).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(ours.coef_, dense.coef_, atol=1e-4)
    np.testing.assert_allclose(ours.predict_proba(sparse.csr_array(X)), dense.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("classes", [2, 3])
def test_cross_validation(classes):
    X, y = noisy(5, classes=classes)
    # where coef_ is zero, saga stops with any intercept: not with these C
    options = {"Cs": [0.5, 1.0, 5.0], "l1_ratios": (0.0, 0.6), "cv": 3, "scoring": "neg_log_loss"}
    ours = LogisticRegressionCV(path_tol=1e-10, **options).fit(X, y)
    if not RECENT:
        pytest.skip("scikit-learn before 1.8 has other attributes")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        reference = theirs.LogisticRegressionCV(
            solver="saga", tol=1e-9, max_iter=10_000, random_state=0, use_legacy_attributes=False, **options
        ).fit(X, y)
    assert (ours.C_, ours.l1_ratio_) == (reference.C_, reference.l1_ratio_)
    np.testing.assert_allclose(ours.scores_, reference.scores_, atol=1e-6)
    np.testing.assert_allclose(ours.coefs_paths_, reference.coefs_paths_, atol=1e-4)
    np.testing.assert_allclose(ours.coef_, reference.coef_, atol=1e-4)
    assert ours.score(X, y) == pytest.approx(reference.score(X, y), abs=1e-6)


def test_cross_validation_of_the_accuracy_with_weights_and_groups():
    X, y = load_breast_cancer(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    groups, weights = np.arange(len(y)) % 3, np.random.default_rng(0).uniform(1, 2, len(y))
    model = LogisticRegressionCV(Cs=[0.01, 0.1], cv=GroupKFold(3)).fit(X, y, weights, groups)
    for fold, (train, test) in enumerate(GroupKFold(3).split(X, y, groups)):
        for place, C in enumerate(model.Cs_):
            alone = LogisticRegression(C=C).fit(X[train], y[train], weights[train])
            assert model.scores_[fold, 0, place] == pytest.approx(alone.score(X[test], y[test], weights[test]))
    assert model.Cs_[model.scores_.mean((0, 1)).argmax()] == model.C_
    np.testing.assert_allclose(model.coef_, LogisticRegression(C=model.C_).fit(X, y, weights).coef_)
    assert model.score(X, y) > 0.95


def test_bad_parameters_are_one_line():
    X, y = iris()
    refused(lambda: LogisticRegressionCV(Cs=0).fit(X, y), "Cs is 0")
    refused(lambda: LogisticRegressionCV(Cs=[-1]).fit(X, y), "Cs is -1")
    refused(lambda: LogisticRegressionCV(Cs=[1], cv=[(np.arange(60), np.arange(60, 150))]).fit(X, y), "some fold")
    refused(lambda: LogisticRegression(max_iter=-1).fit(X, y), "max_iter is -1", ">= 0")
