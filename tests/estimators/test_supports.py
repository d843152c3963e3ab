"""`certified_support_`, `proved_zero_` and `proved_nonzero_` against scikit-learn's solutions at a tight tolerance."""

import numpy as np
import pytest
import sklearn.linear_model as theirs

from sureprox.sklearn import ElasticNet, Lasso, LogisticRegression

random = np.random.default_rng(0)
X = random.normal(size=(60, 40)) + random.normal(size=40)
Y = X[:, :4] @ random.normal(size=(4, 3)) + 0.5 * random.normal(size=(60, 3))
TIGHT = {"tol": 1e-14, "max_iter": 1_000_000}


@pytest.mark.parametrize(("ours", "reference"), [(Lasso, theirs.Lasso), (ElasticNet, theirs.ElasticNet)])
@pytest.mark.parametrize("targets", [1, 3])
def test_what_is_proved_of_regressions_is_true(ours, reference, targets) -> None:
    y = Y[:, 0] if targets == 1 else Y
    found, truth = ours(0.1).fit(X, y), reference(0.1, **TIGHT).fit(X, y).coef_
    assert found.proved_zero_.shape == found.proved_nonzero_.shape == found.coef_.shape
    assert np.all(found.certified_support_)
    assert np.shape(found.certified_support_) == (() if targets == 1 else (3,))
    assert np.array_equal(found.proved_nonzero_, truth != 0)
    assert np.array_equal(found.proved_zero_, truth == 0)


def test_what_is_proved_of_a_classifier_is_true() -> None:
    y = Y[:, 0] > np.median(Y[:, 0])
    found = LogisticRegression(C=0.1).fit(X, y)
    # liblinear would penalise the intercept
    truth = theirs.LogisticRegression(
        C=0.1, l1_ratio=1.0, solver="saga", tol=1e-10, max_iter=100_000, random_state=0
    ).fit(X, y)
    assert found.certified_support_.tolist() == [True]
    assert np.array_equal(found.proved_nonzero_, truth.coef_ != 0)
    assert np.array_equal(found.proved_zero_, truth.coef_ == 0)


def test_a_rough_solve_proves_nothing_wrong() -> None:
    truth, proofs = theirs.Lasso(0.1, **TIGHT).fit(X, Y[:, 0]).coef_, 0
    for tol in (0.3, 1e-2, 1e-4, 1e-8):
        rough = Lasso(0.1, tol=tol).fit(X, Y[:, 0])
        assert not (rough.proved_zero_ & (truth != 0)).any()
        assert not (rough.proved_nonzero_ & (truth == 0)).any()
        proofs += int(rough.proved_zero_.sum() + rough.proved_nonzero_.sum())
    assert proofs >= 40
