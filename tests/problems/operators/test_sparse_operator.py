"""A large sparse A: what is kept in memory, and that nothing of the size of a dense A is ever made."""

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import sureprox as sp
from helpers import F64, normal
from sureprox.problems import LeastSquares, Logistic
from sureprox.problems.operators import Sparse, Standardized

M, N, DENSITY = 20_000, 5_000, 0.01


class LargestTensor(TorchDispatchMode):
    """The bytes of the largest tensor that any operation returns."""

    def __init__(self):
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, torch.Tensor) and value.layout is torch.strided:
                self.bytes = max(self.bytes, value.numel() * value.element_size())
        return result


@pytest.fixture(scope="module")
def large():
    chance = np.random.default_rng(0)
    count = int(M * N * DENSITY)
    places = chance.integers(0, M, count), chance.integers(0, N, count)
    return scipy.sparse.csr_matrix((chance.standard_normal(count), places), shape=(M, N))


@pytest.mark.parametrize("source", ["scipy", "torch"])
def test_memory_is_within_3_times_that_of_A(large, source):
    given = large
    size = large.data.nbytes + large.indices.nbytes + large.indptr.nbytes
    if source == "torch":
        places = torch.from_numpy(np.stack(large.nonzero()).astype(np.int64))
        given = torch.sparse_coo_tensor(places, torch.from_numpy(large.data), large.shape, check_invariants=True)
        size = 8 * (2 * large.nnz + M + 1)
    operator = Sparse(given)
    held = sum(value.numel() * value.element_size() for value in operator.tensors())
    assert size > 0.9 * 12 * DENSITY * M * N
    assert held <= 3 * size
    assert operator.values.dtype == F64


def test_no_dense_copy_is_made(large):
    small, chance = np.float32, np.random.default_rng(1)
    with LargestTensor() as seen:
        f = LeastSquares(large.astype(small), torch.from_numpy(chance.standard_normal((2, M)).astype(small)))
        x = torch.zeros(2, N)
        g, L = f.grad(x), f.lipschitz()
    assert seen.bytes > 4 * N  # it has seen something
    assert seen.bytes < M * N * 4 / 20
    torch.testing.assert_close(g, -torch.from_numpy((large.T @ f.b.double().numpy().T).T).float(), rtol=1e-4, atol=1e-3)
    truth = float(scipy.sparse.linalg.svds(large, 1, tol=1e-2, return_singular_vectors=False, random_state=0)[0]) ** 2
    assert bool(((0.99 * truth <= L) & (1.0101 * truth >= L)).all())


def test_no_dense_copy_is_made_with_weights_and_columns_of_unit_variance(large):
    with LargestTensor() as seen:
        A = Standardized(large)
        y = (normal(2, M, seed=3) > 0).double()
        f = Logistic(A, y, weights=1 + normal(2, M, seed=4).square())
        f.grad(torch.zeros(2, N, dtype=F64))
        f.lipschitz()
    assert 8 * N < seen.bytes < M * N * 8 / 20


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "scipy coo", "scipy csc", "scipy csr_array"])
def test_every_layout_and_repeated_entries(kind):
    rows, columns, values = [3, 0, 1, 3, 3], [1, 2, 0, 1, 0], [1.0, 2.0, 3.0, 4.0, 5.0]
    dense = np.zeros((4, 3))
    np.add.at(dense, (rows, columns), values)
    coo = torch.sparse_coo_tensor(
        torch.tensor([rows, columns]), torch.tensor(values, dtype=F64), (4, 3), check_invariants=True
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # CSR tensors of torch are in beta
        given = {
            "coo": lambda: coo,
            "csr": coo.to_sparse_csr,
            "csc": coo.to_sparse_csc,
            "scipy coo": lambda: scipy.sparse.coo_matrix((values, (rows, columns)), shape=(4, 3)),
            "scipy csc": lambda: scipy.sparse.csc_matrix(dense),
            "scipy csr_array": lambda: scipy.sparse.csr_array(dense),
        }[kind]()
    operator = Sparse(given)
    assert np.array_equal(operator.dense().numpy(), dense)
    assert len(operator.values) == 4


def test_empty_rows_and_a_matrix_of_zeros():
    zeros = Sparse(scipy.sparse.csr_matrix((3, 4)))
    assert not bool(zeros.forward(normal(2, 4)).any())
    assert zeros.gram_norm(2).tolist() == zeros.gram_norm(2, exact=True).tolist() == [0.0, 0.0]


def test_what_was_given_may_be_reused():
    given = scipy.sparse.random(6, 5, 0.5, random_state=1, format="csr")
    operator, dense = Sparse(given), given.toarray()
    given.data[:] = 7
    assert np.array_equal(operator.dense().numpy(), dense)


def test_lasso_takes_what_scipy_has():
    given = scipy.sparse.random(30, 20, 0.3, random_state=2, format="csr")
    sparse, dense = (sp.lasso(A, normal(3, 30), 0.1) for A in (given, given.toarray()))
    assert sparse.batch == 3
    x = normal(3, 20, seed=9)
    torch.testing.assert_close(sparse.grad(x), dense.grad(x), rtol=1e-12, atol=1e-12)
    assert isinstance(sparse.f.A, Sparse)
