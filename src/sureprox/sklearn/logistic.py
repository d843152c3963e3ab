"""`LogisticRegression`: two classes or more, with an L1, L2, elastic net or no penalty."""

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch
from scipy.special import expit, log_expit, log_softmax, softmax
from sklearn.base import ClassifierMixin
from sklearn.utils import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Logistic, Problem, Softmax
from sureprox.sklearn import linear
from sureprox.sklearn.base import Certified, parameters
from sureprox.sklearn.compat import FLOATS, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, number, tensor
from sureprox.sklearn.linear import Design
from sureprox.sklearn.supports import ProvedSupport
from sureprox.sklearn.tensors import as_array, tensors_too


@dataclass(frozen=True)
class Classes:
    """min C sum_i w_i loss_i + r for B instances with a shared design: labels and weights (B, m), k classes.

    Two classes have one row of coefficients, more of them have one each: `blocks` rows.
    """

    made: Design
    labels: Tensor
    weights: Tensor
    count: int

    @property
    def blocks(self) -> int:
        return 1 if self.count == 2 else self.count

    def problem(self, C: Tensor, ratio: Tensor) -> Problem:
        """The objective times `units`; C and ratio (B,), C infinite for no penalty."""
        if self.count == 2:
            f: Logistic | Softmax = Logistic(self.made.A, self.labels, weights=self.weights)
        else:
            f = Softmax(self.made.A, self.labels, self.count, weights=self.weights)
        size = self.units(C) * torch.where(torch.isinf(C), 0.0, 1.0)
        return Problem(f, self.made.penalty(ratio * size, (1 - ratio) * size, blocks=self.blocks))

    def units(self, C: Tensor) -> Tensor:
        """What the objective is multiplied by: `Logistic` is a mean over the rows. C = inf counts as 1."""
        rows = self.labels.shape[1] if self.count == 2 else 1
        return 1 / (rows * torch.where(torch.isinf(C), 1.0, C))

    def coefficients(self, x: Tensor, C: Tensor) -> tuple[Tensor, Tensor]:
        """coef (B, blocks, n) and intercepts (B, blocks).

        What no objective tells, a constant added to all classes, is chosen so that they sum to zero.
        """
        v = x.reshape(len(x) * self.blocks, -1)
        coef = self.made.coefficients(v).reshape(len(x), self.blocks, -1)
        intercepts = self.made.intercepts(v).reshape(len(x), self.blocks)
        if self.blocks > 1:
            free = torch.isinf(C).view(-1, 1, 1)
            coef = torch.where(free, coef - coef.mean(1, keepdim=True), coef)
            if self.made.constant:
                intercepts = intercepts - intercepts.mean(1, keepdim=True)
        return coef, intercepts

    def select(self, index: Tensor) -> "Classes":
        return replace(self, labels=self.labels[index], weights=self.weights[index])

    def variables(self, coef: Tensor, intercepts: Tensor) -> Tensor:
        """x of the coefficients (blocks, n) of one instance."""
        return self.made.variables(coef, intercepts).reshape(1, -1)


@parameters
class LogisticRegression(ProvedSupport, ClassifierMixin, Certified):
    """min_{w,c} C sum_i s_i loss(x_i'w + c; y_i) + l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, as in scikit-learn.

    The loss is log(1 + exp(-y_i (x_i'w + c))), y in {-1, 1}, for two classes, and the multinomial one for more, with
    one w and c for each. In the terms of `sureprox.logistic`, a mean over the n rows, the L1 penalty is lam =
    1 / (n C). s_i is the sample weight times the class weight. The intercept c is not penalised, as with the solver
    "saga" of scikit-learn and unlike "liblinear". A large sparse X is never made dense. Everything is computed in
    float64, and coef_ rounded to float32 if X has that. If X is a tensor, so are the results.

    C : the inverse of the strength of the penalty; infinity is no penalty.
    l1_ratio : 1, the default, is the L1 penalty, 0 the L2 penalty, which is scikit-learn's default.
    fit_intercept : whether there is a c.
    class_weight : None, "balanced" or a dict {label: weight}.
    warm_start : whether a fit starts from the coef_ of the one before.
    max_iter : iterations of the optimizer at most; with 0 the start is the answer.
    tol : largest duality gap, relative to the objective; with an intercept also the largest distance of the gradient to
        the subdifferential, relative to the gradient at zero. 0 is as small as float64 can tell.
    optimizer, device, engine : as in `Lasso`.

    coef_ (1, n_features) or (n_classes, n_features), intercept_ (1,) or (n_classes,), classes_, n_iter_ (1,), and
    dual_gap_: a certificate, the objective above is at most so far from its minimum. certified_support_ has a bool for
    each row of coef_. With C = inf it is that of
    sum_i s_i loss_i. With more than two classes, what the data leave open is chosen so that intercept_, and without a
    penalty coef_, sum to zero over the classes.
    """

    C: Any = 1.0
    l1_ratio: Any = 1.0
    fit_intercept: Any = True
    class_weight: Any = None
    warm_start: Any = False

    @tensors_too
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        checked(self.max_iter, self.tol, least=0)
        C = inverse_strength("C", self.C)
        ratio = number("l1_ratio", self.l1_ratio, most=1)
        given = row_weights(sample_weight, X)
        self._fit_checked(X, self._labels(y), given, C, ratio)
        return self

    def _fit_checked(self, X: Any, labels: Array, given: Array, C: float, ratio: float) -> None:
        """Fit validated data, `labels` being numbers of classes_."""
        weights = given * self._class_weights(labels, given)
        counted = weights > 0
        present = np.unique(labels[counted])
        if len(present) < len(self.classes_):
            raise ValueError(
                f"LogisticRegression needs rows of positive weight of every class of {len(self.classes_)}; "
                + ("there is only one class" if len(present) == 1 else f"there are {len(present)}")
            )
        device = chosen_device(self.device)
        problems = self._classes(X[counted], labels[None, counted], weights[None, counted], device)
        size, share = (torch.full((1,), value, dtype=torch.float64, device=device) for value in (C, ratio))
        found = self._solved(problems.problem(size, share), x0=self._start(problems))
        coef, intercepts = problems.coefficients(found.x, size)
        self.coef_, self.intercept_ = array(coef[0], X.dtype), array(intercepts[0], X.dtype)
        self._screening = found.screening
        self.n_iter_ = array(found.iterations.clamp(min=1 if self.max_iter else 0))
        self.dual_gap_ = float(found.seen.gap / problems.units(size))

    def _classes(self, X: Any, labels: Array, weights: Array, device: torch.device) -> Classes:
        """For labels and weights (B, m)."""
        w = tensor(weights, device)
        made = linear.design(X, w.sum(0), self.fit_intercept, device, constant=self.fit_intercept)
        return Classes(made, tensor(labels, device), w, len(self.classes_))

    def _start(self, problems: Classes) -> Tensor | None:
        """The last solution, where there is one that may be used."""
        shape = problems.blocks, len(problems.made.scale)
        if not self.warm_start or getattr(self, "coef_", np.empty(0)).shape != shape:
            return None
        device = problems.labels.device
        return problems.variables(tensor(self.coef_, device), tensor(self.intercept_, device))

    @tensors_too
    def decision_function(self, X: Any) -> Array:
        """X coef_' + intercept_: positive where classes_[1] is predicted, or a column for each of several classes."""
        check_is_fitted(self)
        X = validate_data(self, X, accept_sparse="csr", reset=False)
        scores: Array = linear.predicted(X, self.coef_, self.intercept_)
        return scores[:, 0] if scores.shape[1] == 1 else scores

    @tensors_too
    def predict(self, X: Any) -> Any:
        """The most probable class of every row."""
        scores = self.decision_function(X)
        return as_array(self.classes_)[(scores > 0).astype(int) if scores.ndim == 1 else scores.argmax(1)]

    @tensors_too
    def predict_proba(self, X: Any) -> Array:
        """(n_samples, n_classes): the probabilities of classes_."""
        scores = self.decision_function(X)
        probabilities: Array = (
            np.stack([expit(-scores), expit(scores)], 1) if scores.ndim == 1 else softmax(scores, axis=1)
        )
        return probabilities

    @tensors_too
    def predict_log_proba(self, X: Any) -> Array:
        """The logarithm of `predict_proba`, accurate for any margin."""
        scores = self.decision_function(X)
        logarithms: Array = (
            np.stack([log_expit(-scores), log_expit(scores)], 1) if scores.ndim == 1 else log_softmax(scores, axis=1)
        )
        return logarithms

    @tensors_too
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of right predictions."""
        return float(super().score(X, y, sample_weight))

    def _labels(self, y: Any) -> Array:
        """The number of every label in classes_, which are set."""
        check_classification_targets(y)
        self.classes_, labels = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"LogisticRegression needs samples of 2 classes; the data contains only one class: {self.classes_[0]!r}"
            )
        return labels.reshape(-1).astype(np.float64)

    def _class_weights(self, labels: Array, given: Array) -> Array:
        """The class weight of every row."""
        numbers = labels.astype(int)
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            totals = np.bincount(numbers, weights=given, minlength=len(self.classes_))
            by_class = totals.sum() / (len(self.classes_) * np.where(totals > 0, totals, 1.0))
        else:
            by_class = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[numbers])
        made: Array = by_class[numbers]
        return made

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def inverse_strength(name: str, C: Any) -> float:
    """A number > 0, which may be infinite."""
    if isinstance(C, bool) or not isinstance(C, int | float | np.number) or not C > 0:
        raise InputError(f"{name} is {C!r}; it must be a number > 0, or infinity for no penalty")
    return float(C)


def row_weights(sample_weight: Any, X: Any) -> Array:
    """Sample weights, checked: ones if there are none."""
    weights: Array = _check_sample_weight(sample_weight, X, dtype=np.float64, copy=True)
    linear.positive_weights(torch.from_numpy(weights))
    return weights
