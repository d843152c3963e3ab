"""normal.cu against two products with A, run on a CPU lane by lane (see emulate.h), with what is built on it."""

from dataclasses import replace

import pytest
import torch
from emulation import emulated_for, listed, pointer

from sureprox.kernels.products import gpu_gradient as normal
from sureprox.kernels.products.gpu_gradient import normal_map
from sureprox.kernels.runtime import cuda
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.problems.forms import form_of


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return emulated_for("emulate_normal.cpp", tmp_path_factory)


def instances(batch: int, m: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch + m + n)
    return (
        torch.randn(batch, m, n, generator=generator),
        torch.randn(batch, n, generator=generator),
        torch.randn(batch, m, generator=generator),
    )


@pytest.mark.parametrize(
    ("batch", "m", "n", "rows"),
    [(2, 90, 500, 75), (1, 1, 4, 1), (2, 300, 8, 300), (1, 400, 128, 300), (2, 50, 1024, 50), (1, 40, 300, 13)],
)
@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("with_b", [True, False])
def test_emulated_kernel_is_two_products(kernels, batch, m, n, rows, late, with_b):
    """However early or late the copies of A land."""
    A, x, b = instances(batch, m, n)
    blocks = -(-m // rows)
    partial, values = torch.full((blocks, batch, n), torch.nan), torch.full((blocks, batch), torch.nan)
    given = pointer(b if with_b else None)
    kernel = kernels(normal.shape_of(n, 1))
    kernel.copies_land_late(int(late))
    kernel.run(pointer(A), pointer(x), given, pointer(partial), pointer(values), batch, m, n, rows, blocks)
    residual = torch.einsum("bmn,bn->bm", A.double(), x.double()) - (b.double() if with_b else 0)
    gradient = torch.einsum("bmn,bm->bn", A.double(), residual)
    scale = float(gradient.abs().max())
    torch.testing.assert_close(partial.sum(0).double(), gradient, rtol=0, atol=2e-6 * scale)
    torch.testing.assert_close(values.sum(0).double(), residual.square().sum(1) / 2, rtol=1e-5, atol=0)


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    """`normal_map` with the emulated kernel in place of the compiled one."""

    def kernel(file, name, macros, device, shared_memory):
        def launch(grid, block, arguments, shared_mem):
            *arrays, batch, m, n, rows = listed(file, name, arguments)
            assert grid == (batch, -(-m // rows), 1)
            assert shared_mem <= shared_memory
            given = [pointer(array) for array in arrays]
            kernels(macros).run(*given, batch, m, n, rows, grid[1])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)


def test_value_and_gradient_with_their_derivatives(on_cpu):
    A, x, b = instances(3, 20, 40)
    problem = Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=torch.tensor(0.1)))
    exact = LeastSquares.trusted(A=A.double(), b=b.double())
    x = x.requires_grad_()
    x64 = x.detach().double().requires_grad_()
    value, gradient = normal.observe(problem, x)
    assert torch.equal(normal.gradient(problem, x), gradient)
    value64, gradient64 = exact.value_and_grad(x64)
    torch.testing.assert_close(value.double(), value64, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), gradient64, rtol=1e-4, atol=1e-4)
    u, w = torch.randn(3, 40), torch.randn(3)
    back = torch.autograd.grad((u * gradient).sum() + (w * value).sum(), x)[0]
    back64 = torch.autograd.grad((u.double() * gradient64).sum() + (w.double() * value64).sum(), x64)[0]
    torch.testing.assert_close(back.double(), back64, rtol=1e-4, atol=1e-3)


def test_only_dense_float32_least_squares_with_own_matrices_is_replaced(on_cpu):
    A, _, b = instances(3, 20, 40)
    lam = torch.full((3,), 0.1)

    def problem(A, b):
        return Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=lam.to(A.dtype)))

    assert normal.builds(form_of(problem(A, b)))
    for other in (problem(A[0], b), problem(A.double(), b.double()), problem(A[:, :, :39].contiguous(), b)):
        assert not normal.builds(form_of(other))


def test_small_batches_are_cut_finer_so_that_the_device_is_filled(on_cpu):
    assert normal.rows_per_block(1024, 250, 0) == 250
    assert normal.rows_per_block(128, 250, 0) == 125
    assert normal.rows_per_block(1, 250, 0) == 8
    assert normal.rows_per_block(1, 4, 0) == 4


@pytest.mark.parametrize("n", [4, 36, 128, 300, 500, 512, 516, 1020, 1024])
@pytest.mark.parametrize("points", [1, 3])
def test_two_blocks_fit_on_a_multiprocessor_and_copies_are_under_way(n, points):
    sizes = dict(normal.shape_of(n, points))
    assert 2 * (normal.shared_memory(n, points) + 1024) <= 233_472  # of an H100 or H200, which keeps 1 KB of each block
    under_way = 2 * (sizes["STAGES"] - 1) * sizes["TURNS"] * normal.WARPS * 4 * n
    assert under_way >= (64_000 if n >= 64 else 16_000)


def test_numbers_that_do_not_start_at_a_multiple_of_16_bytes(on_cpu):
    A, x, b = instances(3, 20, 40)
    moved = torch.cat([torch.zeros(1), x.reshape(-1)])[1:].view_as(x)
    assert moved.data_ptr() % 16
    for mine, other in zip(normal_map(A, moved, b, True), normal_map(A, x, b, True), strict=True):
        assert torch.equal(mine, other)
    form = form_of(Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=torch.tensor(0.1))))
    assert not normal.builds(replace(form, contiguous=False))


def test_compiled_code_can_hold_the_operation():
    A, x, b = instances(2, 6, 8)
    given = (A.to("meta"), x.to("meta"), b.to("meta"), True)
    torch.library.opcheck(normal_map, given, test_utils=("test_schema",))
