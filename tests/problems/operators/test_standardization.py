"""Means and deviations of columns against numpy, and what may go wrong with them: large means, constants, weights."""

import numpy as np
import pytest
import scipy.sparse
import torch

from helpers import normal
from sureprox.problems.operators import Dense, Sparse, standardization

SPARSE = scipy.sparse.random(30, 7, 0.4, random_state=0, format="csr")
WEIGHTS = normal(3, 30, seed=1).abs()
WEIGHTS[:, :5] = 0


@pytest.mark.parametrize("kind", [Dense, Sparse])
@pytest.mark.parametrize("batch", [None, 1, 3])
def test_with_weights(kind, batch):
    A = SPARSE.toarray()
    given = Sparse(SPARSE) if kind is Sparse else A
    weights = None if batch is None else WEIGHTS[0] if batch == 1 else WEIGHTS
    center, scale = standardization(given, weights)
    for i, row in enumerate(np.ones((1, 30)) if batch is None else WEIGHTS[:batch].numpy()):
        mean = np.average(A, 0, row)
        deviation = np.sqrt(np.average((A - mean) ** 2, 0, row))
        np.testing.assert_allclose(center if batch != 3 else center[i], mean, rtol=1e-12, atol=1e-15)
        np.testing.assert_allclose(scale if batch != 3 else scale[i], deviation, rtol=1e-12)
    assert center.shape == ((3, 7) if batch == 3 else (7,))


def test_each_instance_with_its_own_matrix():
    A = normal(3, 30, 7)
    center, scale = standardization(A, WEIGHTS)
    for i in range(3):
        mean = np.average(A[i].numpy(), 0, WEIGHTS[i].numpy())
        np.testing.assert_allclose(center[i], mean, rtol=1e-12)
        np.testing.assert_allclose(
            scale[i] ** 2, np.average((A[i].numpy() - mean) ** 2, 0, WEIGHTS[i].numpy()), rtol=1e-12
        )


@pytest.mark.parametrize("sparse", [False, True])
def test_a_large_mean_costs_no_digits_and_a_constant_has_scale_1(sparse):
    A = normal(30, 3).float() + torch.tensor([1e3, 0, 0])
    A[:, 1] = 0.1
    A[:, 2] = 0
    center, scale = standardization(scipy.sparse.csr_matrix(A.numpy()) if sparse else A)
    assert scale.dtype == torch.float32
    np.testing.assert_allclose(scale[0], A[:, 0].double().std(correction=0), rtol=1e-4)
    assert scale[1:].tolist() == [1.0, 1.0]
    np.testing.assert_allclose(center, A.double().mean(0), rtol=1e-6)
