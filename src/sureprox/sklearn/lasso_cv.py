"""`ElasticNetCV` and `LassoCV`: every alpha on every fold, for every column of y, solved as batches that share X."""

from dataclasses import field
from functools import partial
from typing import Any, Self

import numpy as np
import torch
from sklearn.model_selection import check_cv

from sureprox.base.defaults import ENOUGH
from sureprox.sklearn import linear
from sureprox.sklearn.base import Certified, LinearPrediction, parameters
from sureprox.sklearn.elastic_net import ElasticNet, check_precompute
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, number, tensor
from sureprox.sklearn.folds import FoldErrors, folds_of
from sureprox.sklearn.paths import alpha_grid
from sureprox.sklearn.tensors import tensors_too

FINAL = ("fit_intercept", "positive", "max_iter", "tol", "optimizer", "device", "engine")  # of the last fit


@parameters
class ElasticNetCV(LinearPrediction, Certified):
    """`ElasticNet` with alpha, and l1_ratio among several, chosen by cross-validation.

    On a CPU, without an optimizer, the alphas of a fold are a chain of working sets, each from the solution of the one
    before. Elsewhere all alphas, all folds and all columns of y are batches that share X: a fold leaves rows out by
    giving them the weight zero, and its own centring is a projection (see `WeightedLeastSquares`), so that each
    iteration is two matrix products for a whole batch. What is compared is the mean over the folds of the mean squared
    error on the rows left out, as in scikit-learn.

    l1_ratio : a number, or several, of which the best is chosen.
    eps : alpha_min / alpha_max of the path, where alpha_max is the smallest alpha with coef_ = 0.
    alphas : how many alphas the path has, or the alphas themselves.
    cv : folds, splitter or iterable of (train, test), as in scikit-learn; None is 5 folds.
    alpha_per_target : whether each column of y (n_samples, n_targets) has a path and a choice of its own; otherwise all
        share the alpha with the least mean of their errors. For one target it means nothing.
    path_tol : how far the models that are compared may be from their best: their duality gap is at most path_tol times
        the objective of coef = 0. scikit-learn's tol of 1e-4 |y|^2, 200 times looser, can choose a neighbouring alpha.
    fit_intercept, precompute, positive, max_iter, tol, optimizer, device, engine : as in `ElasticNet`; tol is that of
        the fit with the chosen alpha.

    alpha_, l1_ratio_, alphas_ (n_alphas,), mse_path_ (n_alphas, n_folds), and coef_, intercept_, dual_gap_, n_iter_ of
    the fit to all rows. With several l1_ratio, alphas_ and mse_path_ have a first dimension for them; with
    `alpha_per_target`, alpha_, l1_ratio_, alphas_ and mse_path_ have one for the targets before that. The memory is
    bounded, whatever the number of targets: they are taken some at a time.
    """

    l1_ratio: Any = 0.5
    eps: Any = 1e-3
    alphas: Any = 100
    fit_intercept: Any = True
    precompute: Any = "auto"
    positive: Any = False
    path_tol: Any = 1e-6
    cv: Any = None
    alpha_per_target: Any = True

    @tensors_too
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """`groups`: given to the splitter `cv`."""
        X, y, given = self._checked_data(X, y, sample_weight)
        checked(self.max_iter, self.tol)
        checked(self.max_iter, self.path_tol, "path_tol")
        check_precompute(self.precompute, X.shape[1])
        ratios = [number("l1_ratio", ratio, most=1) for ratio in np.atleast_1d(self.l1_ratio)]
        device = chosen_device(self.device)
        targets = tensor(y.reshape(len(y), -1), device)
        weights = torch.ones(len(y), dtype=torch.float64, device=device)
        if given is not None:
            weights = linear.scaled_weights(tensor(given, device))
        made = linear.design(X, weights, self.fit_intercept, device)
        alone = y.ndim == 1 or bool(self.alpha_per_target)
        grids = [
            alpha_grid(
                made,
                targets,
                weights,
                ratio,
                self.alphas,
                self.eps,
                positive=self.positive,
                centre=self.fit_intercept,
                alone=alone,
            )
            for ratio in ratios
        ]
        folds = folds_of(check_cv(self.cv).split(X, y, groups), weights)
        solved = partial(
            fitted, optimizer=self.optimizer, tol=self.path_tol, max_iter=self.max_iter, engine=self.engine
        )
        chains = self.path_tol if self.optimizer is None and self.max_iter >= ENOUGH else None
        errors = [
            FoldErrors(made, targets, folds, self.fit_intercept, ratio, self.positive, solved, self.engine, chains).of(
                grid
            )
            for ratio, grid in zip(ratios, grids, strict=True)
        ]
        mse = array(torch.stack(errors, 1).mT)  # (targets, ratios, alphas, folds)
        alphas = array(torch.stack(grids, 1))
        if not alone:
            mse, alphas = mse.mean(0, keepdims=True), alphas[:1]
        self._choose(alphas, mse, np.array(ratios), y.ndim == 1 or not alone)
        final = ElasticNet(self.alpha_, l1_ratio=self.l1_ratio_, **{name: getattr(self, name) for name in FINAL})
        final._fit_checked(X, y, given)
        for name in ("coef_", "intercept_", "dual_gap_", "n_iter_", "_screening"):
            setattr(self, name, getattr(final, name))
        return self

    def _choose(self, alphas: Array, mse: Array, ratios: Array, single: bool) -> None:
        """Keep the path, and the first l1_ratio and alpha with the least mean error, as scikit-learn does."""
        several = np.ndim(self.l1_ratio) > 0 and len(ratios) > 1
        mean = mse.mean(3)
        best = mean.reshape(len(mean), -1).argmin(1)
        which, place = np.divmod(best, mean.shape[2])
        alpha, ratio = alphas[np.arange(len(mean)), which, place], ratios[which]
        shared = not isinstance(self.alphas, int | np.integer)  # the alphas that were given serve every l1_ratio
        self.alphas_ = alphas if several and not shared else alphas[:, 0]
        self.mse_path_ = mse if several else mse[:, 0]
        self.alpha_: Any = alpha
        self.l1_ratio_: Any = ratio
        if single:
            self.alphas_, self.mse_path_ = self.alphas_[0], self.mse_path_[0]
            self.alpha_, self.l1_ratio_ = float(alpha[0]), float(ratio[0])


@parameters
class LassoCV(ElasticNetCV):
    """`Lasso` with alpha chosen by cross-validation: `ElasticNetCV` with l1_ratio = 1."""

    l1_ratio: Any = field(default=1.0, init=False)
