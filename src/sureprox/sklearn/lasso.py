"""`Lasso`, with many targets as one batch."""

from typing import Any, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import LeastSquares, Problem, WeightedL1
from sureprox.sklearn import linear
from sureprox.sklearn.compat import dense, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, tensor


class LinearRegressor(RegressorMixin, BaseEstimator):
    """Prediction with coef_ and intercept_."""

    def predict(self, X: Any) -> Array:
        """X coef_' + intercept_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        made: Array = linear.predicted(X, self.coef_, self.intercept_)
        return made

    @property
    def sparse_coef_(self) -> Any:
        """coef_ as a sparse matrix with one row per target."""
        return sparse.csr_matrix(self.coef_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class Lasso(MultiOutputMixin, LinearRegressor):
    """min_w 1/(2 n) |y - X w - c|^2 + alpha |w|_1, the same alpha as scikit-learn's.

    In the terms of `sureprox.lasso` this is lam = n alpha on the centred data, and the objective divided by n. With
    weights s, n is their sum and the squares are weighted. Several targets, y of shape (n, t), are solved as one batch
    that shares X. A sparse X is made dense. Everything is computed in float64.

    alpha : float, how strong the penalty is.
    fit_intercept : whether there is a c, which is not penalised.
    max_iter : iterations of the optimizer at most.
    tol : largest duality gap, relative to the objective. scikit-learn's own tol is relative to |y|^2, and 1e-4; here
        Newton steps on the support make small values cheap, and the default gives all digits of coef_.
    optimizer : one of `sureprox.optimizers`, or a pretrained name; None is restarted FISTA.
    device : "cpu", "cuda" or "auto".
    engine : "auto", "plain", "kernels" or "compiled", as in `sureprox.solve`.

    coef_ (n_features,) or (n_targets, n_features), intercept_, dual_gap_ and n_iter_: a number, or one per target.
    n_iter_ is at least 1, as the iteration that finds nothing to do is counted.
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int = 100_000,
        tol: float = 1e-10,
        optimizer: Any = None,
        device: str = "cpu",
        engine: str = "auto",
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.optimizer = optimizer
        self.device = device
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(
            self, X, y, accept_sparse="csr", y_numeric=True, multi_output=True, dtype=np.float64, copy=False
        )
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        self._fit_checked(dense(X), y, weights)
        return self

    def _fit_checked(self, X: Array, y: Array, sample_weight: Array | None) -> None:
        """Fit dense, validated data."""
        checked(self.max_iter, self.tol)
        if not isinstance(self.alpha, int | float | np.number) or not 0 <= self.alpha < np.inf:
            raise InputError(f"alpha is {self.alpha!r}; it must be a finite number >= 0")
        device = chosen_device(self.device)
        weights = None if sample_weight is None else scaled_weights(tensor(sample_weight, device))
        Xt, targets = tensor(X, device), tensor(y.reshape(len(y), -1), device)
        shift = linear.average(targets, weights) if self.fit_intercept else torch.zeros_like(targets[0])
        made = linear.columns(Xt, weights, self.fit_intercept)
        A, b = linear.compressed(linear.weighted_rows(made.A, weights), linear.weighted_rows(targets - shift, weights))
        n = linear.objective_scale(weights, len(Xt))
        problem = Problem(LeastSquares(A, b.mT.contiguous()), WeightedL1(n * float(self.alpha) / made.scale))
        found = fitted(problem, self.optimizer, self.tol, self.max_iter, engine=self.engine)
        coef = made.coefficients(found.x)
        intercept = shift - coef @ made.mean
        single = y.ndim == 1
        self.coef_ = array(coef[0] if single else coef)
        gap, count = array(found.seen.gap / n), array(found.iterations.clamp(min=1))
        self.intercept_ = float(intercept[0]) if single else array(intercept)
        self.dual_gap_ = float(gap[0]) if single else gap
        self.n_iter_ = int(count[0]) if single else count.tolist()


def positive_weights(weights: Tensor) -> Tensor:
    """Sample weights, of which none is negative and some are positive."""
    if bool((weights < 0).any()) or not bool((weights > 0).any()):
        raise InputError("sample_weight must be >= 0 everywhere and > 0 somewhere")
    return weights


def scaled_weights(weights: Tensor) -> Tensor:
    """The same weights, for an objective that is divided by their sum, times the power of 2 that brings the largest
    to [1/2, 1): squares neither overflow nor underflow, and no digit changes."""
    exponent = torch.frexp(positive_weights(weights).amax()).exponent
    return torch.ldexp(weights, -exponent)
