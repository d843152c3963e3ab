"""Regression with other losses than squares: `HuberRegressor` and `PoissonRegressor`."""

from typing import Any

import numpy as np
import torch
from sklearn.metrics import d2_tweedie_score
from torch import Tensor

from sureprox.problems import Huber, Poisson, Smooth
from sureprox.sklearn import linear
from sureprox.sklearn.base import LinearRegressor, parameters
from sureprox.sklearn.engine import Array, number
from sureprox.sklearn.linear import Design
from sureprox.sklearn.tensors import tensors_too

NOTHING = 1e-13  # what counts as a mean of zero, relative to mu = 1


@parameters
class HuberRegressor(LinearRegressor):
    """min_{w,c} 1/S sum_i s_i h(y_i - x_i'w - c) + alpha r(w), h(z) = z^2/2, for |z| > delta delta (|z| - delta/2).

    Squares for small residuals, absolute values for outliers; r(w) = l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, s are the
    sample weights, S is their sum. In the terms of `sureprox.Huber` this is l1 = S alpha l1_ratio with a free c.

    delta : residuals beyond it count as outliers; it has the unit of y. scikit-learn's estimator of this name finds a
        scale by itself: with alpha = a there, and its epsilon and scale_, it is this one with delta = epsilon scale_,
        alpha = a scale_ / n and l1_ratio = 0.

    All other parameters and the results are those of `Lasso`, l1_ratio that of `ElasticNet`; its default is 1.
    """

    delta: Any = 1.0

    def _loss(self, made: Design, targets: Tensor, shift: Tensor, weights: Tensor | None) -> Smooth:
        return Huber(made.A, (targets - shift).mT.contiguous(), number("delta", self.delta), weights)


@parameters
class PoissonRegressor(LinearRegressor):
    """min_{w,c} 1/S sum_i s_i [mu_i - y_i log mu_i] + alpha r(w), mu_i = exp(x_i'w + c), for counts y >= 0.

    Up to a constant of the data that is half of the mean deviance, as in scikit-learn, whose estimator of this name is
    this one with l1_ratio = 0. r(w) = l1_ratio |w|_1 + (1 - l1_ratio)/2 |w|^2, s are the sample weights, S is their
    sum. In the terms of `sureprox.Poisson` this is l1 = S alpha l1_ratio with a free c. tol is relative to half of the
    deviance plus the penalty.

    There is one target. All other parameters and the results are those of `Lasso`, l1_ratio that of `ElasticNet`; its
    default is 1.
    """

    many_targets = False

    def _shift(self, targets: Tensor, weights: Tensor | None) -> Tensor:
        return torch.zeros_like(targets[0])

    def _loss(self, made: Design, targets: Tensor, shift: Tensor, weights: Tensor | None) -> Smooth:
        return Poisson(made.A, targets.mT.contiguous(), weights=weights)

    def _start(self, made: Design, targets: Tensor, weights: Tensor | None) -> Tensor | None:
        """The best intercept for w = 0, the logarithm of the mean; without any counts there is none, and mu -> 0."""
        if not made.constant:
            return None
        mean = linear.average(targets, weights)
        intercept = torch.where(mean > 0, mean, NOTHING).log()
        return made.variables(torch.zeros(len(mean), len(made.scale), dtype=mean.dtype, device=mean.device), intercept)

    @tensors_too
    def predict(self, X: Any) -> Array:
        """exp(X coef_' + intercept_)."""
        made: Array = np.exp(super().predict(X))
        return made

    @tensors_too
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """D^2, the part of the deviance that is explained, as in scikit-learn."""
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=1))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags
