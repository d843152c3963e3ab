"""The estimate of the largest eigenvalue: close from above on every kind of matrix, for a fixed small price."""

import pytest
import torch

import sureprox as sp
from helpers import F64, autoregressive, normal
from sureprox.problems import spectrum
from sureprox.problems.operators import Dense
from sureprox.problems.spectrum import largest_eigenvalue

F32 = torch.float32


def rank_one(batch: int, m: int, n: int, seed: int) -> torch.Tensor:
    return normal(batch, m, 1, seed=seed) @ normal(batch, 1, n, seed=seed + 1)


def with_spectrum(values: torch.Tensor, m: int, n: int, seed: int) -> torch.Tensor:
    """A matrix with these singular values and random singular vectors."""
    p = len(values)
    left = torch.linalg.qr(normal(2, m, p, seed=seed)).Q
    right = torch.linalg.qr(normal(2, n, p, seed=seed + 1)).Q
    return left * values @ right.mT


MATRICES = {
    "gaussian": lambda seed: normal(2, 60, 90, seed=seed),
    "gaussian, unit columns": lambda seed: torch.nn.functional.normalize(normal(2, 125, 250, seed=seed), dim=1),
    "gaussian, larger than the Krylov space": lambda seed: normal(2, 150, 200, seed=seed),
    "ar(0.99)": lambda seed: autoregressive(2, 100, 150, 0.99, seed),
    "ar(0.99), tall": lambda seed: autoregressive(2, 300, 80, 0.99, seed),
    "rank one": lambda seed: rank_one(2, 70, 90, seed),
    "tall": lambda seed: normal(2, 400, 10, seed=seed),
    "wide": lambda seed: normal(2, 10, 400, seed=seed),
    "1 x 1": lambda seed: normal(2, 1, 1, seed=seed),
    "2 x 3": lambda seed: normal(2, 2, 3, seed=seed),
    "5 x 1": lambda seed: normal(2, 5, 1, seed=seed),
    "identity": lambda seed: torch.eye(80, dtype=F64).repeat(2, 1, 1),
    "orthogonal": lambda seed: torch.linalg.qr(normal(2, 90, 90, seed=seed)).Q,
    "block diagonal": lambda seed: torch.block_diag(*normal(10, 8, 12, seed=seed)).unsqueeze(0),
    "diagonal, many sizes": lambda seed: torch.diag(torch.logspace(-6, 3, 100, dtype=F64)).unsqueeze(0),
    "two leading values close": lambda seed: with_spectrum(torch.linspace(1, 0.9, 100, dtype=F64), 100, 120, seed),
    "one value stands out": lambda seed: with_spectrum(
        torch.cat([torch.tensor([1.1], dtype=F64), torch.ones(99, dtype=F64)]), 100, 120, seed
    ),
    "one entry": lambda seed: torch.zeros(1, 70, 90, dtype=F64).index_put(
        (torch.tensor(0), torch.tensor(3 + seed), torch.tensor(50)), torch.tensor(2.0, dtype=F64)
    ),
    "instances of different size": lambda seed: (
        normal(3, 70, 80, seed=seed) * torch.tensor([1e-6, 1.0, 1e6], dtype=F64).view(3, 1, 1)
    ),
}


def exact(A: torch.Tensor) -> torch.Tensor:
    gram = A.double() @ A.double().mT if A.shape[1] <= A.shape[2] else A.double().mT @ A.double()
    return torch.linalg.eigvalsh(gram)[:, -1]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", MATRICES)
def test_between_one_and_1_02_times_the_exact_value(name, dtype, seed):
    A = MATRICES[name](seed).to(dtype)
    estimate = largest_eigenvalue(A)
    assert estimate.dtype == dtype
    ratio = estimate.double() / exact(A)
    assert (ratio >= 1).all(), ratio
    assert (ratio <= 1.02).all(), ratio


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("factor", [1e-6, 1e-3, 1e3, 1e6])
def test_any_scale_of_the_matrix(factor, dtype):
    A = normal(2, 70, 80)
    ratio = largest_eigenvalue((factor * A).to(dtype)).double() / (factor**2 * exact(A))
    assert (ratio >= 1).all()
    assert (ratio <= 1.02).all()


def test_zero_matrix_has_zero():
    A = normal(3, 70, 80)
    A[1] = 0
    assert (largest_eigenvalue(A) > 0).tolist() == [True, False, True]
    assert largest_eigenvalue(torch.zeros(2, 3, 4)).tolist() == [0.0, 0.0]


def test_a_neighbour_changes_nothing_and_calls_repeat():
    A = autoregressive(4, 70, 90, 0.9)
    together = largest_eigenvalue(A)
    assert torch.equal(together, largest_eigenvalue(A))
    alone = torch.cat([largest_eigenvalue(A[i : i + 1]) for i in range(4)])
    torch.testing.assert_close(alone, together, rtol=1e-12, atol=0)


def test_global_random_state_is_left_alone():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    largest_eigenvalue(normal(1, 30, 40))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("shape", [(2, 200, 300), (2, 300, 200), (2, 3, 200), (300, 200)])
def test_at_most_40_products_with_the_matrix(shape, monkeypatch):
    """A product with A or A' is any product with a block of few columns; nothing may form A'A or decompose A."""
    problem = sp.lasso(normal(*shape), normal(2, shape[-2]), 0.1)
    large = {shape[-2], shape[-1]}
    products = []

    def counted(left, right):
        if set(left.shape[1:]) == large or set(right.shape[1:]) == large:
            products.append(min(left.shape[1], right.shape[2]))
        return bmm(left, right)

    bmm = torch.bmm
    monkeypatch.setattr(spectrum.torch, "bmm", counted)
    for forbidden in ("svd", "svdvals", "eigh", "eigvalsh", "matrix_norm"):
        monkeypatch.setattr(torch.linalg, forbidden, lambda *_, **__: pytest.fail("a decomposition of A"))
    problem.lipschitz()
    assert 0 < len(products) <= 40
    assert max(products) <= spectrum.KRYLOV_BLOCK


@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", MATRICES)
def test_exact_is_exact(name, dtype):
    A = MATRICES[name](0).to(dtype)
    value = Dense(A).gram_norm(len(A), exact=True)
    torch.testing.assert_close(value.double(), exact(A), rtol=1e-12 if dtype == F64 else 1e-6, atol=0)
    assert value.dtype == dtype


@pytest.mark.parametrize("shape", [(3, 4, 6), (4, 6)])
def test_forward_and_adjoint(shape):
    A = normal(*shape)
    x, z = normal(3, 6, seed=1), normal(3, 4, seed=2)
    matrices = A.expand(3, 4, 6)
    forward = torch.stack([matrices[i] @ x[i] for i in range(3)])
    adjoint = torch.stack([matrices[i].T @ z[i] for i in range(3)])
    torch.testing.assert_close(Dense(A).forward(x), forward, rtol=1e-13, atol=1e-14)
    torch.testing.assert_close(Dense(A).adjoint(z), adjoint, rtol=1e-13, atol=1e-14)


def test_lipschitz_carries_no_gradient():
    A = normal(2, 4, 6).requires_grad_()
    problem = sp.lasso(A, normal(2, 4), 0.1)
    assert not problem.lipschitz().requires_grad
    assert not problem.lipschitz(exact=True).requires_grad


@pytest.mark.parametrize("shape", [(25, 200, 400), (25, 400, 200)])
def test_l_on_sparse_binary_matrices(shape):
    """Many repeated singular values: the Krylov space is exhausted early, and what is left is rounding noise."""
    A = (torch.rand(shape, generator=torch.Generator().manual_seed(3)) < 0.003).double()
    problem = sp.lasso(A, torch.zeros(shape[:2], dtype=torch.float64), 0.1)
    ratio = problem.lipschitz() / problem.lipschitz(exact=True)
    assert ratio.min() >= 1
    assert ratio.max() <= 1.02
    alone = sp.lasso(A[18], torch.zeros(shape[1], dtype=torch.float64), 0.1).lipschitz()
    torch.testing.assert_close(alone, problem.lipschitz()[18:19], rtol=1e-10, atol=0)


def test_l_on_a_spectrum_that_falls_by_a_thousand_each_time():
    A = torch.diag(10.0 ** -torch.arange(0, 300, 3).double())
    estimate = sp.lasso(A, torch.zeros(100, dtype=torch.float64), 0.1).lipschitz()
    assert 1 <= float(estimate) <= 1.02
