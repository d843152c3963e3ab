"""The estimate of L by the kernel of a CPU against the plain one, and against singular values."""

import pytest
import torch

from engines import kernels
from helpers import F64, autoregressive, normal
from sureprox.kernels.lipschitz import cpu as cpu_krylov
from sureprox.kernels.lipschitz.cpu import AFAR, largest_eigenvalue
from sureprox.problems import lasso
from sureprox.problems.operators import Dense
from sureprox.solve.solve import solve

pytestmark = pytest.mark.usefixtures("native")

EXACT_SHAPES = [
    (5, 40),
    (40, 17),
    (64, 128),
    (33, 300),
    (30, 30),
    (4, 16),
    (17, 16),
    (16, 17),
    (1, 16),
    (1, 50),
    (2, 20),
]
SHAPES = [(250, 500), (500, 250), *EXACT_SHAPES]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14}


def drawn(batch: int, m: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(m * n)
    scale = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)[torch.arange(batch) % 3].view(-1, 1, 1)
    return (torch.randn(batch, m, n, generator=generator, dtype=torch.float64) * scale).to(dtype)


def ours(A: torch.Tensor) -> torch.Tensor:
    return largest_eigenvalue(A)


def plain(A: torch.Tensor) -> torch.Tensor:
    return Dense(A).gram_norm(len(A))


def geometric(batch: int, m: int, n: int, ratio: float = 0.9) -> torch.Tensor:
    """Singular values 1, ratio, ratio^2, ..."""
    size = min(m, n)
    left, right = (torch.linalg.qr(normal(batch, length, size, seed=length)).Q for length in (m, n))
    return left * ratio ** torch.arange(size, dtype=F64) @ right.mT


KINDS = {
    "gaussian": lambda m, n: normal(3, m, n),
    "autoregressive": lambda m, n: autoregressive(3, m, n, 0.9),
    "low rank": lambda m, n: normal(3, m, 5) @ normal(3, 5, n, seed=1),
    "sparse binary": lambda m, n: (normal(3, m, n) > 2).to(F64),
    "geometric": lambda m, n: geometric(3, m, n),
    "steeply geometric": lambda m, n: geometric(3, m, n, 1e-3),
}


def exact(A: torch.Tensor) -> torch.Tensor:
    return torch.linalg.matrix_norm(A.double(), ord=2).square()


@pytest.mark.parametrize(("m", "n"), [(250, 500), (500, 250), (30, 200), (200, 30), (1100, 1000)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("kind", KINDS)
def test_quality_on_every_kind_of_matrix(kind, m, n, dtype):
    assert (m * n > AFAR) == (m == 1100)
    A = KINDS[kind](m, n).to(dtype)
    ratio = ours(A).double() / exact(A)
    assert float(ratio.min()) >= 1.005
    assert float(ratio.max()) <= 1.0101


@pytest.mark.parametrize(("m", "n"), EXACT_SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_where_the_plain_one_is_exact_it_is_the_same(m, n, dtype):
    A = drawn(3, m, n, dtype)
    torch.testing.assert_close(ours(A), plain(A), rtol=TOLERANCE[dtype], atol=0)


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_between_the_truth_and_a_hundredth_more(m, n):
    A = drawn(3, m, n, torch.float64)
    ratio = ours(A) / torch.linalg.matrix_norm(A, ord=2).square()
    assert float(ratio.min()) >= 1.006
    assert float(ratio.max()) <= 1.0100001


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_special_matrices(dtype):
    """Zero, of rank one, with equal rows, the identity, orthonormal rows, and of extreme scale."""
    generator = torch.Generator().manual_seed(0)
    column, row = (torch.randn(size, generator=generator, dtype=torch.float64) for size in (20, 30))
    cases = [
        torch.zeros(20, 30),
        torch.outer(column, row),
        row.expand(20, 30),
        torch.eye(20, 30),
        1e15 * torch.eye(20, 30),
        torch.linalg.qr(normal(30, 20)).Q.mT,
    ]
    A = torch.stack([case.to(torch.float64) for case in cases]).to(dtype)
    truth = 1.01 * exact(A)
    torch.testing.assert_close(ours(A).double(), truth, rtol=1e-5 if dtype == torch.float32 else 1e-12, atol=0)
    torch.testing.assert_close(ours(A), plain(A), rtol=TOLERANCE[dtype], atol=0)


def test_alone_it_is_the_same_to_the_bit_and_so_with_any_number_of_threads():
    A = drawn(5, 33, 70, torch.float32)
    threads = torch.get_num_threads()
    together = ours(A)
    try:
        torch.set_num_threads(2)
        assert torch.equal(ours(A), together)
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.cat([ours(A[i : i + 1].contiguous()) for i in range(5)]), together)


EXTREMES = [
    *((torch.float32, size) for size in (1e-44, 1e-38, 1e-30, 1e-18, 1e17, 1e25, 1e38)),
    *((torch.float64, size) for size in (5e-324, 1e-200, 1e-150, 1e150, 1e250)),
]


@pytest.mark.parametrize(("m", "n"), [(20, 30), (30, 20)])
@pytest.mark.parametrize(("dtype", "size"), EXTREMES)
def test_entries_whose_squares_are_lost(m, n, dtype, size):
    """L is right wherever it is a number of that type; else it is 0 or infinite, and not NaN."""
    A = normal(2, m, n).clamp(-1, 1)
    expected = 1.01 * exact(A) * size * size
    tolerance = 1e-5 if dtype == torch.float32 else 1e-12
    torch.testing.assert_close(ours((A * size).to(dtype)), expected.to(dtype), rtol=tolerance, atol=0)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_seen(dtype, value):
    A = torch.zeros(3, 20, 30, dtype=dtype)
    A[0, 3, 4] = value
    A[1, 3, 4] = 2
    found = ours(A)
    assert not found[0].isfinite()
    torch.testing.assert_close(found[1:], torch.tensor([4.04, 0], dtype=dtype), rtol=TOLERANCE[dtype], atol=0)


def test_a_solve_uses_it(monkeypatch):
    called = []
    monkeypatch.setattr(
        cpu_krylov, "call", lambda *given, **numbers: called.append(given[:2]) or _call(*given, **numbers)
    )
    problem = lasso(drawn(2, 20, 60, torch.float32), torch.ones(2, 20), 0.1)
    solve(problem, max_iter=1)
    assert called == [(cpu_krylov.LARGEST, torch.float32)]
    solve(problem, max_iter=1, engine="plain")
    assert len(called) == 1


_call = cpu_krylov.call


@pytest.mark.parametrize(
    "A",
    [torch.ones(2, 40, 3), torch.ones(20, 40).expand(2, 20, 40)],
    ids=["few columns", "repeated"],
)
def test_where_it_does_not_apply(A):
    assert kernels(lasso(A, torch.ones(2, A.shape[1]), 0.1)).largest is None
