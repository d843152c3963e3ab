"""The polish by the kernel of a CPU against the plain one."""

from dataclasses import replace

import pytest
import torch

import sureprox as sp
from engines import kernels
from sureprox.kernels.support import cpu as cpu_polish
from sureprox.support.newton import Attempt

pytestmark = pytest.mark.usefixtures("native")


def attempt(m: int, n: int, ratio: float, dtype: torch.dtype, seed: int = 0) -> Attempt:
    """The solutions of random problems, some coordinates of which came in, left, or changed their sign."""
    generator = torch.Generator().manual_seed(seed + m + n)
    A, b = torch.randn(4, m, n, generator=generator), torch.randn(4, m, generator=generator)
    lam = ratio * (A.mT @ b.unsqueeze(2)).squeeze(2).abs().amax(1)
    problem, rows = sp.lasso(A.to(dtype), b.to(dtype), lam.to(dtype)), torch.tensor([3, 0, 2])
    x = sp.reference(problem, 1e-10).x[rows]
    for row in x:
        row[torch.randperm(n, generator=generator)[:3]] = torch.tensor([0.0, 0.3, -0.2], dtype=torch.float64)
        row[row.nonzero()[:1, 0]] *= -1
    return given(problem, x, rows)


def given(problem: sp.Problem, x: torch.Tensor, rows: torch.Tensor) -> Attempt:
    return Attempt(problem, x, problem.to(dtype=torch.float64).select(rows).grad(x), rows)


def ours(made: Attempt) -> torch.Tensor:
    return cpu_polish.points(made)


def twice(made: Attempt) -> torch.Tensor:
    """The plain polish, and once more from there: at a point where nothing should change nothing does."""
    return given(made.problem, made.plain(), made.rows).plain()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("m", "n", "ratio"),
    [(40, 60, 0.1), (60, 30, 0.02), (120, 250, 0.1), (200, 300, 0.05), (33, 512, 0.3), (30, 16, 0.5), (250, 500, 0.08)],
)
def test_it_is_the_polish(m, n, ratio, dtype):
    made = attempt(m, n, ratio, dtype)
    found = ours(made)
    torch.testing.assert_close(found, twice(made), rtol=1e-8, atol=1e-10)
    assert bool((found != made.x).any(1).all())
    assert torch.equal(replace(made, operations=kernels(made.problem)).points(), found)  # it is what a solve uses


def test_neither_the_neighbours_nor_the_threads_change_a_bit():
    made, threads = attempt(120, 250, 0.1, torch.float32), torch.get_num_threads()
    whole = ours(made)
    try:
        torch.set_num_threads(1)
        parts = [ours(made.select(torch.tensor([i]))) for i in range(3)]
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(torch.cat(parts), whole)


def test_points_and_gradients_of_any_precision():
    made = attempt(40, 60, 0.1, torch.float32)
    coarse = Attempt(made.problem, made.x.float(), made.g.float(), made.rows)
    exact = Attempt(made.problem, made.x.float().double(), made.g.float().double(), made.rows)
    assert torch.equal(ours(coarse), ours(exact))
    assert coarse.divided(torch.tensor([True, False, True]), ours).dtype == torch.float64


def test_gradients_that_are_not_numbers_do_no_harm():
    made = attempt(40, 60, 0.1, torch.float32)
    g = torch.full_like(made.g, torch.nan)
    assert torch.equal(ours(Attempt(made.problem, made.x, g, made.rows)), made.x)


def test_a_coordinate_that_was_no_candidate_joins():
    made = attempt(40, 60, 0.1, torch.float64)
    empty = given(made.problem, torch.zeros_like(made.x), made.rows)
    once, found = empty.plain(), ours(empty)
    assert bool(((once - found).abs().amax(1) > 1e-3).all())
    torch.testing.assert_close(found, twice(empty), rtol=1e-8, atol=1e-10)


def test_what_cannot_be_computed_stays():
    """More coordinates than rows, a column of zeros; and lam = 0, where all coordinates are in the support."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(3, 20, 30, generator=generator)
    A[1, :, 1] = 0
    problem = sp.lasso(A, torch.randn(3, 20, generator=generator), torch.tensor([1.0, 1.0, 0.0]))
    x = torch.zeros(3, 30, dtype=torch.float64)
    x[0, :25], x[1, :5], x[2, 3] = 1.0, 1.0, 1.0
    assert torch.equal(ours(given(problem, x, torch.arange(3))), x)


def test_least_squares_without_a_penalty():
    generator = torch.Generator().manual_seed(1)
    A, b = torch.randn(2, 50, 17, generator=generator), torch.randn(2, 50, generator=generator)
    found = ours(given(sp.lasso(A, b, 0.0), torch.zeros(2, 17, dtype=torch.float64), torch.arange(2)))
    exact = torch.linalg.lstsq(A.double(), b.double().unsqueeze(2)).solution[:, :, 0]
    torch.testing.assert_close(found, exact, rtol=1e-9, atol=1e-11)


def test_supports_too_large_for_it_are_left_to_others(monkeypatch):
    made = attempt(40, 60, 0.1, torch.float32)
    x = made.x.clone()
    x[1], x[1, :34] = 0.0, 1.0
    made = given(made.problem, x, made.rows)
    widths = made.widths(made.problem.r.lam)
    monkeypatch.setattr(cpu_polish, "WIDEST", int(widths[1]) - 1)
    assert int(widths[::2].max()) < int(widths[1])
    found = ours(made)
    assert torch.equal(found[1], made.plain()[1])
    torch.testing.assert_close(found[::2], twice(made)[::2], rtol=1e-8, atol=1e-10)


def test_the_same_answers_as_without_it():
    problem = sp.problems.LassoFamily(m=60, n=200, nonzeros=10).sample(40, torch.Generator().manual_seed(5))
    quick = sp.solve(problem)
    plain = sp.solve(problem, engine="plain")
    assert bool(quick.converged.all() & plain.converged.all())
    torch.testing.assert_close(quick.objective, plain.objective, rtol=2e-6, atol=0)


def test_matrices_so_tall_that_their_candidates_take_much_memory(monkeypatch):
    made = attempt(40, 60, 0.1, torch.float32)
    monkeypatch.setattr(cpu_polish, "MOST_ROWS", 39)
    assert kernels(made.problem).points is None


def test_what_it_is_not_made_for():
    made = attempt(40, 60, 0.1, torch.float32)
    shared = sp.lasso(made.problem.f.A[0], made.problem.f.b, 0.1)
    repeated = sp.lasso(made.problem.f.A[:1].expand_as(made.problem.f.A), made.problem.f.b, 0.1)
    for problem in (shared, repeated, made.problem.shifted(torch.ones(60))):
        assert kernels(problem).points is None
    assert kernels(made.problem).points is cpu_polish.points
