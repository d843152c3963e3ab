"""`sparse_encode` and `SparseCoder`: a LASSO for every row, all with the same dictionary, as one batch."""

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from sureprox.base.errors import InputError
from sureprox.problems import lasso, nonnegative
from sureprox.sklearn.compat import FLOATS, validate_data
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, number, tensor
from sureprox.sklearn.tensors import as_array, tensors_too

ALGORITHMS = ("lasso_cd", "lasso_lars")


@tensors_too
def sparse_encode(
    X: Any,
    dictionary: Any,
    *,
    algorithm: str = "lasso_cd",
    alpha: float | None = None,
    positive: bool = False,
    max_iter: int = 10_000,
    tol: float = 1e-6,
    optimizer: Any = None,
    device: str | None = None,
    engine: str = "auto",
) -> Any:
    """The codes (n_samples, n_components): min_c 1/2 |x - c D|^2 + alpha |c|_1 for every row x of X.

    The objective of scikit-learn's `sparse_encode` with `algorithm` "lasso_cd" or "lasso_lars", two names of one
    objective, and in the terms of `sureprox.lasso` A = D' and lam = alpha; alpha=None is 1. `positive`: c >= 0.
    X (n_samples, n_features), dictionary (n_components, n_features). Every code is certified: its objective is at most
    a factor 1 + tol above the best possible one. Everything is computed in float64, and rounded to float32 if X has
    that. `engine` as in `sureprox.solve`.
    """
    X = check_array(X, dtype=FLOATS, input_name="X")
    atoms = check_array(dictionary, dtype=np.float64, input_name="dictionary")
    checked(max_iter, tol)
    check_algorithm("algorithm", algorithm)
    if X.shape[1] != atoms.shape[1]:
        raise InputError(f"X has shape {X.shape}; a dictionary of shape {atoms.shape} needs {atoms.shape[1]} columns")
    weight = number("alpha", 1.0 if alpha is None else alpha)
    where, make = chosen_device(device), nonnegative if positive else lasso
    problem = make(tensor(atoms.T, where), tensor(X, where), weight)
    every = 10 if where.type == "cpu" else 25  # a GPU is quick with iterations, not with checks
    return array(fitted(problem, optimizer, tol, max_iter, check_every=every, engine=engine).x, X.dtype)


def check_algorithm(name: str, algorithm: Any) -> None:
    """Those that minimise the objective of `sparse_encode`."""
    if algorithm not in ALGORITHMS:
        raise InputError(f"{name} is {algorithm!r}; choose from {', '.join(ALGORITHMS)}")


class SparseCoder(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Rows as sparse combinations of the atoms of a dictionary; see `sparse_encode`.

    dictionary : (n_components, n_features), or None: the right singular vectors of the X given to `fit`.
    transform_algorithm : "lasso_cd" or "lasso_lars", two names of one objective.
    transform_alpha : the alpha of `sparse_encode`; None is 1.
    positive_code : whether codes are >= 0.
    split_sign : whether the positive and the negative parts of a code become features of their own.
    transform_max_iter, tol, optimizer, device, engine : as in `sparse_encode`.

    components_ (n_components, n_features): the dictionary in use. With a dictionary given, fit only checks.
    """

    def __init__(
        self,
        dictionary: Any = None,
        *,
        transform_algorithm: str = "lasso_cd",
        transform_alpha: float | None = None,
        positive_code: bool = False,
        split_sign: bool = False,
        transform_max_iter: int = 10_000,
        tol: float = 1e-6,
        optimizer: Any = None,
        device: str | None = None,
        engine: str = "auto",
    ) -> None:
        self.dictionary = dictionary
        self.transform_algorithm = transform_algorithm
        self.transform_alpha = transform_alpha
        self.positive_code = positive_code
        self.split_sign = split_sign
        self.transform_max_iter = transform_max_iter
        self.tol = tol
        self.optimizer = optimizer
        self.device = device
        self.engine = engine

    @tensors_too
    def fit(self, X: Any, y: Any = None) -> Self:
        X = validate_data(self, X, dtype=FLOATS)
        check_algorithm("transform_algorithm", self.transform_algorithm)
        atoms = self._given()
        if atoms is None:
            atoms = np.linalg.svd(X.astype(np.float64), full_matrices=False)[2].astype(X.dtype)
        if atoms.shape[1] != X.shape[1]:
            raise InputError(
                f"X has shape {X.shape}; a dictionary of shape {atoms.shape} needs {atoms.shape[1]} columns"
            )
        self.components_ = atoms
        return self

    @tensors_too
    def transform(self, X: Any, y: Any = None) -> Any:
        """The code of every row."""
        atoms = self._given()
        if atoms is None:
            check_is_fitted(self)
            atoms = as_array(self.components_)
        X = validate_data(self, X, dtype=FLOATS, reset=False)
        codes = sparse_encode(
            X,
            atoms,
            alpha=self.transform_alpha,
            positive=self.positive_code,
            max_iter=self.transform_max_iter,
            tol=self.tol,
            optimizer=self.optimizer,
            device=self.device,
            engine=self.engine,
        )
        return np.hstack([np.maximum(codes, 0), -np.minimum(codes, 0)]) if self.split_sign else codes

    @tensors_too
    def inverse_transform(self, X: Any) -> Any:
        """codes @ dictionary."""
        atoms = self._given()
        if atoms is None:
            check_is_fitted(self)
            atoms = as_array(self.components_)
        codes = check_array(X, dtype=FLOATS)
        if self.split_sign:
            positive, negative = np.split(codes, 2, axis=1)
            codes = positive - negative
        return codes @ atoms.astype(codes.dtype)

    def _given(self) -> Array | None:
        """The dictionary that was passed, checked."""
        return None if self.dictionary is None else check_array(as_array(self.dictionary), dtype=np.float64)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_) * (2 if self.split_sign else 1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = self.dictionary is None
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
