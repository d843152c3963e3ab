"""extrapolated.cu against products with A, on a CPU lane by lane (see emulate.h), and a certified solve built on it."""

import pytest
import torch
from emulation import emulated_for, emulated_gram_schmidt, listed, pointer

import sureprox as sp
from sureprox.base.operations import Operations
from sureprox.guarantee import Certified
from sureprox.kernels.lipschitz.gpu_krylov import block_lanczos
from sureprox.kernels.lipschitz.gpu_krylov import builds as lanczos_builds
from sureprox.kernels.products.gpu_extrapolated import builds, extrapolate, extrapolated, look
from sureprox.kernels.runtime import cuda
from sureprox.optimizers import FISTA, GoMathL2O
from sureprox.problems.forms import form_of
from sureprox.sources import LassoFamily


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return emulated_for("emulate_extrapolated.cpp", tmp_path_factory)


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    """`extrapolated` with the emulated kernel in place of the compiled one."""

    def kernel(file, name, macros, device, shared_memory):
        def launch(grid, block, arguments, shared_mem):
            *arrays, batch, m, n, rows = listed(file, name, arguments)
            assert grid == (batch, -(-m // rows), 1)
            assert shared_mem <= shared_memory
            kernels(macros).run(*map(pointer, arrays), batch, m, n, rows, grid[1])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)


@pytest.fixture(scope="module")
def gram_schmidt(tmp_path_factory):
    return emulated_gram_schmidt(tmp_path_factory.mktemp("kernel"))


@pytest.mark.parametrize(
    ("batch", "m", "n", "points"),
    [(2, 90, 500, 3), (1, 1, 4, 3), (2, 17, 8, 2), (3, 300, 128, 3), (140, 3, 512, 1), (3, 60, 36, 3)],
)
def test_emulated_kernel_is_the_products(on_cpu, batch, m, n, points):
    generator = torch.Generator().manual_seed(batch + m + n)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    A, x, before, momentum, b = (
        normal(batch, m, n),
        normal(batch, points, n),
        normal(batch, points, m),
        normal(batch, points),
        normal(batch, m),
    )
    z, w, g = (value.double() for value in extrapolated(A, x, before, momentum, b))
    exact_z = torch.einsum("bmn,bkn->bkm", A.double(), x.double()) - b.double().unsqueeze(1)
    exact_w = exact_z + momentum.double().unsqueeze(2) * (exact_z - before.double())
    exact_g = torch.einsum("bmn,bkm->bkn", A.double(), exact_w)
    for ours, exact in ((z, exact_z), (w, exact_w), (g, exact_g)):
        torch.testing.assert_close(ours, exact, rtol=0, atol=2e-6 * float(exact.abs().max()))


@pytest.mark.parametrize("inner", [GoMathL2O, lambda: FISTA(restart=True)])
@pytest.mark.parametrize("shift", [None, 3.0])
def test_certified_steps_are_the_same(on_cpu, inner, shift):
    generator = torch.Generator().manual_seed(3)
    family = LassoFamily(m=20, n=40, nonzeros=5)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    if shift is not None:
        problem = problem.shifted(shift)
    optimizer = Certified(inner())
    assert builds(form_of(problem), [1, 3])
    plain = optimizer.stack(problem)
    quick = Certified(optimizer.optimizer, Operations(look=look, ahead=extrapolate)).stack(problem)
    ours = theirs = optimizer.init(problem, x0)
    with torch.no_grad():
        for _ in range(12):
            ours, theirs = optimizer.advance(quick, ours), optimizer.advance(plain, theirs)
    for mine, other in ((ours.x, theirs.x), (ours.g, theirs.g), (ours.z, theirs.z)):
        torch.testing.assert_close(mine, other, rtol=1e-4, atol=1e-4)
    assert torch.equal(ours.track, theirs.track)


def test_what_the_kernel_is_not_made_for_stays_as_it_is(on_cpu):
    A, b = torch.randn(3, 6, 8), torch.randn(3, 6)
    problems = [
        sp.lasso(A[0], b, 0.1),  # one A for all
        sp.lasso(A.double(), b.double(), 0.1),
        sp.lasso(A[:, :, :7].contiguous(), b, 0.1),
        sp.logistic(A, (b > 0).float(), 0.1),
    ]
    for problem in problems:
        assert not builds(form_of(problem), [1, 3])
    assert len(builds(form_of(sp.lasso(A, b, 0.1)), [1, 3])) == 2
    assert not builds(form_of(sp.lasso(A, b, 0.1)), [1, 4])


def test_compiled_code_can_hold_the_operation():
    A, x, before = torch.empty(2, 6, 8), torch.empty(2, 3, 8), torch.empty(2, 3, 6)
    given = (A, x, before, torch.empty(2, 3), torch.empty(2, 6))
    torch.library.opcheck(extrapolated, tuple(value.to("meta") for value in given), test_utils=("test_schema",))


@pytest.mark.parametrize("size", [1e-15, 1.0, 1e15])
def test_largest_eigenvalue_from_one_read_per_step(on_cpu, gram_schmidt, size):
    generator = torch.Generator().manual_seed(4)
    A = torch.randn(6, 48, 64, generator=generator)
    A[3] = torch.randn(48, 1, generator=generator) @ torch.randn(1, 64, generator=generator)  # rank one
    A[4] = 0.0
    A[5, :, 1:] = 0.0
    exact = torch.linalg.matrix_norm(A.double(), ord=2).square()
    ours = block_lanczos(size * A, gram_schmidt).double() / size**2
    assert bool((ours <= 1.0101 * exact).all())
    assert bool((ours >= 1.005 * exact).all())
    assert float(ours[4]) == 0.0


def test_largest_eigenvalue_of_an_instance_does_not_depend_on_others(on_cpu, gram_schmidt):
    A = torch.randn(3, 44, 48, generator=torch.Generator().manual_seed(5))
    alone = torch.cat([block_lanczos(part, gram_schmidt) for part in A.split(1)])
    torch.testing.assert_close(block_lanczos(A, gram_schmidt), alone, rtol=1e-6, atol=0)


def test_small_matrices_are_left_to_other_estimates(on_cpu):
    assert lanczos_builds(form_of(sp.lasso(torch.ones(2, 60, 60), torch.ones(2, 60), 0.1)))
    assert not lanczos_builds(form_of(sp.lasso(torch.ones(2, 30, 60), torch.ones(2, 30), 0.1)))
