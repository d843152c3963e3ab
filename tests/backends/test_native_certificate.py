"""Certificates by the kernel of a CPU against plain ones in float64."""

import pytest
import torch

import sureprox as sp
from engines import kernels
from sureprox.kernels.certificate import cpu as cpu_certificate
from sureprox.problems import Problem
from sureprox.problems.problem import Certificate

pytestmark = pytest.mark.usefixtures("native")

NAMES = ("objective", "gap", "kkt", "grad")
SHAPES = [(3, 250, 500), (1, 1, 16), (3, 17, 33), (2, 70, 128), (2, 4, 40), (2, 5, 39), (5, 3, 16)]


def drawn(batch: int, m: int, n: int, dtype: torch.dtype) -> Problem:
    generator = torch.Generator().manual_seed(m + n)
    A, b = torch.randn(batch, m, n, generator=generator), torch.randn(batch, m, generator=generator)
    lam = 0.1 + torch.rand(batch, generator=generator)
    return sp.lasso(A.to(dtype), b.to(dtype), lam.to(dtype))


def point(batch: int, n: int) -> torch.Tensor:
    x = torch.randn(batch, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    return x * (x.abs() > 1)


@torch.no_grad()
def quick(problem: Problem, x: torch.Tensor) -> Certificate:
    return kernels(problem).certificate(problem, x)


def check(problem: Problem, x: torch.Tensor) -> None:
    exact, ours = problem.to(dtype=torch.float64).certificate(x), quick(problem, x)
    for name in NAMES:
        torch.testing.assert_close(getattr(ours, name), getattr(exact, name), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "m", "n"), SHAPES)
def test_it_is_the_certificate(batch, m, n, dtype):
    problem = drawn(batch, m, n, dtype)
    for x in (point(batch, n), 10 * point(batch, n) + 1, torch.zeros(batch, n, dtype=torch.float64)):
        check(problem, x)


def test_moved_and_one_penalty_for_all():
    problem = drawn(3, 20, 40, torch.float32)
    check(problem.shifted(torch.linspace(-1, 1, 40)), point(3, 40))
    check(sp.lasso(problem.f.A, problem.f.b, 0.3), point(3, 40))


def test_a_problem_without_penalty_or_without_residual():
    problem = drawn(2, 5, 16, torch.float64)
    check(sp.lasso(problem.f.A, problem.f.b, torch.tensor([0.0, 0.5], dtype=torch.float64)), point(2, 16))
    A, whole = problem.f.A.round(), point(2, 16).round()  # whole numbers, so that the residual is exactly zero
    check(sp.lasso(A, (A @ whole.unsqueeze(2)).squeeze(2), 0.3), whole)
    check(sp.lasso(problem.f.A, torch.zeros_like(problem.f.b), 0.3), torch.zeros_like(whole))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_not_hidden(bad):
    x = torch.ones(2, 16, dtype=torch.float64)
    x[1, 3] = bad
    ours = quick(drawn(2, 6, 16, torch.float32), x)
    assert all(bool(torch.isfinite(getattr(ours, name)[0]).all()) for name in NAMES)
    assert not any(bool(torch.isfinite(getattr(ours, name)[1]).any()) for name in NAMES)


def test_neither_the_neighbours_nor_the_threads_change_a_bit():
    problem, x = drawn(5, 30, 50, torch.float32), point(5, 50)
    whole, threads = quick(problem, x), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        parts = [quick(problem.select(torch.tensor([i])), x[i : i + 1]) for i in range(5)]
    finally:
        torch.set_num_threads(threads)
    for name in NAMES:
        assert torch.equal(torch.cat([getattr(part, name) for part in parts]), getattr(whole, name))


def test_a_solve_uses_it_and_needs_no_copy_of_a_in_float64(monkeypatch):
    called = []
    monkeypatch.setattr(
        cpu_certificate, "call", lambda *given, **numbers: called.append(given[:2]) or _call(*given, **numbers)
    )
    problem = drawn(20, 30, 500, torch.float32)
    monkeypatch.setattr(Problem, "to", lambda *_, **__: pytest.fail("A was copied"))
    solution = sp.solve(problem, max_iter=999)  # by iterations
    assert bool(solution.converged.all())
    assert set(called) == {(cpu_certificate.CERTIFICATE, torch.float32)}
    monkeypatch.undo()
    plain = sp.solve(problem, engine="plain")
    torch.testing.assert_close(solution.objective, plain.objective, rtol=1e-5, atol=0)


_call = cpu_certificate.call


@pytest.mark.parametrize(
    "A",
    [torch.ones(3, 20), torch.ones(2, 3, 15), torch.ones(16, 20).expand(2, 16, 20)],
    ids=["shared", "few columns", "repeated"],
)
def test_what_it_is_not_made_for(A):
    assert kernels(sp.lasso(A, torch.ones(2, A.shape[-2]), 0.1)).certificate is None
