"""scikit-learn's own checks of the estimators: every one of them, with no exception."""

import os
import subprocess
import sys

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from sureprox.sklearn import (
    ElasticNet,
    ElasticNetCV,
    GroupLasso,
    HuberRegressor,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    NonNegativeLeastSquares,
    PoissonRegressor,
    SparseCoder,
    StabilitySelection,
)

ESTIMATORS = [
    ElasticNet(),
    ElasticNetCV(l1_ratio=[0.5, 0.9], alphas=3, cv=2),
    GroupLasso(),
    HuberRegressor(),
    Lasso(),
    LassoCV(alphas=5, cv=3),
    LogisticRegression(),
    LogisticRegressionCV(Cs=[0.1], cv=2),
    NonNegativeLeastSquares(),
    PoissonRegressor(),
    SparseCoder(),
    StabilitySelection(n_samples=4, alphas=3),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_the_checks_that_are_skipped_here_pass():
    """One check of each estimator runs only where SCIPY_ARRAY_API was set before scipy was imported."""
    checks = [str(check) for estimator in ESTIMATORS for _, check in estimator_checks_generator(estimator)]
    if not any("check_array_api_input" in check for check in checks):
        pytest.skip("this scikit-learn has no such check of estimators for NumPy alone")
    command = [sys.executable, "-m", "pytest", "-q", __file__, "-k", "check_array_api_input"]
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stdout
    assert f"{len(ESTIMATORS)} passed" in result.stdout
