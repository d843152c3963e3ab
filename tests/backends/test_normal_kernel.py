"""normal.cu against two products with A, run on a CPU lane by lane (see emulate.h), with what is built on it."""

import pytest
import torch
from emulation import emulated, pointer

from sureprox.backends import cuda, normal
from sureprox.backends.normal import EXTRA, NormalLeastSquares, faster, normal_map
from sureprox.problems import L1, LeastSquares, Problem


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    made = {}

    def kernel(chunks: int):
        if chunks not in made:
            made[chunks] = emulated("emulate_normal.cpp", {"CHUNKS": chunks}, tmp_path_factory.mktemp("kernel"))
        return made[chunks]

    return kernel


def instances(batch: int, m: int, n: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(batch + m + n)
    return (
        torch.randn(batch, m, n, generator=generator),
        torch.randn(batch, n, generator=generator),
        torch.randn(batch, m, generator=generator),
    )


@pytest.mark.parametrize(
    ("batch", "m", "n", "rows"),
    [(2, 25, 500, 10), (1, 1, 4, 1), (2, 17, 8, 17), (1, 40, 128, 33), (1, 9, 1024, 4), (1, 5, 1028, 5)],
)
@pytest.mark.parametrize("with_b", [True, False])
def test_emulated_kernel_is_two_products(kernels, batch, m, n, rows, with_b):
    A, x, b = instances(batch, m, n)
    blocks = -(-m // rows)
    partial = torch.full((blocks, batch, n + EXTRA), torch.nan)
    given = pointer(b if with_b else None)
    kernels(-(-n // 128)).normal(pointer(A), pointer(x), given, pointer(partial), batch, m, n, rows, blocks)
    out = partial.sum(0).double()
    residual = torch.einsum("bmn,bn->bm", A.double(), x.double()) - (b.double() if with_b else 0)
    gradient = torch.einsum("bmn,bm->bn", A.double(), residual)
    scale = float(gradient.abs().max())
    torch.testing.assert_close(out[:, :n], gradient, rtol=0, atol=2e-6 * scale)
    torch.testing.assert_close(out[:, n], residual.square().sum(1) / 2, rtol=1e-5, atol=0)
    assert (out[:, n + 1 :] == 0).all()


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    """`normal_map` with the emulated kernel in place of the compiled one."""

    def kernel(file, name, macros, device, shared_memory):
        def launch(grid, block, arguments, shared_mem):
            A, x, b, partial, batch, m, n, rows = arguments
            assert grid == (-(-m // rows), batch, 1)
            assert shared_mem <= shared_memory
            given = pointer(b if b.numel() else None)
            made = kernels(dict(macros)["CHUNKS"])
            made.normal(pointer(A), pointer(x), given, pointer(partial), batch, m, n, rows, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(normal, "_null", lambda device: torch.empty(0))
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)


def test_value_and_gradient_with_their_derivatives(on_cpu):
    A, x, b = instances(3, 20, 40)
    ours = NormalLeastSquares.trusted(A=A, b=b)
    exact = LeastSquares.trusted(A=A.double(), b=b.double())
    x = x.requires_grad_()
    x64 = x.detach().double().requires_grad_()
    value, gradient = ours.value_and_grad(x)
    value64, gradient64 = exact.value_and_grad(x64)
    torch.testing.assert_close(value.double(), value64, rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient.double(), gradient64, rtol=1e-4, atol=1e-4)
    u, w = torch.randn(3, 40), torch.randn(3)
    back = torch.autograd.grad((u * gradient).sum() + (w * value).sum(), x)[0]
    back64 = torch.autograd.grad((u.double() * gradient64).sum() + (w.double() * value64).sum(), x64)[0]
    torch.testing.assert_close(back.double(), back64, rtol=1e-4, atol=1e-3)
    step = torch.full((3, 1), 0.01)
    torch.testing.assert_close(ours.gradient_step(x, step).double(), x64 - 0.01 * gradient64, rtol=1e-5, atol=1e-5)


def test_only_dense_float32_least_squares_with_own_matrices_is_replaced(on_cpu):
    A, _, b = instances(3, 20, 40)
    lam = torch.full((3,), 0.1)

    def problem(A, b):
        return Problem(LeastSquares.trusted(A=A, b=b), L1.trusted(lam=lam.to(A.dtype)))

    quick = faster(problem(A, b))
    assert isinstance(quick.f, NormalLeastSquares)
    assert all(mine is other for mine, other in zip(quick.tensors(), (A, b, lam), strict=True))
    for other in (problem(A[0], b), problem(A.double(), b.double()), problem(A[:, :, :39].contiguous(), b)):
        assert faster(other) is other


def test_small_batches_are_cut_finer_so_that_the_device_is_filled(on_cpu):
    assert normal.rows_per_block(1024, 250, 500, 0) == 50
    assert normal.rows_per_block(1, 250, 500, 0) == 8
    assert normal.rows_per_block(1, 4, 500, 0) == 4


def test_compiled_code_can_hold_the_operation():
    A, x, b = instances(2, 6, 8)
    torch.library.opcheck(normal_map, (A.to("meta"), x.to("meta"), b.to("meta")), test_utils=("test_schema",))
