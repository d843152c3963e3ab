"""What the estimators share: how they are solved, linear predictions, and regression as one batch of problems."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
import torch
from scipy import sparse
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from sureprox.problems import Penalty, Problem, Smooth
from sureprox.sklearn import linear
from sureprox.sklearn.compat import FLOATS, validate_data
from sureprox.sklearn.engine import Array, Fitted, array, checked, chosen_device, fitted, numbers, tensor
from sureprox.sklearn.linear import Design
from sureprox.sklearn.supports import ProvedSupport
from sureprox.sklearn.tensors import as_array, tensors_too

parameters = dataclass(
    kw_only=True, eq=False, repr=False
)  # `__init__` keeps what it is given, as scikit-learn wants it


@parameters
class Certified(BaseEstimator):
    """Parameters of every solve; see `ElasticNet`."""

    max_iter: Any = 100_000
    tol: Any = 1e-10
    optimizer: Any = None
    device: Any = None
    engine: Any = "auto"

    def _solved(self, problem: Problem, **options: Any) -> Fitted:
        return fitted(problem, self.optimizer, self.tol, self.max_iter, engine=self.engine, **options)


class LinearPrediction(ProvedSupport, MultiOutputMixin, RegressorMixin):
    """Prediction with coef_ and intercept_; columns of y are problems of their own, if there may be `many_targets`."""

    many_targets: ClassVar[bool] = True
    intercept_: Any

    @tensors_too
    def predict(self, X: Any) -> Array:
        """X coef_' + intercept_."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        made: Array = linear.predicted(X, self.coef_, self.intercept_)
        return made

    @tensors_too
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """R^2, as in scikit-learn."""
        return float(super().score(X, y, sample_weight))

    @property
    def sparse_coef_(self) -> Any:
        """coef_ as a sparse matrix with one row per target."""
        return sparse.csr_matrix(as_array(self.coef_))

    def _checked_data(self, X: Any, y: Any, sample_weight: Any) -> tuple[Any, Array, Array | None]:
        """X dense or CSR, y and the weights."""
        X, y = validate_data(
            self, X, y, accept_sparse="csr", y_numeric=True, multi_output=self.many_targets, dtype=FLOATS
        )
        weights = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        return X, y, weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = self.many_targets
        tags.target_tags.single_output = True
        return tags


@parameters
class LinearRegressor(LinearPrediction, Certified):
    """min_{w,c} 1/S sum_i s_i phi(x_i'w + c; y_i) + alpha r(w), S = sum_i s_i: a loss, a penalty and their parameters.

    The columns of y (n_samples, n_targets) are one batch that shares X. r(w) = l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2,
    where w >= 0 if `positive`. What the parameters and the results mean is said in `ElasticNet`.
    """

    alpha: Any = field(default=1.0, kw_only=False)
    l1_ratio: Any = 1.0
    fit_intercept: Any = True
    positive: Any = False
    warm_start: Any = False

    @tensors_too
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self._fit_checked(*self._checked_data(X, y, sample_weight))
        return self

    def _fit_checked(self, X: Any, y: Array, sample_weight: Array | None) -> None:
        """Fit validated data."""
        checked(self.max_iter, self.tol)
        device = chosen_device(self.device)
        weights = None
        if sample_weight is not None:
            linear.positive_weights(torch.from_numpy(sample_weight))
            counted = sample_weight > 0
            X, y, sample_weight = X[counted], y[counted], sample_weight[counted]
            weights = linear.scaled_weights(tensor(sample_weight, device))
        targets = tensor(y.reshape(len(y), -1), device)
        alpha = tensor(numbers("alpha", self.alpha, targets.shape[1]), device)
        shift = self._shift(targets, weights) if self.fit_intercept else torch.zeros_like(targets[0])
        made = self._design(X, weights, device)
        total = linear.objective_scale(weights, len(targets))
        f = self._loss(made, targets, shift, weights)
        x0 = self._last(made, shift) if self.warm_start else None
        x0 = self._start(made, targets, weights) if x0 is None else x0
        found = self._solved(Problem(f, self._penalty(made, total * alpha)), x0=x0)
        rows = array(made.coefficients(found.x), X.dtype), array(shift + made.intercepts(found.x), X.dtype)
        self._keep(*rows, found, total, single=y.ndim == 1)

    def _design(self, X: Any, weights: Tensor | None, device: torch.device) -> Design:
        """With a column for the intercept."""
        return linear.design(X, weights, self.fit_intercept, device, constant=self.fit_intercept)

    def _shift(self, targets: Tensor, weights: Tensor | None) -> Tensor:
        """(t,): an intercept that the loss is told."""
        return linear.average(targets, weights)

    def _loss(self, made: Design, targets: Tensor, shift: Tensor, weights: Tensor | None) -> Smooth:
        """sum_i w_i phi of the rows of A v + shift, for each of the `targets` (m, t)."""
        raise NotImplementedError

    def _penalty(self, made: Design, size: Tensor) -> Penalty:
        """size r, size (t,)."""
        ratio = tensor(numbers("l1_ratio", self.l1_ratio, len(size), most=1), size.device)
        return made.penalty(ratio * size, (1 - ratio) * size, self.positive)

    def _start(self, made: Design, targets: Tensor, weights: Tensor | None) -> Tensor | None:
        """Where a solve begins; None is zero."""
        return None

    def _last(self, made: Design, shift: Tensor) -> Tensor | None:
        """The last solution, where there is one."""
        if not hasattr(self, "coef_"):
            return None
        coef = tensor(np.atleast_2d(as_array(self.coef_)), shift.device)
        if coef.shape != (len(shift), len(made.scale)):
            return None
        intercept = tensor(np.atleast_1d(as_array(self.intercept_)), shift.device)
        return made.variables(coef, intercept - shift)

    def _keep(self, coef: Array, intercept: Array, found: Fitted, total: float, single: bool) -> None:
        self._screening = found.screening
        gap, count = array(found.seen.gap / total), array(found.iterations.clamp(min=1))
        self.coef_, self.intercept_ = (coef[0], intercept[0]) if single else (coef, intercept)
        self.dual_gap_ = float(gap[0]) if single else gap
        self.n_iter_ = int(count[0]) if single else count.tolist()
