"""Estimators with the interface of scikit-learn, each answer certified; needs scikit-learn >= 1.7.

from sureprox.sklearn import Lasso, LassoCV, LogisticRegression, SparseCoder, sparse_encode
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("sureprox.sklearn needs scikit-learn; install it: pip install scikit-learn") from error

from sureprox.sklearn.elastic_net import ElasticNet, Lasso, NonNegativeLeastSquares
from sureprox.sklearn.group_lasso import GroupLasso
from sureprox.sklearn.lasso_cv import ElasticNetCV, LassoCV
from sureprox.sklearn.logistic import LogisticRegression
from sureprox.sklearn.logistic_cv import LogisticRegressionCV
from sureprox.sklearn.paths import enet_path, lasso_path
from sureprox.sklearn.regressors import HuberRegressor, PoissonRegressor
from sureprox.sklearn.sparse_coding import SparseCoder, sparse_encode
from sureprox.sklearn.stability import StabilitySelection

__all__ = [
    "ElasticNet",
    "ElasticNetCV",
    "GroupLasso",
    "HuberRegressor",
    "Lasso",
    "LassoCV",
    "LogisticRegression",
    "LogisticRegressionCV",
    "NonNegativeLeastSquares",
    "PoissonRegressor",
    "SparseCoder",
    "StabilitySelection",
    "enet_path",
    "lasso_path",
    "sparse_encode",
]
