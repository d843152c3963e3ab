"""lasso_polish.cu against the polish in plain PyTorch, run on a CPU lane by lane (see emulate.h)."""

import pytest
import torch
from emulation import emulated_for, listed, pointer, run

import sureprox as sp
from sureprox.kernels.runtime import cuda
from sureprox.kernels.support.gpu_polish import PIECES, SIDE, launch_polish, points, shared_memory
from sureprox.support.newton import Attempt, widths


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return emulated_for("emulate_lasso_polish.cpp", tmp_path_factory)


@pytest.fixture
def on_cpu(monkeypatch, library):
    """The emulated kernel in place of the compiled one."""

    def build(file, name, macros, device, memory):
        made = library(macros)
        assert memory == made.shared()

        def launch(grid, block, arguments, shared_mem):
            *arrays, m, n, rounds = listed(file, name, arguments)
            run(made, shared_mem, *map(pointer, arrays), m, n, rounds, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", build)
    monkeypatch.setattr(cuda, "index", lambda device: 0)


def attempt(m: int, n: int, ratio: float, seed: int, rows: list[int], spoiled: int = 3, flipped: int = 1) -> Attempt:
    """The solutions of random problems, some coordinates of which came in, left, or changed their sign."""
    batch = 3
    generator = torch.Generator().manual_seed(seed)
    A = torch.randn(batch, m, n, generator=generator)
    b = torch.randn(batch, m, generator=generator)
    lam = ratio * (A.mT @ b.unsqueeze(2)).squeeze(2).abs().amax(1)
    problem = sp.lasso(A, b, lam)
    index = torch.tensor(rows)
    x = sp.reference(problem, 1e-10).x[index]
    for row in x:
        for change in (0.0, 0.3, -0.2)[:spoiled]:
            row[torch.randperm(n, generator=generator)[:2]] = change
        support = row.nonzero()[:, 0]
        row[support[:flipped]] *= -1
    g = problem.to(dtype=torch.float64).select(index).grad(x)
    return Attempt(problem, x, g, index)


def twice(given: Attempt) -> torch.Tensor:
    """The plain polish, and once more from there: at a point where nothing should change nothing does."""
    x = given.points()
    g = given.problem.to(dtype=torch.float64).select(given.rows).grad(x)
    return Attempt(given.problem, x, g, given.rows).points()


def pieces_for(given: Attempt) -> int:
    f = given.problem.f
    most = int(widths((given.x != 0).sum(1), f.m, given.problem.n).max())
    return next(pieces for pieces in PIECES if most < SIDE * pieces)


@pytest.mark.parametrize(
    ("m", "n", "ratio", "pieces"),
    [(40, 60, 0.1, 4), (60, 30, 0.02, 4), (120, 250, 0.1, 7), (200, 300, 0.12, 10), (33, 512, 0.3, 4), (9, 4, 0.5, 4)],
)
def test_emulated_kernel_is_the_polish(on_cpu, m, n, ratio, pieces):
    given = attempt(m, n, ratio, seed=m + n, rows=[2, 0])
    assert pieces_for(given) == pieces
    ours = launch_polish(given.problem.f.A, given.problem.r.lam, given, pieces)
    torch.testing.assert_close(ours, twice(given), rtol=1e-8, atol=1e-10)
    assert bool((ours != given.x).any(1).all())


def test_a_coordinate_that_was_no_candidate_joins(on_cpu):
    """The support of an optimum is empty at the start, and only the eight steepest coordinates are candidates."""
    given = attempt(40, 60, 0.1, seed=7, rows=[0, 1, 2], spoiled=0)
    x = torch.zeros_like(given.x)
    exact = given.problem.to(dtype=torch.float64)
    given = Attempt(given.problem, x, exact.grad(x), given.rows)
    once, ours = given.points(), launch_polish(given.problem.f.A, given.problem.r.lam, given, 4)
    assert bool(((once - ours).abs().amax(1) > 1e-3).all())
    torch.testing.assert_close(ours, twice(given), rtol=1e-8, atol=1e-10)
    assert bool((exact.objective(ours) < exact.objective(once)).all())


def test_more_room_than_needed_changes_nothing(on_cpu):
    given = attempt(40, 60, 0.1, seed=5, rows=[0, 1, 2])
    found = [launch_polish(given.problem.f.A, given.problem.r.lam, given, pieces) for pieces in PIECES]
    torch.testing.assert_close(found[1], found[0], rtol=1e-12, atol=1e-13)
    torch.testing.assert_close(found[2], found[0], rtol=1e-12, atol=1e-13)


def test_a_support_that_is_right_takes_one_round(on_cpu, monkeypatch):
    monkeypatch.setattr("sureprox.kernels.support.gpu_polish.ROUNDS", 1)
    monkeypatch.setattr("sureprox.support.newton.ROUNDS", 1)
    exact = attempt(40, 60, 0.1, seed=6, rows=[1], spoiled=0, flipped=0)
    x = 1.001 * exact.x
    g = exact.problem.to(dtype=torch.float64).select(exact.rows).grad(x)
    given = Attempt(exact.problem, x, g, exact.rows)
    plain, ours = given.points(), launch_polish(given.problem.f.A, given.problem.r.lam, given, 4)
    torch.testing.assert_close(ours, plain, rtol=1e-9, atol=1e-11)
    torch.testing.assert_close(ours, exact.x, rtol=1e-6, atol=1e-7)


def test_what_cannot_be_computed_stays(on_cpu):
    """More coordinates than rows, a column of zeros; and lam = 0, where all coordinates are in the support."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(3, 20, 30, generator=generator)
    A[1, :, 1] = 0
    b, lam = torch.randn(3, 20, generator=generator), torch.tensor([1.0, 1.0, 0.0])
    problem = sp.lasso(A, b, lam)
    x = torch.zeros(3, 30, dtype=torch.float64)
    x[0, :25], x[1, :5], x[2, 3] = 1.0, 1.0, 1.0
    given = Attempt(problem, x, problem.to(dtype=torch.float64).grad(x), torch.arange(3))
    assert torch.equal(launch_polish(A, lam, given, 4), x)
    assert torch.equal(given.points(), x)


def test_least_squares_without_a_penalty(on_cpu):
    generator = torch.Generator().manual_seed(1)
    A, b = torch.randn(2, 50, 12, generator=generator), torch.randn(2, 50, generator=generator)
    problem = sp.lasso(A, b, 0.0)
    x = torch.zeros(2, 12, dtype=torch.float64)
    given = Attempt(problem, x, problem.to(dtype=torch.float64).grad(x), torch.arange(2))
    exact = torch.linalg.lstsq(A.double(), b.double().unsqueeze(2)).solution[:, :, 0]
    torch.testing.assert_close(launch_polish(A, problem.r.lam, given, 4), exact, rtol=1e-9, atol=1e-11)


def test_supports_too_large_for_it_are_left_to_others(on_cpu, monkeypatch):
    """An instance with 150 coordinates in its support beside two with few."""
    given = attempt(250, 300, 0.1, seed=8, rows=[0, 1, 2])
    x = given.x.clone()
    x[1, :150] = 1.0
    given = Attempt(given.problem, x, given.problem.to(dtype=torch.float64).grad(x), given.rows)
    monkeypatch.setattr("sureprox.kernels.support.gpu_polish.sizes", lambda device: [4, 7])
    found = points(given)
    assert int(widths((x != 0).sum(1), 250, 300)[1]) >= 7 * SIDE
    assert torch.equal(found[1], given.plain()[1])
    torch.testing.assert_close(found[::2], twice(given)[::2], rtol=1e-8, atol=1e-10)


def test_what_it_is_made_for(library):
    for pieces in PIECES:
        assert shared_memory(pieces) == library((("PIECES", pieces),)).shared() <= 227 * 1024
