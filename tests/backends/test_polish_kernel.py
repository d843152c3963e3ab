"""polish.cu against the active set method in plain PyTorch, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated, listed, pointer, run

from sureprox.kernels.runtime import cuda
from sureprox.kernels.support.gpu_active_set import WIDEST, active_set, launch_active_set, shared_memory
from sureprox.support.newton import SLACK, Candidates


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return emulated("emulate_polish.cpp", {}, tmp_path_factory.mktemp("kernel"))


@pytest.fixture
def on_cpu(monkeypatch, library):
    """The emulated kernel in place of the compiled one."""

    def launch(grid, block, arguments, shared_mem):
        *arrays, width, rounds = listed("support/polish.cu", "active_set", arguments)
        run(library, shared_mem, *map(pointer, arrays), width, rounds, grid[0])

    monkeypatch.setattr(cuda, "kernel", lambda *build: launch)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "shared_memory", lambda device: 232_448)


def drawn(batch: int, m: int, width: int, seed: int, share: float = 0.3, lam: float = 1.0) -> Candidates:
    """Points whose supports are off in a few coordinates, on random problems."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    A, b, x = normal(batch, m, width), 3 * normal(batch, m), normal(batch, width)
    on = torch.rand(batch, width, generator=generator) < share
    x = x * on
    g = (A.mT @ (A @ x.unsqueeze(2) - b.unsqueeze(2))).squeeze(2)
    weights = lam * (0.5 + torch.rand(batch, width, generator=generator, dtype=torch.float64))
    limit = (weights * (1 + SLACK)).masked_fill(torch.rand(batch, width, generator=generator) < 0.1, torch.inf)
    return Candidates(A.mT @ A, x, g, weights, -weights * x.sign(), limit, on)


@pytest.mark.parametrize(
    ("batch", "m", "width", "share"),
    [(4, 60, 20, 0.3), (2, 300, 100, 0.6), (1, 5, 1, 1.0), (3, 40, 33, 0.0), (1, 400, 160, 0.9), (2, 50, 32, 1.0)],
)
@pytest.mark.parametrize("lam", [0.5, 30.0])
def test_emulated_kernel_is_the_active_set_method(on_cpu, batch, m, width, share, lam):
    given = drawn(batch, m, width, seed=batch + width, share=share, lam=lam)
    plain = given.active_set()
    torch.testing.assert_close(launch_active_set(given), plain, rtol=1e-9, atol=1e-10)
    assert bool(torch.isfinite(plain).all())


def test_many_candidates(on_cpu):
    given = drawn(1, 500, WIDEST, seed=5, share=1.0, lam=0.5)  # all of them in the support
    torch.testing.assert_close(launch_active_set(given), given.active_set(), rtol=1e-9, atol=1e-10)


def test_dependent_columns_give_what_is_not_a_number(on_cpu):
    given = drawn(3, 40, 12, seed=7, share=1.0)
    gram = given.gram.clone()
    gram[1] = 0.0
    ours = launch_active_set(Candidates(gram, given.x, given.g, given.lam, given.pull, given.limit, given.on))
    assert torch.isnan(ours).any(1).tolist() == [False, True, False]
    torch.testing.assert_close(ours[[0, 2]], given.active_set()[[0, 2]], rtol=1e-9, atol=1e-10)


def test_it_fits_into_shared_memory():
    assert shared_memory(WIDEST) <= 227 * 1024


def test_too_many_candidates_go_the_plain_way(on_cpu, monkeypatch):
    given = drawn(2, 60, 20, seed=3)
    monkeypatch.setattr("sureprox.kernels.support.gpu_active_set.WIDEST", 19)
    assert torch.equal(active_set(given), given.active_set())
