"""Torch tensors in, torch tensors out: the numbers of arrays, on the device of X and in its dtype."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from torch import Tensor

from sureprox.sklearn import (
    ElasticNet,
    ElasticNetCV,
    GroupLasso,
    HuberRegressor,
    Lasso,
    LassoCV,
    LogisticRegression,
    LogisticRegressionCV,
    NonNegativeLeastSquares,
    PoissonRegressor,
    SparseCoder,
    StabilitySelection,
    enet_path,
    lasso_path,
    sparse_encode,
)
from sureprox.sklearn.engine import chosen_device
from sureprox.sklearn.tensors import tensors_too

RNG = np.random.default_rng(0)
X = RNG.standard_normal((40, 6))
Y = X[:, :3] @ RNG.standard_normal((3, 2)) + 0.1 * RNG.standard_normal((40, 2)) + 5
COUNTS, KINDS = np.round(Y[:, 0].clip(0)), np.digitize(Y[:, 0], np.quantile(Y[:, 0], [0.4, 0.7]))

REGRESSORS = [
    ElasticNet(0.1),
    ElasticNetCV(alphas=3, cv=2),
    GroupLasso(0.1, groups=2),
    HuberRegressor(0.1),
    Lasso(0.1),
    LassoCV(alphas=3, cv=2),
    NonNegativeLeastSquares(),
    PoissonRegressor(0.1),
]
CLASSIFIERS = [LogisticRegression(C=0.1), LogisticRegressionCV(Cs=[0.1], cv=2)]
DTYPES = [torch.float64, torch.float32]


def by_name(estimator):
    return type(estimator).__name__


def arrays_of(estimator) -> dict:
    return {name: value for name, value in vars(estimator).items() if isinstance(value, np.ndarray)}


def assert_like(ours, value, dtype=None) -> None:
    """The tensor has the numbers of the array."""
    assert isinstance(ours, Tensor)
    assert dtype is None or ours.dtype == dtype
    np.testing.assert_array_equal(ours.numpy(), value)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("estimator", REGRESSORS, ids=by_name)
def test_regressors(estimator, dtype):
    y = COUNTS if isinstance(estimator, PoissonRegressor) else Y[:, 0]
    given, wanted = torch.tensor(X, dtype=dtype), torch.tensor(y, dtype=dtype)
    truth = clone(estimator).fit(given.numpy(), wanted.numpy(), sample_weight=np.ones(40))
    model = clone(estimator).fit(given.clone().requires_grad_(), wanted, sample_weight=torch.ones(40))
    assert_like(model.coef_, truth.coef_, dtype)
    assert_like(model.intercept_, truth.intercept_, dtype)
    for name, value in arrays_of(truth).items():
        assert_like(getattr(model, name), value)
    assert_like(model.predict(given), truth.predict(given.numpy()), dtype)
    assert isinstance(model.predict(given.numpy()), np.ndarray)
    assert model.score(given, wanted) == truth.score(given.numpy(), wanted.numpy())
    if hasattr(truth, "proved_zero_"):
        assert_like(model.proved_zero_, truth.proved_zero_)
        assert model.certified_support_ == truth.certified_support_
    assert isinstance(pickle.loads(pickle.dumps(model)).coef_, Tensor)


@pytest.mark.parametrize("labels", [KINDS, KINDS > 0], ids=["three classes", "two"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=by_name)
def test_classifiers(estimator, dtype, labels):
    given, wanted = torch.tensor(X, dtype=dtype), torch.tensor(labels)
    truth = clone(estimator).fit(given.numpy(), labels)
    model = clone(estimator).fit(given, wanted)
    assert_like(model.coef_, truth.coef_, dtype)
    assert_like(model.intercept_, truth.intercept_, dtype)
    assert_like(model.classes_, truth.classes_, wanted.dtype)
    for method in ("predict", "predict_proba", "predict_log_proba", "decision_function"):
        assert_like(getattr(model, method)(given), getattr(truth, method)(given.numpy()))
    assert model.predict_proba(given).dtype == dtype
    assert model.score(given, wanted) == truth.score(given.numpy(), labels)


@pytest.mark.parametrize("dtype", DTYPES)
def test_several_targets(dtype):
    given, wanted = torch.tensor(X, dtype=dtype), torch.tensor(Y, dtype=dtype)
    truth = Lasso(alpha=[0.1, 0.2]).fit(given.numpy(), wanted.numpy())
    model = Lasso(alpha=torch.tensor([0.1, 0.2], dtype=torch.float64)).fit(given, wanted)
    assert_like(model.coef_, truth.coef_, dtype)
    assert_like(model.dual_gap_, truth.dual_gap_, torch.float64)
    assert_like(model.certified_support_, truth.certified_support_)
    assert_like(model.predict(given), truth.predict(given.numpy()), dtype)
    np.testing.assert_array_equal(model.sparse_coef_.toarray(), truth.coef_)


@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_and_paths(dtype):
    rows, atoms = torch.tensor(X[:5], dtype=dtype), torch.tensor(X[5:15], dtype=dtype)
    assert_like(sparse_encode(rows, atoms), sparse_encode(rows.numpy(), atoms.numpy()), dtype)
    coder, truth = SparseCoder(atoms).fit(rows), SparseCoder(atoms.numpy()).fit(rows.numpy())
    assert_like(coder.transform(rows), truth.transform(rows.numpy()), dtype)
    assert_like(coder.inverse_transform(coder.transform(rows)), truth.inverse_transform(truth.transform(rows.numpy())))
    y = torch.tensor(Y[:, 0], dtype=dtype)
    for function in (lasso_path, enet_path):
        found = function(torch.tensor(X, dtype=dtype), y, alphas=4)
        for ours, value in zip(found, function(X.astype(y.numpy().dtype), y.numpy(), alphas=4), strict=True):
            assert_like(ours, value)
        assert found[1].dtype == dtype


def test_selected_columns():
    selection = StabilitySelection(n_samples=10, alphas=4, random_state=0)
    truth = clone(selection).fit(X, Y[:, 0])
    model = selection.fit(torch.tensor(X), torch.tensor(Y[:, 0]))
    assert_like(model.scores_, truth.scores_)
    assert_like(model.transform(torch.tensor(X)), truth.transform(X))
    assert_like(model.inverse_transform(model.transform(torch.tensor(X))), truth.inverse_transform(truth.transform(X)))


def test_a_warm_start_from_tensors():
    given, wanted = torch.tensor(X), torch.tensor(Y[:, 0])
    model = Lasso(0.1, warm_start=True).fit(given, wanted)
    first = model.coef_.clone()
    assert torch.allclose(model.fit(given, wanted).coef_, first, atol=1e-8)
    assert isinstance(model.fit(X, Y[:, 0]).coef_, np.ndarray)  # what follows X now


def test_model_selection_takes_tensors():
    given, labels = torch.tensor(X), torch.tensor(KINDS > 0)
    wanted = torch.tensor(Y[:, 0])
    np.testing.assert_array_equal(
        cross_val_score(Lasso(0.1), given, wanted, cv=3), cross_val_score(Lasso(0.1), X, Y[:, 0], cv=3)
    )
    assert cross_val_score(LogisticRegression(), given, labels, cv=3, scoring="roc_auc").min() > 0.9
    search = GridSearchCV(Lasso(), {"alpha": [0.01, 0.1]}, cv=2).fit(given, wanted)
    assert isinstance(search.predict(given), Tensor)


def test_text_remains_text_and_half_precision_becomes_single():
    labels = np.where(KINDS > 0, "yes", "no")
    model = LogisticRegression().fit(torch.tensor(X), labels)
    assert set(model.predict(torch.tensor(X))) == {"yes", "no"}
    assert Lasso(0.1).fit(torch.tensor(X).bfloat16(), torch.tensor(Y[:, 0])).coef_.dtype == torch.float32


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_arrays_keep_float32_too(kind):
    model = Lasso(0.1).fit(X.astype(kind), Y)
    assert model.coef_.dtype == model.intercept_.dtype == model.predict(X.astype(kind)).dtype == kind
    assert model.dual_gap_.dtype == np.float64
    alone = Lasso(0.1).fit(X.astype(kind), Y[:, 0])
    assert alone.intercept_.dtype == kind
    np.testing.assert_allclose(alone.coef_, Lasso(0.1).fit(X, Y[:, 0]).coef_, atol=1e-6)


class OnGPU(Tensor):
    """A tensor that says to be on a GPU."""

    @property
    def device(self):
        return torch.device("cuda", 1)


def test_solves_run_where_x_is():
    @tensors_too
    def place(X):
        return chosen_device(None), chosen_device("cpu")

    assert place(torch.ones(2).as_subclass(OnGPU)) == (torch.device("cuda", 1), torch.device("cpu"))
    assert place(torch.ones(2)) == place(np.ones(2)) == (torch.device("cpu"), torch.device("cpu"))
    assert chosen_device(None) == torch.device("cpu")
