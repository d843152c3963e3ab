"""`LogisticRegressionCV`: every C on every fold, as batches that share X."""

from dataclasses import field
from typing import Any, Self

import numpy as np
import torch
from sklearn.metrics import check_scoring
from sklearn.model_selection import check_cv
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.sklearn.base import parameters
from sureprox.sklearn.compat import FLOATS, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, number
from sureprox.sklearn.folds import parts, room_for
from sureprox.sklearn.logistic import Classes, LogisticRegression, inverse_strength, row_weights
from sureprox.sklearn.tensors import tensors_too


@parameters
class LogisticRegressionCV(LogisticRegression):
    """`LogisticRegression` with C, and l1_ratio among several, chosen by cross-validation.

    All C on all folds are batches that share X; a fold leaves rows out by giving them the weight zero. The C with the
    best mean score on the rows left out is chosen, and the model fitted to all rows with it.

    Cs : how many C there are, from 1e-4 to 1e4, or the C themselves.
    l1_ratios : the numbers from 0 to 1 among which l1_ratio is chosen.
    cv : folds, splitter or iterable of (train, test), as in scikit-learn; None is 5 stratified folds.
    scoring : name of a score, scorer or None, which is accuracy.
    path_tol : the tol of the models that are compared.
    All others are those of `LogisticRegression`; tol is that of the fit with the chosen C.

    C_, l1_ratio_, Cs_, l1_ratios_, scores_ (n_folds, n_l1_ratios, n_Cs), coefs_paths_ (n_folds, n_l1_ratios, n_Cs,
    n_classes, n_features), with the intercept as a last feature, n_iter_ (n_folds, n_l1_ratios, n_Cs), and the results
    of the fit to all rows: scikit-learn's attributes with use_legacy_attributes=False.
    """

    C: Any = field(default=1.0, init=False)
    l1_ratio: Any = field(default=1.0, init=False)
    warm_start: Any = field(default=False, init=False)
    Cs: Any = 10
    l1_ratios: Any = (1.0,)
    cv: Any = None
    scoring: Any = None
    path_tol: Any = 1e-6

    @tensors_too
    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """`groups`: given to the splitter `cv`."""
        X, y = validate_data(self, X, y, accept_sparse="csr", dtype=FLOATS)
        checked(self.max_iter, self.tol, least=0)
        checked(self.max_iter, self.path_tol, "path_tol", least=0)
        ratios = [number("l1_ratios", ratio, most=1) for ratio in np.atleast_1d(self.l1_ratios)]
        Cs = _grid(self.Cs)
        labels, given = self._labels(y), row_weights(sample_weight, X)
        weights = given * self._class_weights(labels, given)
        folds = list(check_cv(self.cv, y, classifier=True).split(X, y, groups))
        problems = self._folds(X, labels, weights, [train for train, _ in folds])
        coefs, counts = zip(*(self._path(problems, Cs, ratio) for ratio in ratios), strict=True)
        self.Cs_, self.l1_ratios_, self.coefs_paths_ = Cs, np.array(ratios), np.stack(coefs, 1)
        self.scores_ = self._scores(X, y, None if sample_weight is None else given, [test for _, test in folds])
        place, which = np.divmod(
            self.scores_.mean(0).T.argmax(), len(ratios)
        )  # scikit-learn's order where some are equal
        self.C_, self.l1_ratio_ = float(Cs[place]), ratios[which]
        self._fit_checked(X, labels, given, self.C_, self.l1_ratio_)
        self.n_iter_ = np.stack(counts, 1)
        return self

    def _folds(self, X: Any, labels: Array, weights: Array, trains: list[Any]) -> Classes:
        """An instance for each fold."""
        inside = np.zeros((len(trains), len(labels)))
        for fold, train in enumerate(trains):
            inside[fold, train] = weights[train]
            if len(np.unique(labels[inside[fold] > 0])) < len(self.classes_):
                raise InputError("some fold has a class with no row of positive weight to train on; use fewer folds")
        return self._classes(X, np.broadcast_to(labels, inside.shape), inside, chosen_device(self.device))

    def _path(self, problems: Classes, Cs: Array, ratio: float) -> tuple[Array, Array]:
        """(F, n_Cs, blocks, n + 1) coefficients, and the iterations (F, n_Cs); a batch starts from the one before."""
        F, coefs, counts = len(problems.labels), [], []
        x: Tensor | None = None
        sizes = torch.as_tensor(Cs, device=problems.labels.device)
        block = max(1, room_for(problems.problem(sizes[:1].expand(F), torch.ones_like(sizes[:1]))) // F)
        for these in parts(len(Cs), block):
            k = len(sizes[these])
            each = torch.arange(F, device=sizes.device).repeat_interleave(k)
            some, C = problems.select(each), sizes[these].repeat(F)
            problem = some.problem(C, torch.full_like(C, ratio))
            start = None if x is None else x.reshape(F, -1, problem.n)[:, -1][each]
            found = fitted(problem, self.optimizer, self.path_tol, self.max_iter, engine=self.engine, x0=start)
            x = found.x
            coef, intercept = some.coefficients(x, C)
            coefs.append(_joined(coef, intercept if self.fit_intercept else None).unflatten(0, (F, k)))
            counts.append(found.iterations.reshape(F, k))
        return array(torch.cat(coefs, 1)), array(torch.cat(counts, 1))

    def _scores(self, X: Any, y: Any, weights: Array | None, tests: list[Any]) -> Array:
        """(n_folds, n_l1_ratios, n_Cs) of the models of coefs_paths_."""
        scorer = check_scoring(LogisticRegression(), self.scoring)
        model = LogisticRegression(fit_intercept=self.fit_intercept)
        model.classes_, model.n_features_in_ = self.classes_, self.n_features_in_
        scores = np.empty(self.coefs_paths_.shape[:3])
        for place in np.ndindex(scores.shape):
            coef, test = self.coefs_paths_[place], tests[place[0]]
            model.coef_ = coef[:, : self.n_features_in_]
            model.intercept_ = coef[:, -1] if self.fit_intercept else np.zeros(len(coef))
            more = {} if weights is None else {"sample_weight": weights[test]}
            scores[place] = scorer(model, X[test], y[test], **more)
        return scores

    @tensors_too
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score `scoring` names, by default the accuracy."""
        if self.scoring is None:
            return float(super().score(X, y, sample_weight))
        more = {} if sample_weight is None else {"sample_weight": sample_weight}
        return float(check_scoring(self, self.scoring)(self, X, y, **more))


def _grid(Cs: Any) -> Array:
    if isinstance(Cs, int | np.integer) and not isinstance(Cs, bool):
        if Cs < 1:
            raise InputError(f"Cs is {Cs}; pass a whole number >= 1, or the numbers themselves")
        return np.logspace(-4, 4, Cs)
    given = np.ravel(np.asarray(Cs))
    if not len(given):
        raise InputError("Cs is empty; pass a whole number >= 1, or the numbers themselves")
    return np.array([inverse_strength("Cs", C) for C in given.tolist()])


def _joined(coef: Tensor, intercept: Tensor | None) -> Tensor:
    return coef if intercept is None else torch.cat([coef, intercept.unsqueeze(2)], 2)
