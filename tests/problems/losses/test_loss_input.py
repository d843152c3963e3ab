"""Bad input of the losses: each case is refused with one line that says what, got, and what to do."""

import numpy as np
import pytest
import torch
from scipy.sparse.linalg import aslinearoperator

import sureprox as sp
from helpers import F64, labels, normal, refused
from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Quantile, Softmax, SquaredHinge

NAN = float("nan")
A, y, t = normal(3, 8, 4), normal(3, 8, seed=1), labels(3, 8)
counts = (3 * y.abs()).floor()
LOSSES = {
    "least squares": lambda **options: LeastSquares(A, y, **options),
    "huber": lambda **options: Huber(A, y, **options),
    "quantile": lambda **options: Quantile(A, y, **options),
    "squared hinge": lambda **options: SquaredHinge(A, t, **options),
    "logistic": lambda **options: Logistic(A, t, **options),
    "poisson": lambda **options: Poisson(A, counts, **options),
}
CASES = {
    "delta zero": (lambda: Huber(A, y, 0), "delta is 0", "> 0"),
    "delta nan": (lambda: Huber(A, y, NAN), "delta is nan", "> 0"),
    "delta a word": (lambda: Huber(A, y, "one"), "delta is 'one'", "> 0"),
    "level zero": (lambda: Quantile(A, y, 0.0), "level is 0.0"),
    "level one": (lambda: Quantile(A, y, 1.0), "level is 1.0", "between 0 and 1"),
    "smoothing negative": (lambda: Quantile(A, y, smoothing=-0.1), "smoothing is -0.1", "> 0"),
    "counts negative": (lambda: Poisson(A, counts - 1), "y holds -1", "counts must be >= 0"),
    "counts nan": (lambda: Poisson(A, counts * NAN), "y has 24 entries that are NaN"),
    "link unknown": (lambda: Poisson(A, counts, "sqrt"), "link is 'sqrt'", "'log' or 'identity'"),
    "no background": (lambda: Poisson(A, counts, "identity"), "offset is 0", "> 0 wherever y > 0"),
    "labels of a hinge": (lambda: SquaredHinge(A, 2 * t - 1), "y holds -1", "must be 0 or 1"),
    "a class too many": (lambda: Softmax(A, counts, 2), "labels of 2 classes"),
    "half a class": (lambda: Softmax(A, counts + 0.5), "y holds", "0, 1, ..., k - 1"),
    "a negative class": (lambda: Softmax(A, -counts - 1), "y holds -", "0, 1, ..., k - 1"),
    "a number that is no class": (lambda: Softmax(A, counts + 1e12), "y holds 100000000000", "or pass classes"),
    "one class": (lambda: Softmax(A, counts, 1), "classes is 1", ">= 2"),
    "half a number of classes": (lambda: Softmax(A, counts, 2.5), "classes is 2.5", ">= 2"),
    "products alone": (lambda: Huber(aslinearoperator(A[0].numpy()), y), "operators.Function(apply, adjoint, shape)"),
    "offset of softmax": (lambda: Softmax(A, t, 2, offset=torch.ones(3, 8, dtype=F64)), "(3, 8)", "(3, 8, 2)"),
    "masked counts": (lambda: Poisson(A, np.ma.masked_equal(np.ones((3, 8)), 1)), "y has 24 masked entries"),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_value_is_refused(case):
    call, *parts = CASES[case]
    refused(call, *parts)


@pytest.mark.parametrize("name", LOSSES)
def test_bad_weights_and_offsets_are_refused(name):
    make = LOSSES[name]
    ones = torch.ones(3, 8, dtype=F64)
    refused(lambda: make(weights=-ones), "weights is -1", ">= 0")
    refused(lambda: make(weights=0 * ones), "weights is zero for every row")
    refused(lambda: make(weights=ones[:, :7]), "weights has shape (3, 7)", "(3, 8)")
    refused(lambda: make(offset=ones[:, :7]), "offset has shape (3, 7)", "(3, 8)")
    refused(lambda: make(offset=ones * NAN), "offset has 24 entries that are NaN")
    refused(lambda: make(offset=ones.to(torch.complex128)), "offset has dtype torch.complex128")
    refused(lambda: make(offset=ones.float()), "offset has dtype torch.float32")
    refused(lambda: make(offset=np.ma.masked_equal(np.ones((3, 8)), 1)), "offset has 24 masked entries")


@pytest.mark.parametrize("kind", [LeastSquares, Huber, Quantile, SquaredHinge, Logistic, Poisson, Softmax])
def test_bad_data_are_refused(kind):
    name = "b" if kind is LeastSquares else "y"
    refused(lambda: kind(A, t * NAN), f"{name} has 24 entries that are NaN")
    refused(lambda: kind(A, t.to(torch.complex128)), f"{name} has dtype torch.complex128")
    refused(lambda: kind(A, t[:, :7]), f"{name} has shape (3, 7)")
    refused(lambda: kind(A, "labels"), f"{name} is a str")
    refused(lambda: kind(A * NAN, t), "A has 96 entries that are NaN")
    refused(lambda: kind(A + 0j, t), "A has dtype torch.complex128")
    refused(lambda: kind(A[0, 0], t), "A has shape (4,)")
    refused(lambda: kind(A, t, weights=-t), "weights is -1", ">= 0")
    refused(lambda: kind(A, t, weights=t + 1j), "weights has dtype torch.complex128")


@pytest.mark.parametrize("kind", [Poisson, Softmax])
def test_whole_numbers_are_taken_as_they_are_meant(kind):
    f, x = kind(A, counts), normal(*kind(A, counts).shape, seed=3)
    for given in (counts.long(), counts.numpy().astype(np.int16), counts.int().tolist()):
        if isinstance(given, list):
            given = torch.tensor(given)
        torch.testing.assert_close(kind(A, given).value(x), f.value(x))


def test_the_number_of_classes_may_be_of_numpy_or_torch():
    """As y.max() + 1 is."""
    for most in (counts.max().int() + 1, counts.int().numpy().max() + 1):
        assert Softmax(A, counts, most).shape == Softmax(A, counts).shape


def test_a_poisson_loss_with_identity_link_needs_bounds():
    """Below zero f is infinite, and nothing else keeps x from there."""
    f = sp.losses.Poisson(
        torch.rand(5, 3, dtype=F64), torch.ones(5, dtype=F64), link="identity", offset=torch.ones(5, dtype=F64)
    )
    refused(lambda: sp.solve(sp.Problem(f, sp.penalties.L1(0.1))), "Poisson is infinite for some x", "NonNegative()")
    assert sp.solve(sp.Problem(f, sp.penalties.NonNegative(0.1))).converged.all()
