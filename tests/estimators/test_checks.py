"""scikit-learn's own checks of the estimators: every one of them, with no exception."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sureprox.sklearn import Lasso, LassoCV, LogisticRegression, SparseCoder


@pytest.mark.filterwarnings("default::sklearn.exceptions.SkipTestWarning")
@parametrize_with_checks([Lasso(), LassoCV(), LogisticRegression(), SparseCoder()])
def test_scikit_learn_checks(estimator, check):
    check(estimator)
