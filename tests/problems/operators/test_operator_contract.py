"""One contract for all operators: they are the matrices they say, whatever the batch, the precision and the engine."""

import numpy as np
import pytest
import torch
from operator_cases import CASES, made

from helpers import F64, normal

F32 = torch.float32
TOLERANCE = {F64: 1e-12, F32: 1e-5}


def points(operator, count=3, dtype=F64):
    m, n = operator.shape
    return normal(count, n, seed=5, dtype=dtype), normal(count, m, seed=6, dtype=dtype)


def close(ours, theirs, dtype=F64):
    torch.testing.assert_close(ours.double(), theirs.double(), rtol=TOLERANCE[dtype], atol=10 * TOLERANCE[dtype])


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_products_are_those_of_the_matrix(name, dtype):
    operator, matrix = made(name, dtype)
    assert tuple(operator.shape) == tuple(matrix.shape[-2:])
    assert float(matrix.abs().max()) > 0.1
    x, z = points(operator, dtype=dtype)
    full = matrix.expand(3, *operator.shape)
    forward, adjoint = operator.forward(x), operator.adjoint(z)
    assert forward.dtype == adjoint.dtype == dtype
    close(forward, (full @ x.double().unsqueeze(2)).squeeze(2), dtype)
    close(adjoint, (full.mT @ z.double().unsqueeze(2)).squeeze(2), dtype)
    close(operator.residual(x, z), (full @ x.double().unsqueeze(2)).squeeze(2) - z, dtype)


@pytest.mark.parametrize("name", CASES)
def test_adjoint_identity(name):
    operator = made(name)[0]
    x, z = points(operator)
    left, right = (operator.forward(x) * z).sum(1), (x * operator.adjoint(z)).sum(1)
    torch.testing.assert_close(left, right, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", CASES)
def test_dense_and_columns(name):
    operator, matrix = made(name)
    operator = operator.at(torch.zeros((), dtype=F64))
    close(operator.dense(), matrix)
    n = operator.shape[1]
    index = torch.tensor([[0, n - 1], [1, 0], [n // 2, 1]])
    full = matrix.expand(3, *operator.shape)
    close(operator.columns(index), torch.stack([A[:, i] for A, i in zip(full, index, strict=True)]))


@pytest.mark.parametrize("name", CASES)
def test_rows_of_a_batch_do_not_know_of_each_other(name):
    operator = made(name)[0]
    x, z = points(operator)
    for i in range(3):
        alone = operator.select(torch.tensor([i]))
        close(alone.forward(x[i : i + 1]), operator.forward(x)[i : i + 1])
        close(alone.adjoint(z[i : i + 1]), operator.adjoint(z)[i : i + 1])


@pytest.mark.parametrize("name", CASES)
def test_stacked_has_several_points_for_each_instance(name):
    operator = made(name)[0]
    stack = operator.stacked(2)
    x, z = points(operator, 6)
    for j in range(2):
        close(stack.forward(x)[j::2], operator.forward(x[j::2]))
        close(stack.adjoint(z)[j::2], operator.adjoint(z[j::2]))
    close(stack.residual(x, z), stack.forward(x) - z)
    torch.testing.assert_close(
        stack.gram_norm(3), operator.gram_norm(3).repeat_interleave(1 if operator.shared else 2), rtol=1e-9, atol=0
    )


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    operator = made(name)[0]
    x, z = (value.requires_grad_() for value in points(operator))
    assert torch.autograd.gradcheck(operator.forward, (x,))
    assert torch.autograd.gradcheck(operator.adjoint, (z,))
    (way,) = torch.autograd.grad(operator.forward(x).square().sum() / 2, x, create_graph=True)
    close(way, operator.adjoint(operator.forward(x)))
    (second,) = torch.autograd.grad(way.sum(), x)
    close(second, operator.adjoint(operator.forward(torch.ones_like(x))))


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("name", CASES)
def test_gram_norm(name, dtype):
    operator, matrix = made(name, dtype)
    operator = operator.at(torch.zeros((), dtype=dtype))
    largest = np.linalg.svd(matrix.numpy(), compute_uv=False).max(-1) ** 2
    truth = torch.from_numpy(np.asarray(largest)).expand(3)
    exact, estimate = operator.gram_norm(3, exact=True), operator.gram_norm(3)
    assert exact.dtype == estimate.dtype == dtype
    assert exact.shape == estimate.shape == (3,)
    torch.testing.assert_close(exact.double(), truth, rtol=1e-11 if dtype == F64 else 1e-5, atol=0)
    ratio = estimate.double() / truth
    assert bool(((ratio > 1 - 1e-5) & (ratio < 1.01 + 1e-5)).all())
    assert not estimate.requires_grad


@pytest.mark.parametrize("name", CASES)
def test_gram_norm_with_weights_of_rows(name):
    operator, matrix = made(name)
    r = 0.1 + normal(3, operator.shape[0], seed=7).abs()
    scaled = r.unsqueeze(2) * matrix
    truth = torch.from_numpy(np.linalg.svd(scaled.numpy(), compute_uv=False).max(-1) ** 2)
    exact = operator.at(r).gram_norm(3, exact=True, row_scale=r)
    torch.testing.assert_close(exact, truth, rtol=1e-11, atol=0)
    torch.testing.assert_close(operator.at(r).gram_norm(3, row_scale=r), 1.01 * truth, rtol=1e-9, atol=0)


@pytest.mark.parametrize("name", CASES)
def test_transposed(name):
    operator = made(name)[0]
    x, z = points(operator)
    assert operator.T.shape == operator.shape[::-1]
    close(operator.T.forward(z), operator.adjoint(z))
    close(operator.T.adjoint(x), operator.forward(x))
    assert type(operator.T.T) is type(operator)
    alone = operator.T.select(torch.tensor([1]))
    close(alone.forward(z[1:2]), operator.adjoint(z)[1:2])


def test_the_cases_have_operators_with_instances_of_their_own():
    own = [name for name in CASES if made(name)[0].batch is not None]
    assert set(own) == {"own", "compose three", "stack", "standardized, own", "standardized, own numbers"}
