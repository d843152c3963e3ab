"""`sparse_encode` and `SparseCoder` against scikit-learn's."""

import numpy as np
import pytest
import sklearn.decomposition as theirs
from sklearn.exceptions import ConvergenceWarning, NotFittedError

from helpers import refused
from sureprox.sklearn import SparseCoder, sparse_encode

ALPHA = 0.1


def patches(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Sparse combinations of 5 out of 128 unit atoms of 64 entries, with noise."""
    random = np.random.default_rng(seed)
    dictionary = random.normal(size=(128, 64))
    dictionary /= np.linalg.norm(dictionary, axis=1, keepdims=True)
    codes = np.where(random.uniform(size=(count, 128)) < 5 / 128, random.normal(size=(count, 128)), 0)
    return codes @ dictionary + 0.05 * random.normal(size=(count, 64)), dictionary


def objective(X, dictionary, codes, alpha=ALPHA):
    return 0.5 * np.square(X - codes @ dictionary).sum(1) + alpha * np.abs(codes).sum(1)


def test_same_objective_on_500_patches():
    X, dictionary = patches(500)
    ours = sparse_encode(X, dictionary, alpha=ALPHA)
    expected = theirs.sparse_encode(X, dictionary, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000)
    mine, reference = (objective(X, dictionary, codes) for codes in (ours, expected))
    np.testing.assert_allclose(mine, reference, rtol=1e-4)
    assert (mine <= reference * (1 + 1e-6)).all()
    assert 0 < (ours != 0).mean() < 0.3


def test_tight_codes_are_the_same_codes():
    X, dictionary = patches(20, seed=1)
    expected = theirs.sparse_encode(X, dictionary, algorithm="lasso_lars", alpha=ALPHA)
    np.testing.assert_allclose(sparse_encode(X, dictionary, alpha=ALPHA, tol=1e-12), expected, atol=1e-5)


def test_a_row_is_coded_alone():
    X, dictionary = patches(6, seed=2)
    together = sparse_encode(X, dictionary, alpha=ALPHA, tol=1e-10)
    np.testing.assert_allclose(sparse_encode(X[3:4], dictionary, alpha=ALPHA, tol=1e-10)[0], together[3], atol=1e-9)


@pytest.mark.parametrize("split", [False, True])
def test_coder_is_compatible_with_scikit_learns(split):
    X, dictionary = patches(30, seed=3)
    options = {"transform_algorithm": "lasso_cd", "transform_alpha": ALPHA, "split_sign": split}
    ours = SparseCoder(dictionary, tol=1e-12, **options)
    exact = options | {"transform_algorithm": "lasso_lars"}  # their coordinate descent may stop at 1e-3
    reference = theirs.SparseCoder(dictionary, **exact)
    codes = ours.fit_transform(X)
    np.testing.assert_allclose(codes, reference.fit_transform(X), atol=1e-6)
    np.testing.assert_array_equal(ours.transform(X), SparseCoder(dictionary, tol=1e-12, **options).transform(X))
    assert list(ours.get_feature_names_out()[:2]) == ["sparsecoder0", "sparsecoder1"]
    assert len(ours.get_feature_names_out()) == codes.shape[1]
    np.testing.assert_allclose(ours.inverse_transform(codes), reference.inverse_transform(codes))
    assert np.square(ours.inverse_transform(codes) - X).mean() < 0.05 * np.square(X).mean()


def test_default_alpha_and_precision():
    X, dictionary = patches(5, seed=4)
    codes = SparseCoder(dictionary, transform_algorithm="lasso_lars").fit(X).transform(X.astype(np.float32))
    assert codes.dtype == np.float32
    np.testing.assert_allclose(codes, sparse_encode(X, dictionary, alpha=1.0), atol=1e-3)


def test_float32_stays_float32():
    X, dictionary = patches(5, seed=6)
    X = X.astype(np.float32)
    assert sparse_encode(X, dictionary, alpha=ALPHA).dtype == np.float32
    coder = SparseCoder(dictionary, transform_alpha=ALPHA)
    assert coder.fit_transform(X).dtype == coder.inverse_transform(coder.fit_transform(X)).dtype == np.float32
    assert SparseCoder(transform_alpha=ALPHA).fit(X).components_.dtype == np.float32
    pytest.importorskip("pandas")
    named = coder.set_output(transform="pandas").fit_transform(X)
    assert list(named.columns[:2]) == ["sparsecoder0", "sparsecoder1"]


def test_without_a_dictionary_the_axes_of_the_data_are_the_atoms():
    X, _ = patches(40, seed=5)
    coder = SparseCoder(transform_alpha=ALPHA, tol=1e-12)
    with pytest.raises(NotFittedError):
        coder.transform(X)
    codes = coder.fit(X).transform(X)
    atoms = coder.components_
    np.testing.assert_allclose(atoms @ atoms.T, np.eye(40), atol=1e-10)
    along = X @ atoms.T  # for orthonormal atoms the code is a soft threshold
    np.testing.assert_allclose(codes, np.sign(along) * np.maximum(np.abs(along) - ALPHA, 0), atol=1e-6)


def test_too_few_iterations_are_a_warning():
    X, dictionary = patches(5)
    with pytest.warns(ConvergenceWarning, match="5 of 5 problems did not reach"):
        sparse_encode(X, dictionary, alpha=ALPHA, max_iter=3)


def test_bad_input_is_one_line():
    X, dictionary = patches(5)
    refused(lambda: sparse_encode(X[:, :60], dictionary), "X has shape (5, 60)", "64 columns")
    refused(lambda: sparse_encode(X, dictionary, alpha=-1), "alpha is -1")
    refused(lambda: SparseCoder(dictionary).fit(X[:, :60]), "X has shape (5, 60)")
    refused(lambda: SparseCoder(dictionary, transform_algorithm="omp").fit(X), "transform_algorithm is 'omp'")
