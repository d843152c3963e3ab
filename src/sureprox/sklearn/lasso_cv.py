"""`LassoCV`: every alpha on every fold, as chains or as one batch."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _check_sample_weight
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import LeastSquares, Problem, WeightedL1, WeightedLeastSquares, Zero
from sureprox.problems.forms import along, form_of
from sureprox.problems.operators.dense import Dense
from sureprox.sklearn import linear
from sureprox.sklearn.compat import dense, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, tensor
from sureprox.sklearn.lasso import Lasso, LinearRegressor, scaled_weights
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.plan import at_once, step_size
from sureprox.solve.solve import MAX_ITER

LARGEST = 2**24  # entries of all gathered columns, beyond which Newton steps cost more than they save


@dataclass(frozen=True)
class Folds:
    """Weights (F, m) of the rows in training and in testing: zero where a row is left out."""

    train: Tensor
    test: Tensor

    def __len__(self) -> int:
        return len(self.train)


class LassoCV(LinearRegressor):
    """`Lasso` with alpha chosen by cross-validation; all alphas and all folds are one batch.

    On a CPU, without an optimizer, the alphas of a fold are a chain of working sets, each from the solution of the one
    before. Elsewhere all of them share X: a fold leaves rows out by giving them the weight zero, and its own centring
    is a projection (see `WeightedLeastSquares`), so that each iteration is two matrix products for the whole batch.
    What is compared is the mean over the folds of the mean squared error on the rows left out, as in scikit-learn.

    eps : alpha_min / alpha_max of the path, where alpha_max is the smallest alpha with coef_ = 0.
    alphas : how many alphas the path has, or the alphas themselves.
    cv : folds, splitter or iterable of (train, test), as in scikit-learn; None is 5 folds.
    path_tol : how far the models that are compared may be from their best: their duality gap is at most path_tol times
        the objective of coef = 0. scikit-learn's tol of 1e-4 |y|^2, 20 times looser, can choose a neighbouring alpha.
    fit_intercept, max_iter, tol, optimizer, device : as in `Lasso`; tol is that of the fit with the chosen alpha.

    alpha_, alphas_ (n_alphas,), mse_path_ (n_alphas, n_folds), and coef_, intercept_, dual_gap_, n_iter_ of the fit to
    all rows. Memory is that of n_alphas * n_folds vectors of n_features and of n_samples.
    """

    def __init__(
        self,
        *,
        eps: float = 1e-3,
        alphas: Any = 100,
        fit_intercept: bool = True,
        max_iter: int = 100_000,
        tol: float = 1e-10,
        path_tol: float = 1e-5,
        cv: Any = None,
        optimizer: Any = None,
        device: str = "cpu",
        engine: str = "auto",
    ) -> None:
        self.eps = eps
        self.alphas = alphas
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.path_tol = path_tol
        self.cv = cv
        self.optimizer = optimizer
        self.device = device
        self.engine = engine

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        X, y = validate_data(self, X, y, accept_sparse="csr", y_numeric=True, dtype=np.float64)
        checked(self.max_iter, self.tol)
        checked(self.max_iter, self.path_tol, "path_tol")
        device = chosen_device(self.device)
        X = dense(X)
        given = None if sample_weight is None else _check_sample_weight(sample_weight, X, dtype=np.float64)
        weights = torch.ones(len(y), dtype=torch.float64, device=device)
        if given is not None:
            weights = scaled_weights(tensor(given, device))
        Xt, yt = tensor(X, device), tensor(y, device)
        self.alphas_ = self._grid(Xt, yt, weights)
        folds = _folds(check_cv(self.cv).split(X, y), weights)
        errors = self._errors(Xt, yt, folds, tensor(self.alphas_, device))
        self.mse_path_ = array(errors.mT)
        self.alpha_ = float(self.alphas_[np.argmin(self.mse_path_.mean(1))])
        final = Lasso(
            self.alpha_,
            fit_intercept=self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol,
            optimizer=self.optimizer,
            device=self.device,
            engine=self.engine,
        )
        final._fit_checked(X, y, given)
        for name in ("coef_", "intercept_", "dual_gap_", "n_iter_"):
            setattr(self, name, getattr(final, name))
        return self

    def _grid(self, X: Tensor, y: Tensor, weights: Tensor) -> Array:
        """The alphas, largest first."""
        if not isinstance(self.alphas, int | np.integer):
            alphas: Array = np.sort(np.asarray(self.alphas, dtype=np.float64).ravel())[::-1].copy()
            if not len(alphas) or not np.isfinite(alphas).all() or alphas[-1] < 0:
                raise InputError("alphas must be a whole number >= 1, or numbers that are finite and >= 0")
            return alphas
        if self.alphas < 1 or not 0 < self.eps < 1:
            raise InputError(f"alphas is {self.alphas} and eps {self.eps}; need alphas >= 1 and 0 < eps < 1")
        centred = y - linear.average(y, weights) if self.fit_intercept else y
        columns = X - linear.average(X, weights) if self.fit_intercept else X
        largest = float(((weights * centred) @ columns).abs().max() / weights.sum())
        tiny = np.finfo(np.float64).resolution
        if largest <= tiny * float(y.abs().max()) * float(X.abs().max()):  # rounding, or nothing at all
            return np.full(self.alphas, tiny)
        return np.geomspace(largest, largest * self.eps, self.alphas)

    def _errors(self, X: Tensor, y: Tensor, folds: Folds, alphas: Tensor) -> Tensor:
        """(F, n_alphas): the mean squared error on the rows each fold leaves out."""
        made = linear.columns(X, folds.train.sum(0), self.fit_intercept)
        lam = folds.train.sum(1, keepdim=True) * alphas
        x = self._chained(made, y, folds, lam)
        if x is None:
            x = self._together(made, y, folds, lam)
        each = torch.arange(len(folds), device=X.device).repeat_interleave(len(alphas))  # the fold of every instance
        residual = y - Dense.of(made.A).forward(x)
        if self.fit_intercept:
            train = folds.train / folds.train.sum(1, keepdim=True)
            residual = residual - (train[each] * residual).sum(1, keepdim=True)
        test = folds.test / folds.test.sum(1, keepdim=True)
        return (test[each] * residual.square()).sum(1).reshape(len(folds), len(alphas))

    def _chained(self, made: linear.Columns, y: Tensor, folds: Folds, lam: Tensor) -> Tensor | None:
        """(F n_alphas, n) by working sets, each alpha from the solution of the one before; None if that is no way.

        The rows of a fold, centred and weighted, or their triangular factor, are its A and b; zeros fill up.
        """
        if self.optimizer is not None or self.max_iter < MAX_ITER or y.device.type != "cpu":
            return None
        n, parts = made.A.shape[1], []
        for weights in folds.train:
            rows = torch.cat([made.A, y.unsqueeze(1)], 1)
            rows = linear.weighted_rows(rows - linear.average(rows, weights) if self.fit_intercept else rows, weights)
            parts.append(torch.cat(linear.compressed(*rows[weights > 0].split([n, 1], 1)), 1))
        padded = torch.nn.utils.rnn.pad_sequence(parts, batch_first=True)
        f = LeastSquares(padded[:, :, :n].contiguous(), padded[:, :, n].contiguous())
        problem = Problem(f, WeightedL1(1 / made.scale))
        operations = at_once(form_of(problem), self.engine)
        if operations.solved is None:
            return None
        first = solved_at_once(along(problem, lam), operations, self.path_tol, 1.0, chain=lam.shape[1])
        return None if len(first.left) else first.solution.x

    def _together(self, made: linear.Columns, y: Tensor, folds: Folds, lam: Tensor) -> Tensor:
        """The same as one batch that shares the rows of all folds."""
        A, b, weights = _shared_rows(made.A, y, folds.train, self.fit_intercept)
        F, K = lam.shape
        each = torch.arange(F, device=y.device).repeat_interleave(K)
        f = WeightedLeastSquares(A, b, weights, self.fit_intercept and A is made.A)
        step = step_size(Problem(f, Zero()), self.engine)[each]
        problem = Problem(f.select(each), WeightedL1(lam.reshape(-1, 1) / made.scale))
        found = fitted(
            problem,
            self.optimizer,
            self.path_tol,
            self.max_iter,
            polish=F * K * len(A) * min(A.shape) <= LARGEST,
            step_size=step,
            floor=1.0,
            check_every=25,
            engine=self.engine,
        )
        return found.x


def _folds(splits: Any, weights: Tensor) -> Folds:
    train: list[Tensor] = []
    test: list[Tensor] = []
    for pair in splits:
        for rows, kept in zip(pair, (train, test), strict=True):
            inside = torch.zeros_like(weights, dtype=torch.bool)
            inside[torch.as_tensor(np.asarray(rows), device=weights.device)] = True
            kept.append(torch.where(inside, weights, 0.0))
    folds = Folds(torch.stack(train), torch.stack(test))
    if not bool((folds.train.sum(1) > 0).all() and (folds.test.sum(1) > 0).all()):
        raise InputError("some fold has no row of positive weight to train or to test on; use fewer folds")
    return folds


def _shared_rows(A: Tensor, y: Tensor, train: Tensor, centre: bool) -> tuple[Tensor, Tensor, Tensor]:
    """(A, b, weights) that serve all folds: the rows themselves, or, where these are many, those of triangular factors.

    The factor of a fold, centred already, has n + 1 rows; the factors of all folds stand below each other, and the
    weights of a fold are one on its own and zero on the others.
    """
    (m, n), F = A.shape, len(train)
    if m <= F * (n + 1):
        return A, y.expand(F, m), train
    parts = []
    for weights in train:
        rows = torch.cat([A, y.unsqueeze(1)], 1)
        rows = linear.weighted_rows(rows - linear.average(rows, weights) if centre else rows, weights)
        parts.append(torch.linalg.qr(rows, mode="r").R)
    R = torch.cat(parts)
    own = torch.eye(F, dtype=A.dtype, device=A.device).repeat_interleave(n + 1, dim=1)
    return R[:, :n].contiguous(), R[:, n].expand(F, -1), own
