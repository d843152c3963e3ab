"""certificate.cu against plain certificates in float64, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated_for, listed, pointer, run

import sureprox as sp
from sureprox.kernels.certificate.gpu import builds, launch_certificate
from sureprox.kernels.runtime import cuda
from sureprox.problems import Problem
from sureprox.problems.forms import form_of

NAMES = ("objective", "gap", "kkt", "grad")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return emulated_for("emulate_certificate.cpp", tmp_path_factory)


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    """The emulated kernel in place of the compiled one."""

    def kernel(file, name, macros, device, shared_memory):
        def launch(grid, block, arguments, shared_mem):
            *arrays, m, n, matrices = listed(file, name, arguments)
            assert shared_mem <= shared_memory
            run(kernels(macros), shared_mem, *map(pointer, arrays), m, n, matrices, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "index", lambda device: 0)


def drawn(batch: int, m: int, n: int, dtype: torch.dtype, shared: bool = False) -> Problem:
    generator = torch.Generator().manual_seed(m + n)
    A = torch.randn(*(() if shared else (batch,)), m, n, generator=generator)
    b, lam = torch.randn(batch, m, generator=generator), 0.1 + torch.rand(batch, generator=generator)
    return sp.lasso(A.to(dtype), b.to(dtype), lam.to(dtype))


def seen(problem: Problem, x: torch.Tensor) -> dict[str, torch.Tensor]:
    f = problem.f
    numbers, gradient = launch_certificate(f.A, f.b, problem.r.lam, x)
    return dict(zip(NAMES, (*numbers.unbind(1), gradient), strict=True))


def check(problem: Problem, x: torch.Tensor) -> None:
    exact, ours = problem.to(dtype=torch.float64).certificate(x), seen(problem, x)
    for name in NAMES:
        torch.testing.assert_close(ours[name], getattr(exact, name), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("batch", "m", "n"), [(2, 40, 500), (1, 1, 4), (3, 17, 8), (2, 70, 128), (2, 9, 512)])
def test_emulated_kernel_is_the_certificate(on_cpu, batch, m, n, dtype):
    problem = drawn(batch, m, n, dtype)
    x = torch.randn(batch, n, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    check(problem, x * (x.abs() > 1))
    check(problem, x)
    check(problem, torch.zeros_like(x))


def test_one_matrix_for_all(on_cpu):
    problem = drawn(3, 16, 32, torch.float64, shared=True)
    check(problem, torch.randn(3, 32, dtype=torch.float64, generator=torch.Generator().manual_seed(2)))


def test_at_the_solution_the_gap_vanishes(on_cpu):
    problem = drawn(2, 12, 20, torch.float64)
    best = sp.reference(problem)
    ours = seen(problem, best.x)
    assert bool((ours["gap"] <= 1e-11 * best.objective).all())
    assert bool((ours["kkt"] <= 1e-6).all())


def test_a_problem_without_penalty_or_without_residual(on_cpu):
    problem = drawn(2, 5, 8, torch.float64)
    free = sp.lasso(problem.f.A, problem.f.b, torch.tensor([0.0, 0.5], dtype=torch.float64))
    x = torch.randn(2, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    check(free, x)
    A, whole = problem.f.A.round(), x.round()  # whole numbers, so that the residual is exactly zero
    check(sp.lasso(A, (A @ whole.unsqueeze(2)).squeeze(2), 0.3), whole)
    check(sp.lasso(problem.f.A, torch.zeros_like(problem.f.b), 0.3), torch.zeros_like(x))


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_what_is_not_a_number_is_not_hidden(on_cpu, bad):
    problem = drawn(2, 6, 8, torch.float32)
    x = torch.ones(2, 8, dtype=torch.float64)
    x[1, 3] = bad
    ours = seen(problem, x)
    assert all(bool(torch.isfinite(value[0]).all()) for value in ours.values())
    assert not any(bool(torch.isfinite(value[1]).any()) for value in ours.values())


@pytest.mark.parametrize(
    ("A", "fit"),
    [
        (torch.ones(2, 6, 8), True),
        (torch.ones(6, 512, dtype=torch.float64), True),
        (torch.ones(2, 6, 10), False),  # no multiple of 4
        (torch.ones(2, 6, 516), False),
        (torch.ones(6, 8).expand(2, 6, 8), False),  # not in one piece
    ],
    ids=["float32", "shared, float64", "10 columns", "516 columns", "repeated"],
)
def test_matrices_that_the_kernel_is_made_for(monkeypatch, A, fit):
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: True)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    problem = sp.lasso(A, torch.ones(2, A.shape[-2], dtype=A.dtype), 0.1)
    assert bool(builds(form_of(problem))) is fit
    assert not builds(form_of(sp.logistic(A, torch.ones(2, A.shape[-2], dtype=A.dtype), 0.1)))
