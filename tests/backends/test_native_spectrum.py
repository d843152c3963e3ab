"""The estimate of L by the kernel of a CPU against the plain one, and against singular values."""

import pytest
import torch

from sureprox.backends import cpu_krylov
from sureprox.backends.cpu_krylov import largest_eigenvalue
from sureprox.fast import plain_steps
from sureprox.problems import lasso
from sureprox.problems.linear import LinearMap

pytestmark = pytest.mark.usefixtures("native")

SHAPES = [(250, 500), (500, 250), (5, 40), (40, 17), (64, 128), (33, 300), (30, 30), (4, 16), (17, 16), (16, 17)]
TOLERANCE = {torch.float32: 1e-6, torch.float64: 1e-14}


def drawn(batch: int, m: int, n: int, dtype: torch.dtype) -> torch.Tensor:
    generator = torch.Generator().manual_seed(m * n)
    scale = torch.tensor([1e-3, 1.0, 1e4], dtype=torch.float64)[torch.arange(batch) % 3].view(-1, 1, 1)
    return (torch.randn(batch, m, n, generator=generator, dtype=torch.float64) * scale).to(dtype)


def ours(A: torch.Tensor) -> torch.Tensor:
    found = largest_eigenvalue(A)
    assert found is not None
    return found


def plain(A: torch.Tensor) -> torch.Tensor:
    with plain_steps():
        return LinearMap(A).gram_norm(len(A))


@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("dtype", TOLERANCE)
def test_it_is_the_plain_one(m, n, dtype):
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
    """Zero, of rank one, with equal rows, the identity, and of extreme scale."""
    generator = torch.Generator().manual_seed(0)
    column, row = (torch.randn(size, generator=generator, dtype=torch.float64) for size in (20, 30))
    cases = [
        torch.zeros(20, 30),
        torch.outer(column, row),
        row.expand(20, 30),
        torch.eye(20, 30),
        1e15 * torch.eye(20, 30),
    ]
    A = torch.stack([case.to(torch.float64) for case in cases]).to(dtype)
    truth = 1.01 * torch.linalg.matrix_norm(A.double(), ord=2).square()
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
    basis = [ours(A[i : i + 1].contiguous()) for i in range(5)]
    torch.testing.assert_close(torch.cat(basis), together, rtol=1e-6, atol=0)  # what follows the kernel is PyTorch's


def test_a_solve_uses_it(monkeypatch):
    called = []
    monkeypatch.setattr(
        cpu_krylov, "call", lambda *given, **numbers: called.append(given[0]) or _call(*given, **numbers)
    )
    problem = lasso(drawn(2, 20, 60, torch.float32), torch.ones(2, 20), 0.1)
    with torch.no_grad():
        problem.step_size()
    assert called == ["krylov_float"]
    with plain_steps(), torch.no_grad():
        problem.step_size()
    assert len(called) == 1
    problem.step_size()  # no gradient flows through it, whether they are on or not
    assert len(called) == 2


_call = cpu_krylov.call


@pytest.mark.parametrize(
    "A",
    [torch.ones(2, 3, 40), torch.ones(2, 40, 3), torch.ones(2, 40, 20).mT],
    ids=["few rows", "few columns", "strided"],
)
def test_where_it_does_not_apply(A):
    assert largest_eigenvalue(A) is None
