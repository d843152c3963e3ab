"""What an operator cannot be made of is refused in one line that says what to do."""

import warnings

import numpy as np
import pytest
import scipy.sparse
import torch

import sureprox as sp
from helpers import F64, normal, refused
from sureprox.problems import LeastSquares, Logistic
from sureprox.problems import operators as ops

A = normal(6, 8)
S = scipy.sparse.random(6, 8, 0.5, random_state=0, format="csr")
NAN = S.copy()
NAN.data[2] = np.nan


def product(x):
    return x @ A.T


def back(z):
    return z @ A


def function(apply=product, adjoint=back, shape=(6, 8)):
    return lambda: ops.Function(apply, adjoint, shape)


BAD = {
    "dense empty": (lambda: ops.Dense(torch.zeros(0, 3)), "A has shape (0, 3)", "at least one instance"),
    "dense NaN": (lambda: ops.Dense(A * np.nan), "A has 48 entries that are NaN"),
    "dense complex": (lambda: ops.Dense(A + 0j), "A has dtype torch.complex128", "float32 or float64"),
    "dense of a sparse one": (lambda: ops.Dense(S), "A is a csr_matrix", "pass a dense tensor"),
    "sparse of a dense one": (lambda: ops.Sparse(A), "A is a Tensor", "sparse"),
    "sparse of a list": (lambda: ops.Sparse([[1.0]]), "A is a list", "sparse"),
    "sparse empty": (lambda: ops.Sparse(scipy.sparse.csr_matrix((0, 3))), "A has shape (0, 3)", "it is empty"),
    "sparse NaN": (lambda: ops.Sparse(NAN), "A has 1 entries that are NaN", "clean the data"),
    "sparse complex": (lambda: ops.Sparse(S * 1j), "A has dtype torch.complex128", "float32 or float64"),
    "sparse batch": (lambda: ops.Sparse(normal(2, 3, 4).to_sparse()), "A is sparse with shape (2, 3, 4)", "(m, n)"),
    "sparse with gradients": (
        lambda: ops.Sparse(A.clone().requires_grad_().to_sparse()),
        "requires gradients",
        "A.detach()",
    ),
    "kernel too long": (lambda: ops.Convolution(normal(5), 4), "kernel has shape (5,)", "size (4,)"),
    "kernel of an image": (lambda: ops.Convolution(normal(3, 3), 9), "kernel has shape (3, 3)"),
    "kernel empty": (lambda: ops.Convolution(normal(0), 4), "kernel has shape (0,)"),
    "kernel NaN": (lambda: ops.Convolution(normal(3) * np.nan, 4), "kernel has 3 entries that are NaN"),
    "boundary": (lambda: ops.Convolution(normal(3), 9, "reflect"), "boundary is 'reflect'", "'circular' or 'zero'"),
    "size of text": (lambda: ops.Difference("9"), "size is '9'", "whole and >= 1"),
    "size zero": (lambda: ops.Difference((0, 3)), "size is (0, 3)", "whole and >= 1"),
    "three sizes": (lambda: ops.Difference((2, 3, 4)), "size is (2, 3, 4)"),
    "one point": (lambda: ops.Difference(1), "size is 1", "at least two points"),
    "no power of 2": (lambda: ops.Haar(12), "size is 12", "pass levels"),
    "too many levels": (lambda: ops.Haar(12, levels=3), "levels is 3", "pass 0 to 2"),
    "half a level": (lambda: ops.Haar(8, levels=1.5), "levels is 1.5"),
    "mask of numbers": (lambda: ops.MaskedFourier(torch.ones(4)), "mask is torch.float32", "booleans"),
    "mask of nothing": (lambda: ops.MaskedFourier(torch.zeros(4, dtype=torch.bool)), "mask is False everywhere"),
    "mask of a volume": (lambda: ops.MaskedFourier(np.ones((2, 2, 2), bool)), "mask is bool of shape (2, 2, 2)"),
    "nothing composed": (ops.Compose, "Compose has no operators"),
    "composed sizes": (lambda: ops.Compose(A, ops.Haar(4)), "Dense(6 x 8) cannot be applied", "Haar(4 x 4)"),
    "composed dtypes": (lambda: ops.Compose(A, A.T.float()), "dtype torch.float32", "torch.float64"),
    "composed batches": (lambda: ops.Compose(normal(2, 3, 4), normal(3, 4, 5)), "batches of [2, 3]"),
    "stacked sizes": (lambda: ops.Stack(A, ops.Haar(4)), "[8, 4] columns"),
    "scale of zero": (lambda: ops.Standardized(A, torch.zeros(8, dtype=F64), torch.zeros(8, dtype=F64)), "scale is 0"),
    "center of another size": (lambda: ops.Standardized(A, normal(7), 1 + normal(8).abs()), "center has shape (7,)"),
    "standardized batches": (lambda: ops.Standardized(normal(2, 6, 8), normal(3, 8)), "batches of [2, 3]"),
    "standardized Haar": (lambda: ops.Standardized(ops.Haar(8)), "A is a Haar", "pass center and scale"),
    "function is a matrix": (function(apply=A), "apply is a Tensor", "pass a function"),
    "function of one size": (function(shape=(6,)), "shape is (6,)", "two numbers"),
    "function of another size": (function(shape=(5, 8)), "apply returned shape (4, 6)", "asks for (4, 5)"),
    "function of NaN": (function(apply=lambda x: product(x) * np.nan), "apply returned NaN"),
    "function of arrays": (function(apply=lambda x: product(x).numpy()), "apply returned a ndarray", "torch tensor"),
    "function that fails": (function(apply=lambda x: x @ A.T.float()), "apply failed", "RuntimeError", "pass like"),
    "function of a square": (function(apply=lambda x: product(x).square()), "apply is not linear"),
    "function with an offset": (function(apply=lambda x: product(x) + 1), "apply is not linear"),
    "adjoint of another size": (function(adjoint=lambda z: product(z @ A)), "adjoint returned shape (4, 6)"),
    "adjoint of NaN": (function(adjoint=lambda z: back(z) * np.nan), "adjoint returned NaN"),
    "adjoint off by a sign": (function(adjoint=lambda z: -back(z)), "adjoint is not the adjoint of apply", "<A x, z>"),
    "adjoint off by 1 %": (function(adjoint=lambda z: 1.01 * back(z)), "adjoint is not the adjoint of apply"),
    "adjoint of another map": (function(adjoint=lambda z: back(z).flip(1)), "adjoint is not the adjoint of apply"),
    "function of float32": (function(apply=lambda x: product(x).float()), "apply returned torch.float32"),
    "function like a number": (lambda: ops.Function(product, back, (6, 8), like=1), "like is int", "tensor"),
    "function of float64 only": (
        lambda: sp.solve(sp.lasso(ops.Function(product, back, (6, 8)), normal(6).float(), 0.1)),
        "failed on a float32 batch",
        "pass like",
    ),
    "b of another size": (lambda: LeastSquares(S, normal(3, 5)), "b has shape (3, 5)", "(B, 6) or (6,)"),
    "b of another dtype": (lambda: LeastSquares(S, normal(6).float()), "b has dtype torch.float32", "torch.float64"),
    "b of another batch": (
        lambda: LeastSquares(ops.Compose(normal(2, 6, 8), ops.Haar(8)), normal(3, 6)),
        "b has shape (3, 6)",
        "needs (2, 6)",
    ),
    "labels": (lambda: Logistic(S, 2 * torch.ones(6, dtype=F64)), "y holds 2", "0 or 1"),
    "compiled": (
        lambda: sp.solve(sp.lasso(S, normal(6), 0.1), engine="compiled"),
        "engine is 'compiled'",
        "engine='auto'",
    ),
}


def _scipy(kind, **changes):
    """A sparse matrix with an array written on after it was made."""
    damaged = kind(S, copy=True)
    for name, value in changes.items():
        getattr(damaged, name)[1] = value
    return lambda: ops.Sparse(damaged)


def _torch(crow, col, layout=torch.sparse_csr, size=(2, 3)):
    parts = (torch.tensor(part) for part in (crow, col))
    values = torch.ones(2, dtype=F64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # CSR tensors of torch are in beta
        damaged = torch.sparse_compressed_tensor(*parts, values, size, layout=layout, check_invariants=False)
    return lambda: ops.Sparse(damaged)


def _coo(row, column):
    damaged = torch.sparse_coo_tensor(
        torch.tensor([[0, row], [0, column]]), torch.ones(2, dtype=F64), (2, 3), check_invariants=False
    )
    return lambda: ops.Sparse(damaged)


DAMAGED = {
    "scipy csr, column": _scipy(scipy.sparse.csr_matrix, indices=99),
    "scipy csr, negative column": _scipy(scipy.sparse.csr_matrix, indices=-1),
    "scipy csr, starts": _scipy(scipy.sparse.csr_matrix, indptr=99),
    "scipy csc, row": _scipy(scipy.sparse.csc_matrix, indices=99),
    "scipy coo, row": _scipy(scipy.sparse.coo_matrix, row=99),
    "scipy coo, negative column": _scipy(scipy.sparse.coo_matrix, col=-1),
    "torch csr, column": _torch([0, 1, 2], [0, 3]),
    "torch csr, negative column": _torch([0, 1, 2], [0, -1]),
    "torch csr, starts": _torch([0, 3, 2], [0, 1]),
    "torch csr, too few": _torch([0, 1, 1], [0, 1]),
    "torch csc, row": _torch([0, 1, 1, 2], [0, 2], torch.sparse_csc),
    "torch coo, row": _coo(2, 0),
    "torch coo, negative column": _coo(0, -1),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_indices_out_of_range_are_refused(name):
    refused(DAMAGED[name], "A is sparse and damaged")


def test_blocks_are_fine_and_dense_dimensions_are_not():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        blocks = A.to_sparse_bsr((2, 4))
    assert torch.equal(ops.Sparse(blocks).dense(), A)
    refused(lambda: ops.Sparse(A.to_sparse(1)), "A is sparse along its rows alone")


def test_counts_are_numbers():
    """As everywhere: integers become floats."""
    counts = ops.Sparse((S > 0).astype(np.int64))
    assert torch.equal(counts.dense(), torch.as_tensor((S > 0).toarray()).to(torch.get_default_dtype()))
    kernel = ops.Convolution(torch.tensor([1, 2]), 4)
    assert torch.equal(kernel.dense(), ops.Convolution(torch.tensor([1.0, 2.0]), 4).dense())


@pytest.mark.parametrize("name", BAD)
def test_refused_in_one_line(name):
    call, *parts = BAD[name]
    refused(call, *parts)


def test_a_wrong_factor_does_not_hide_among_many_rows():
    """For random z, <A x, z> is of the size |A x| |z| / sqrt(m)."""
    n = 2**20
    refused(lambda: ops.Function(lambda x: x, lambda z: 1.0001 * z, (n, n)), "adjoint is not the adjoint of apply")


def test_functions_of_one_kind_only():
    B = A.float()
    operator = ops.Function(lambda x: x @ B.T, lambda z: z @ B, (6, 8), like=B)
    x = normal(3, 8)
    assert operator.forward(x).dtype == F64
    torch.testing.assert_close(operator.forward(x), x @ A.T, rtol=1e-5, atol=1e-5)
    assert operator.at(x).gram_norm(3).dtype == F64
