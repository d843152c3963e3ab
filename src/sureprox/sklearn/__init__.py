"""Estimators with the interface of scikit-learn, each answer certified; needs scikit-learn >= 1.4.

from sureprox.sklearn import Lasso, LassoCV, LogisticRegression, SparseCoder, sparse_encode
"""

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError("sureprox.sklearn needs scikit-learn; install it: pip install scikit-learn") from error

from sureprox.sklearn.lasso import Lasso
from sureprox.sklearn.lasso_cv import LassoCV
from sureprox.sklearn.logistic import LogisticRegression
from sureprox.sklearn.sparse_coding import SparseCoder, sparse_encode

__all__ = ["Lasso", "LassoCV", "LogisticRegression", "SparseCoder", "sparse_encode"]
