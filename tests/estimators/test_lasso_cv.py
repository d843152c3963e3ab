"""`LassoCV` chooses the alpha that scikit-learn's chooses."""

import dataclasses

import numpy as np
import pytest
import sklearn.linear_model as theirs
import torch
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_diabetes, make_regression
from sklearn.model_selection import GroupKFold, KFold

from helpers import refused
from sureprox.kernels.runtime.library import library
from sureprox.sklearn import ElasticNetCV, Lasso, LassoCV, folds, linear

DATA = {
    "diabetes": lambda: load_diabetes(return_X_y=True),
    "breast cancer": lambda: load_breast_cancer(return_X_y=True),
    "wide": lambda: make_regression(40, 90, n_informative=8, noise=5.0, random_state=1),
    "tall": lambda: make_regression(300, 12, n_informative=4, noise=20.0, random_state=2),
    "square": lambda: make_regression(60, 60, n_informative=10, noise=10.0, random_state=3),
}


def reference(**options):
    return theirs.LassoCV(tol=1e-10, max_iter=1_000_000, **options)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("name", DATA)
def test_same_alpha(name, intercept):
    X, y = DATA[name]()
    ours = LassoCV(fit_intercept=intercept).fit(X, y)
    expected = reference(fit_intercept=intercept, eps=1e-3).fit(X, y)
    assert ours.alpha_ == pytest.approx(expected.alpha_, rel=1e-9)
    np.testing.assert_allclose(ours.alphas_, expected.alphas_, rtol=1e-9)
    assert ours.mse_path_.shape == expected.mse_path_.shape == (100, 5)
    tight = LassoCV(fit_intercept=intercept, path_tol=1e-9).fit(X, y)
    np.testing.assert_allclose(tight.mse_path_, expected.mse_path_, rtol=1e-4)
    final = Lasso(ours.alpha_, fit_intercept=intercept).fit(X, y)
    np.testing.assert_array_equal(ours.coef_, final.coef_)
    assert (ours.intercept_, ours.n_iter_, ours.dual_gap_) == (final.intercept_, final.n_iter_, final.dual_gap_)


@pytest.mark.parametrize("name", ["diabetes", "wide"])
def test_folds_with_sample_weights_and_given_alphas(name):
    X, y = DATA[name]()
    weights = np.random.default_rng(0).uniform(0.1, 3, len(y))
    options = {"alphas": np.geomspace(0.01, 10, 15) * np.std(y) / 50, "cv": KFold(3, shuffle=True, random_state=0)}
    ours = LassoCV(path_tol=1e-9, **options).fit(X, y, sample_weight=weights)
    expected = reference(**options).fit(X, y, sample_weight=weights)
    assert ours.alpha_ == pytest.approx(expected.alpha_, rel=1e-12)
    np.testing.assert_array_equal(ours.alphas_, expected.alphas_)
    np.testing.assert_allclose(ours.mse_path_, expected.mse_path_, rtol=1e-4)
    np.testing.assert_allclose(ours.coef_, expected.coef_, rtol=0, atol=1e-4 * np.abs(expected.coef_).max())


def test_a_fold_is_a_lasso_on_its_rows():
    """Independent of scikit-learn's path: each cell of mse_path_ from a `Lasso` of its own."""
    X, y = DATA["wide"]()
    folds = list(KFold(3).split(X))
    model = LassoCV(alphas=[0.5, 3.0], cv=folds, path_tol=1e-12).fit(X, y)
    for k, (train, test) in enumerate(folds):
        for i, alpha in enumerate(model.alphas_):
            alone = Lasso(alpha).fit(X[train], y[train])
            error = np.square(y[test] - alone.predict(X[test])).mean()
            assert model.mse_path_[i, k] == pytest.approx(error, rel=1e-5)


def test_many_responses_ride_on_working_sets_whatever_the_shape(monkeypatch):
    """A fold with fewer rows than columns too, and a problem that is left over does not slow the others down."""
    if library(build=True) is None:
        pytest.skip("needs a C++ compiler")
    X, y = DATA["wide"]()
    Y = y[:, None] + 5 * np.random.default_rng(0).standard_normal((len(y), 3))
    expected = LassoCV(alphas=8, cv=3, path_tol=1e-9).fit(X, Y)
    monkeypatch.setattr(folds.FoldErrors, "_together", lambda *given: pytest.fail("the slow way was taken"))
    np.testing.assert_array_equal(LassoCV(alphas=8, cv=3, path_tol=1e-9).fit(X, Y).mse_path_, expected.mse_path_)
    solved = folds.solved_at_once

    def some_left(*given, **options):
        return dataclasses.replace(solved(*given, **options), left=torch.tensor([1, 5]))

    monkeypatch.setattr(folds, "solved_at_once", some_left)
    model = LassoCV(alphas=8, cv=3, path_tol=1e-9).fit(X, Y)
    np.testing.assert_allclose(model.mse_path_, expected.mse_path_, rtol=1e-4)


@pytest.mark.parametrize("responses", [1, 3])
def test_neither_threads_nor_a_loose_tolerance_change_the_errors(responses):
    """A chain is solved to 1e-6 at least."""
    X, y = DATA["wide"]()
    Y = y if responses == 1 else y[:, None] + 5 * np.random.default_rng(0).standard_normal((len(y), responses))
    loose, threads = LassoCV(path_tol=2e-4).fit(X, Y), torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        again = LassoCV(path_tol=2e-4).fit(X, Y)
    finally:
        torch.set_num_threads(threads)
    np.testing.assert_array_equal(again.mse_path_, loose.mse_path_)
    if library(build=True) is not None:
        np.testing.assert_array_equal(LassoCV(path_tol=1e-6).fit(X, Y).mse_path_, loose.mse_path_)


def test_sparse_data():
    X, y = DATA["wide"]()
    X = X * (np.abs(X) > 1)
    dense, from_sparse = LassoCV(alphas=10).fit(X, y), LassoCV(alphas=10).fit(sparse.csr_array(X), y)
    assert dense.alpha_ == from_sparse.alpha_
    np.testing.assert_array_equal(dense.coef_, from_sparse.coef_)


def test_constant_target():
    X, _ = DATA["wide"]()
    model = LassoCV(alphas=5).fit(X, np.ones(len(X)))
    assert not model.coef_.any()
    assert model.intercept_ == pytest.approx(1)


def test_bad_parameters_are_one_line():
    X, y = DATA["wide"]()
    refused(lambda: LassoCV(alphas=0).fit(X, y), "alphas is 0")
    refused(lambda: LassoCV(alphas=[]).fit(X, y), "alphas must be")
    refused(lambda: LassoCV(alphas=[1.0, -1.0]).fit(X, y), "alphas[1] == -1, must be >= 0")
    refused(lambda: LassoCV(eps=0).fit(X, y), "eps 0")
    refused(lambda: LassoCV(path_tol=-1).fit(X, y), "path_tol is -1")
    weights = np.ones(len(y))
    weights[:8] = 0
    refused(lambda: LassoCV(cv=5).fit(X, y, sample_weight=weights), "some fold has no row of positive weight")


@pytest.mark.parametrize("unit", [1e160, 1e-160])
def test_the_path_does_not_depend_on_the_unit_of_the_features(unit):
    random = np.random.default_rng(0)
    X = random.normal(size=(30, 5))
    y = X[:, 0] + 0.1 * random.normal(size=30)
    plain, scaled = (LassoCV(alphas=10, cv=3).fit(X * size, y) for size in (1.0, unit))
    np.testing.assert_allclose(scaled.alphas_ / unit, plain.alphas_, rtol=1e-12)
    np.testing.assert_allclose(scaled.coef_ * unit, plain.coef_, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("positive", [False, True])
def test_elastic_net_cv(positive):
    X, y = DATA["diabetes"]()
    options = {"l1_ratio": [0.5, 0.9], "alphas": 12, "cv": 3, "positive": positive}
    ours = ElasticNetCV(path_tol=1e-9, **options).fit(X, y)
    expected = theirs.ElasticNetCV(tol=1e-12, max_iter=1_000_000, **options).fit(X, y)
    assert (ours.alpha_, ours.l1_ratio_) == (pytest.approx(expected.alpha_, rel=1e-9), expected.l1_ratio_)
    np.testing.assert_allclose(ours.alphas_, expected.alphas_, rtol=1e-9)
    np.testing.assert_allclose(ours.mse_path_, expected.mse_path_, rtol=1e-4)
    np.testing.assert_allclose(ours.coef_, expected.coef_, atol=1e-3)


@pytest.mark.parametrize("name", ["wide", "tall"])
def test_an_alpha_for_each_column_of_y(name, monkeypatch):
    """As `LassoCV` column by column, also where the targets and alphas are taken a few at a time."""
    X, y = DATA[name]()
    random = np.random.default_rng(0)
    Y = np.stack([y, X[:, 0] + random.normal(size=len(y)), random.normal(size=len(y))], 1)
    options = {"alphas": 20, "cv": 3, "path_tol": 1e-8}
    together = LassoCV(**options).fit(X, Y)
    assert together.mse_path_.shape == (3, 20, 3)
    assert together.alphas_.shape == (3, 20)
    for k in range(3):
        expected = reference(alphas=20, cv=3).fit(X, Y[:, k])
        assert together.alpha_[k] == pytest.approx(expected.alpha_, rel=1e-9)
        np.testing.assert_allclose(together.mse_path_[k], expected.mse_path_, rtol=1e-4)
        scale = max(1, np.abs(expected.coef_).max())
        np.testing.assert_allclose(together.coef_[k], expected.coef_, rtol=0, atol=1e-4 * scale)
    monkeypatch.setitem(folds.ROOM, "cpu", 8 * folds.VECTORS * 2000)
    few = LassoCV(**options).fit(X, Y)
    np.testing.assert_allclose(few.mse_path_, together.mse_path_, rtol=1e-5)
    np.testing.assert_array_equal(few.alpha_, together.alpha_)


def test_one_alpha_for_all_columns_of_y():
    X, y = DATA["wide"]()
    Y = np.stack([y, y[::-1] * 2], 1)
    model = LassoCV(alphas=10, cv=3, alpha_per_target=False, path_tol=1e-12).fit(X, Y)
    each = [LassoCV(alphas=model.alphas_, cv=3, path_tol=1e-12).fit(X, column).mse_path_ for column in Y.T]
    np.testing.assert_allclose(model.mse_path_, np.mean(each, 0), rtol=1e-6)
    assert model.alpha_ == model.alphas_[np.argmin(np.mean(each, (0, 2)))]
    assert model.alphas_[0] == pytest.approx(max(LassoCV(alphas=2, cv=3).fit(X, c).alphas_[0] for c in Y.T))
    assert model.coef_.shape == (2, X.shape[1])


def test_groups_go_to_the_splitter():
    X, y = DATA["wide"]()
    groups = np.arange(len(y)) % 4
    ours = LassoCV(alphas=5, cv=GroupKFold(4)).fit(X, y, groups=groups)
    given = LassoCV(alphas=5, cv=list(GroupKFold(4).split(X, y, groups))).fit(X, y)
    np.testing.assert_array_equal(ours.mse_path_, given.mse_path_)


def test_cross_validation_of_sparse_data_that_stays_sparse(monkeypatch):
    X, y = DATA["wide"]()
    X = X * (np.abs(X) > 1)
    dense = ElasticNetCV(alphas=6, path_tol=1e-12).fit(X, y)
    monkeypatch.setattr(linear, "SMALL", 0)
    ours = ElasticNetCV(alphas=6, path_tol=1e-12).fit(sparse.csr_array(X), y)
    assert ours.alpha_ == pytest.approx(dense.alpha_)
    np.testing.assert_allclose(ours.mse_path_, dense.mse_path_, rtol=1e-5)
