"""largest.cu against exact eigenvalues, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated_for, listed, pointer, run

from sureprox.kernels.lipschitz.gpu_gram import LONGEST, builds, launch_largest, shared_memory, threads
from sureprox.kernels.runtime import cuda
from sureprox.problems import lasso
from sureprox.problems.forms import form_of
from sureprox.problems.spectrum import SAFETY


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return emulated_for("emulate_largest.cpp", tmp_path_factory)


@pytest.fixture
def on_cpu(monkeypatch, library):
    """The emulated kernel in place of the compiled one."""

    def build(file, name, macros, device, memory):
        made = library(macros)

        def launch(grid, block, arguments, shared_mem):
            *arrays, m, n, steps = listed(file, name, arguments)
            size = min(m, n)
            assert shared_mem == memory == shared_memory(size)
            assert block == (threads(size), 1, 1)
            run(made, shared_mem, *map(pointer, arrays), m, n, steps, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", build)
    monkeypatch.setattr(cuda, "index", lambda device: 0)


def exact(A: torch.Tensor) -> torch.Tensor:
    return torch.linalg.matrix_norm(A.double(), ord=2).square()


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


SHAPES = [(2, 250, 500), (2, 256, 300), (1, 300, 200), (2, 128, 90), (3, 64, 128), (2, 33, 40), (2, 5, 4), (1, 1, 7)]


@pytest.mark.parametrize("shape", SHAPES)
def test_emulated_kernel_finds_the_largest_eigenvalue(on_cpu, shape):
    A = drawn(*shape)
    torch.testing.assert_close(launch_largest(A).double(), SAFETY * exact(A), rtol=1e-4, atol=0)


def autoregressive() -> torch.Tensor:
    place = torch.arange(250.0, dtype=torch.float64)
    root = torch.linalg.cholesky(0.9 ** (place[:, None] - place).abs())
    return (drawn(1, 400, 250).double() @ root.mT).float()


def with_spectrum(eigenvalues: torch.Tensor) -> torch.Tensor:
    return torch.linalg.qr(drawn(1, 250, 250))[0] * eigenvalues.sqrt()


KINDS = {
    "autoregressive": (autoregressive, 1e-4),
    "low rank": (lambda: drawn(1, 250, 5) @ drawn(1, 5, 300) + 1e-3 * drawn(1, 250, 300), 1e-4),
    "binary": (lambda: (drawn(1, 250, 300) > 1.6).float(), 1e-4),
    "geometric": (lambda: with_spectrum(0.999 ** torch.arange(250.0)), 1e-4),
    "equidistant": (lambda: torch.diag_embed(torch.linspace(1, 2, 250).sqrt()).unsqueeze(0), 2e-3),
}


@pytest.mark.parametrize(("made", "shortfall"), KINDS.values(), ids=KINDS)
def test_how_much_48_steps_leave(on_cpu, made, shortfall):
    ratio = float(launch_largest(made())) / (SAFETY * float(exact(made())))
    assert 1 - shortfall <= ratio <= 1 + 1e-5


def test_each_instance_alone(on_cpu, monkeypatch):
    A = drawn(5, 20, 30)
    whole = launch_largest(A)
    monkeypatch.setattr("sureprox.kernels.lipschitz.gpu_gram.ROOM", 2 * 20 * 20)  # two at a time
    assert torch.equal(launch_largest(A), whole)


def test_one_direction_and_orthogonal_rows(on_cpu):
    one = drawn(2, 40, 1) @ drawn(2, 1, 60)
    torch.testing.assert_close(launch_largest(one).double(), SAFETY * exact(one), rtol=1e-5, atol=0)
    rows = torch.linalg.qr(drawn(1, 60, 40))[0].mT.contiguous()
    torch.testing.assert_close(launch_largest(rows), torch.tensor([SAFETY]), rtol=1e-5, atol=0)


@pytest.mark.parametrize("shape", [(1, 20, 30), (1, 30, 20)])
@pytest.mark.parametrize("size", [1e-25, 1e-18, 1e17])
def test_numbers_whose_squares_are_lost(on_cpu, shape, size):
    A = drawn(*shape) * size
    expected = SAFETY * exact(A / size) * size**2
    torch.testing.assert_close(launch_largest(A).double(), expected, rtol=1e-4, atol=1e-44)
    assert (float(launch_largest(A)) > 0) == (size > 1e-20)


def test_zero_matrix_beside_another(on_cpu):
    A = torch.cat([torch.zeros(1, 20, 30), drawn(1, 20, 30)])
    found = launch_largest(A)
    assert float(found[0]) == 0
    torch.testing.assert_close(found[1].double(), SAFETY * exact(A)[1], rtol=1e-4, atol=0)


def test_shared_memory_is_what_the_kernel_uses(library):
    for size in (250, 200, 100, 33, 4):
        tiles = -(-size // 32)
        share = min(16 // tiles, tiles)
        laid = max(0, -(-tiles // share) - 2)
        assert shared_memory(size) == library((("TILES", tiles),)).small() + 4 * 32 * laid * threads(size)


def test_what_it_is_made_for(monkeypatch):
    small, large = (form_of(lasso(torch.ones(1, n, n), torch.ones(1, n), 0.1)) for n in (5, LONGEST + 1))
    assert not builds(small)  # not on a GPU
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: True)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    assert builds(small)
    assert not builds(large)
