"""`LogisticRegression` with an L1 penalty, two classes."""

from functools import partial
from typing import Any, Self

import numpy as np
import torch
from scipy.special import expit, log_expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Logistic, Problem, WeightedL1
from sureprox.problems.smooth import HasSmoothDual, LinearModel
from sureprox.sklearn import linear
from sureprox.sklearn.compat import dense, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, tensor
from sureprox.sklearn.lasso import positive_weights


class LogisticRegression(ClassifierMixin, BaseEstimator):
    """min_{w,c} C sum_i s_i log(1 + exp(-y_i (x_i'w + c))) + |w|_1, y in {-1, 1}, the same C as scikit-learn's.

    In the terms of `sureprox.logistic`, a mean over the n rows, this is lam = 1 / (n C). s_i is the sample weight times
    the class weight. The intercept c is not penalised, as with scikit-learn's solver "saga" and unlike "liblinear". A
    sparse X is made dense. Everything is computed in float64.

    C : float, the inverse of the strength of the penalty.
    l1_ratio : only 1, the L1 penalty, is offered.
    fit_intercept : whether there is a c.
    class_weight : None, "balanced" or a dict {label: weight}.
    max_iter : iterations of the optimizer at most.
    tol : largest duality gap, relative to the objective; with an intercept also the largest distance of the gradient to
        the subdifferential, relative to the gradient at zero.
    optimizer, device : as in `Lasso`.

    coef_ (1, n_features), intercept_ (1,), classes_, n_iter_ (1,), and dual_gap_: a bound, exact to rounding, on how
    far the objective above is from its minimum, for the best c of the w found.
    """

    def __init__(
        self,
        *,
        C: float = 1.0,
        l1_ratio: float = 1.0,
        fit_intercept: bool = True,
        class_weight: Any = None,
        max_iter: int = 100_000,
        tol: float = 1e-10,
        optimizer: Any = None,
        device: str = "cpu",
        engine: str = "auto",
    ) -> None:
        self.C = C
        self.l1_ratio = l1_ratio
        self.fit_intercept = fit_intercept
        self.class_weight = class_weight
        self.max_iter = max_iter
        self.tol = tol
        self.optimizer = optimizer
        self.device = device
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=np.float64)
        self._check_parameters()
        labels = self._labels(y)
        device = chosen_device(self.device)
        row_weights = self._weights(X, labels, sample_weight)
        counted = row_weights > 0
        if len(np.unique(labels[counted])) < 2:
            raise ValueError("LogisticRegression needs rows of positive weight of 2 classes; there is only one class")
        weights = tensor(row_weights[counted], device)
        made = linear.columns(tensor(dense(X)[counted], device), weights, self.fit_intercept)
        m, n = made.A.shape
        A, penalty = made.A, 1 / (m * self.C) / made.scale
        if self.fit_intercept:
            # as long as the other columns, so that its coordinate is of the same kind
            A = torch.cat([A, torch.full_like(A[:, :1], float(weights.sum()) ** -0.5)], 1)
            penalty = torch.cat([penalty, penalty.new_zeros(1)])
        f = Logistic(A, tensor(labels[counted], device), weights=weights)
        problem, best = Problem(f, WeightedL1(penalty)), partial(_best_intercept, f) if self.fit_intercept else None
        found = fitted(problem, self.optimizer, self.tol, self.max_iter, engine=self.engine, improved=best)
        x = _best_intercept(f, found.x) if self.fit_intercept else found.x
        coef = made.coefficients(x[:, :n])
        self.coef_ = array(coef)
        self.intercept_ = np.zeros(1)
        if self.fit_intercept:
            self.intercept_ = array(x[:, n] * A[0, n] - coef @ made.mean)
        self.n_iter_ = array(found.iterations.clamp(min=1))
        self.dual_gap_ = float(_gap(f, x, penalty[:n])) * m * self.C
        return self

    def decision_function(self, X: Any) -> Array:
        """X coef_' + intercept_, positive where classes_[1] is predicted."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        scores: Array = linear.predicted(X, self.coef_, self.intercept_)[:, 0]
        return scores

    def predict(self, X: Any) -> Any:
        """The more probable class of every row."""
        scores = self.decision_function(X)
        return self.classes_[(scores > 0).astype(int)]

    def predict_proba(self, X: Any) -> Array:
        """(n_samples, 2): the probabilities of classes_."""
        scores = self.decision_function(X)
        return np.stack([expit(-scores), expit(scores)], 1)

    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of `predict_proba`, accurate for any margin."""
        scores = self.decision_function(X)
        return np.stack([log_expit(-scores), log_expit(scores)], 1)

    def _check_parameters(self) -> None:
        checked(self.max_iter, self.tol)
        if not isinstance(self.C, int | float | np.number) or not 0 < self.C < np.inf:
            raise InputError(f"C is {self.C!r}; it must be a finite number > 0")
        if self.l1_ratio != 1:
            raise InputError(f"l1_ratio is {self.l1_ratio!r}; only the L1 penalty, l1_ratio=1, is offered")

    def _labels(self, y: Any) -> Array:
        """y as zeros and ones; sets classes_."""
        check_classification_targets(y)
        kind = type_of_target(y, input_name="y", raise_unknown=True)
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"LogisticRegression needs samples of 2 classes; the data contains only one class: {self.classes_[0]!r}"
            )
        return labels.reshape(-1).astype(np.float64)

    def _weights(self, X: Any, labels: Array, sample_weight: Any) -> Array:
        """Sample weight times class weight, for every row."""
        weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
        positive_weights(torch.from_numpy(weights))
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(labels.astype(int), weights=weights, minlength=2)
            by_class = totals.sum() / (2 * np.where(totals > 0, totals, 1.0))
        else:
            original = self.classes_[labels.astype(int)]
            by_class = compute_class_weight(self.class_weight, classes=self.classes_, y=original)
        weights *= by_class[labels.astype(int)]
        return weights

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_class = False
        return tags


def _best_intercept(f: LinearModel, x: Tensor, steps: int = 20) -> Tensor:
    """x with its last coordinate, an intercept, moved to where the gradient vanishes, by Newton steps."""
    last = f.map.columns(torch.full((1, 1), x.shape[1] - 1, device=x.device))
    for _ in range(steps):
        curvature = f.hessian_root(x, last).square().sum()
        slope = f.grad(x)[0, -1]
        moved = x.clone()
        moved[0, -1] -= slope / curvature.clamp(min=torch.finfo(x.dtype).tiny)
        if not abs(float(f.grad(moved)[0, -1])) < abs(float(slope)):
            return x
        x = moved
    return x


def _gap(f: LinearModel, x: Tensor, penalty: Tensor) -> Tensor:
    """The duality gap (1,), the coordinates beyond `penalty` being free and their gradient zero but for rounding."""
    r, n = WeightedL1(penalty), len(penalty)
    z, g = f.inner(x), f.grad(x)[:, :n]
    assert isinstance(f, HasSmoothDual)
    scale = f.dual_scale(z, *r.dual_range(g))
    return f.fenchel_young(z, scale) + r.fenchel_young(x[:, :n], g, scale)
