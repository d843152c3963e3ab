"""Least squares with an L1, L2 or elastic net penalty, and bounds: `ElasticNet`, `Lasso`, `NonNegativeLeastSquares`."""

from dataclasses import field
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Smooth
from sureprox.sklearn import linear
from sureprox.sklearn.base import LinearRegressor, parameters
from sureprox.sklearn.linear import Design
from sureprox.sklearn.tensors import tensors_too


@parameters
class ElasticNet(LinearRegressor):
    """min_{w,c} 1/(2n) |y - X w - c|^2 + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio)/2 |w|^2, as in scikit-learn.

    In the terms of `sureprox.elastic_net` this is l1 = n alpha l1_ratio, l2 = n alpha (1 - l1_ratio) on the centred
    data, and the objective divided by n. With weights s, n is their sum and the squares are weighted. Several targets,
    y of shape (n, t), are solved as one batch that shares X. A large sparse X is never made dense, nor centred in
    memory. Everything is computed in float64, and coef_ rounded to float32 if X has that. If X is
    a tensor, so are the results.

    alpha : how strong the penalty is: a number >= 0, or one for each target.
    l1_ratio : the share of the L1 penalty, from 0 to 1: a number, or one for each target.
    fit_intercept : whether there is a c, which is not penalised.
    precompute : False, True, "auto" or the Gram matrix of the centred X; the answer is the same, and so is the time:
        tall data are always replaced by their triangular factor.
    positive : whether w >= 0.
    warm_start : whether a fit starts from the coef_ of the one before.
    max_iter : iterations of the optimizer at most.
    tol : largest duality gap, relative to the objective; 0 is as small as float64 can tell. scikit-learn's own tol is
        relative to |y|^2, and 1e-4; here Newton steps on the support make small values cheap, and the default gives all
        digits of coef_.
    optimizer : one of `sureprox.optimizers`, or a pretrained name; None is working sets on a CPU with kernels,
        else restarted FISTA.
    device : "cpu", "cuda", "auto", or None: where X is.
    engine : "auto", "plain", "kernels" or "compiled", as in `sureprox.solve`.

    coef_ (n_features,) or (n_targets, n_features), intercept_, dual_gap_ and n_iter_: a number, or one per target.
    dual_gap_ is a certificate, computed in float64: the objective above is at most so far from its minimum. n_iter_ is
    at least 1, as the iteration that finds nothing to do is counted. What dual_gap_ proves: proved_zero_ and
    proved_nonzero_, masks like coef_, and certified_support_, whether all of the support is proved, a bool or one per
    target.
    """

    l1_ratio: Any = 0.5
    precompute: Any = False

    @tensors_too
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y, weights = self._checked_data(X, y, sample_weight)
        check_precompute(self.precompute, X.shape[1])
        self._fit_checked(X, y, weights)
        return self

    def _design(self, X: Any, weights: Tensor | None, device: torch.device) -> Design:
        """Centred: the best intercept is then known."""
        return linear.design(X, weights, self.fit_intercept, device)

    def _loss(self, made: Design, targets: Tensor, shift: Tensor, weights: Tensor | None) -> Smooth:
        return linear.squares(made, targets - shift, weights)


@parameters
class Lasso(ElasticNet):
    """min_{w,c} 1/(2n) |y - X w - c|^2 + alpha |w|_1, as in scikit-learn: `ElasticNet` with l1_ratio = 1.

    In the terms of `sureprox.lasso` this is lam = n alpha on the centred data. Parameters and results are those of
    `ElasticNet`.
    """

    l1_ratio: Any = field(default=1.0, init=False)


@parameters
class NonNegativeLeastSquares(ElasticNet):
    """min_{w >= 0, c} 1/(2n) |y - X w - c|^2: `LinearRegression(positive=True)` of scikit-learn.

    In the terms of `sureprox.nonnegative` this is l1 = 0 on the centred data. Parameters and results are those of
    `ElasticNet`.
    """

    alpha: Any = field(default=0.0, init=False)
    l1_ratio: Any = field(default=1.0, init=False)
    positive: Any = field(default=True, init=False)
    precompute: Any = field(default=False, init=False)


def check_precompute(precompute: Any, features: int) -> None:
    """False, True, "auto" or a Gram matrix, none of which changes the answer."""
    if isinstance(precompute, bool) or (isinstance(precompute, str) and precompute == "auto"):
        return
    shape = None if isinstance(precompute, str) else np.shape(precompute)
    if shape != (features, features):
        got = f"shape {shape}" if shape else f"value {precompute!r}"
        raise InputError(f"precompute has {got}; pass True, False, 'auto' or a matrix ({features}, {features})")
