"""Tiny LASSO problems are solved by following the path: exactly, each alone, where nothing else was asked for."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sureprox as sp
from sureprox.guarantee.guaranteed import Track
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.problems.forms import form_of
from sureprox.solve.solution import Status
from sureprox.support.path import WIDEST, followed_path, has_short_path


def problem(m=20, n=40, part=0.1, batch=3, seed=0, dtype=torch.float64, shared=False):
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(*(() if shared else (batch,)), m, n, generator=g, dtype=torch.float64).to(dtype)
    b = torch.randn(batch, m, generator=g, dtype=torch.float64).to(dtype)
    return sp.lasso(A, b, part * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2)))


def above(problem: Problem, x: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """F(x) - F(other) in more digits than float64 has, rounded only then: the difference is smaller than they show."""

    def long(value: torch.Tensor) -> np.ndarray:
        return value.double().numpy().astype(np.longdouble)

    def objective(point: torch.Tensor) -> np.ndarray:
        z = (long(problem.f.A) @ long(point)[:, :, None])[:, :, 0] - long(problem.f.b)
        return (z * z).sum(1) / 2 + long(problem.r.lam) * np.abs(long(point)).sum(1)

    return torch.from_numpy((objective(x) - objective(other)).astype(np.float64))


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 60), n=st.integers(1, WIDEST), part=st.sampled_from([0.9, 0.3, 0.1, 0.01]),
    seed=st.integers(0, 10**6), shared=st.booleans(),
)  # fmt: skip
def test_the_end_of_the_path_is_optimal(m, n, part, seed, shared):
    """-g is lam sign(x) on the support and at most lam beyond it: computed here from A, b and lam alone."""
    given = problem(m, n, part, seed=seed, shared=shared)
    x = followed_path(given)
    A, b, lam = given.f.A, given.f.b, given.r.lam.reshape(-1, 1)
    g = (A.mT @ (A @ x.unsqueeze(2) - b.unsqueeze(2))).squeeze(2)
    off = torch.where(x != 0, (g + lam * x.sign()).abs(), (g.abs() - lam).clamp(min=0))
    assert float((off / lam).max()) <= 1e-7


def test_agrees_with_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    given = problem(30, 24, 0.05, batch=4)
    x = followed_path(given)
    for A, b, lam, mine in zip(given.f.A, given.f.b, given.r.lam, x, strict=True):
        model = linear_model.LassoLars(alpha=float(lam) / len(A), fit_intercept=False)
        np.testing.assert_allclose(mine, model.fit(A.numpy(), b.numpy()).coef_, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("part", [0.3, 0.1, 0.01])
def test_solve_needs_no_iteration(dtype, part):
    given = problem(part=part, dtype=dtype)
    solution = sp.solve(given, engine="plain")
    assert solution.iterations.tolist() == [0, 0, 0]
    assert set(solution.status) == {Status.CONVERGED}
    assert set(solution.track) == {Track.PATH}
    exact = sp.reference(given)
    assert bool((solution.objective - exact.objective <= 1e-6 * exact.objective).all())
    assert bool((solution.gap >= above(given, solution.x, exact.x)).all())
    measured = given.to(dtype=torch.float64).objective(solution.x.double())
    torch.testing.assert_close(measured, solution.objective, rtol=1e-12, atol=0)
    if dtype == torch.float32:  # x is float64 exactly where float32 cannot hold the answer
        assert (solution.x.dtype == torch.float64) == bool(solution.refined.any())


def test_float32_cannot_hold_every_answer():
    """Of two instances one survives rounding to float32 and one does not; the latter is called refined."""
    parts = torch.cat([problem(part=part, batch=1, dtype=torch.float32).r.lam.reshape(1) for part in (0.3, 1e-3)])
    one = problem(batch=1, dtype=torch.float32)
    solution = sp.solve(sp.lasso(one.f.A.expand(2, -1, -1), one.f.b.expand(2, -1), parts), engine="plain")
    assert solution.refined.tolist() == [False, True]
    assert set(solution.track) == {Track.PATH}
    assert set(solution.status) == {Status.CONVERGED}


def test_solved_at_the_start_already():
    given = problem(part=1.5)
    solution = sp.solve(given, engine="plain")
    assert torch.equal(solution.x, torch.zeros(3, 40, dtype=torch.float64))
    assert torch.equal(followed_path(given), solution.x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_where_the_path_breaks_off_the_optimizer_runs(dtype):
    """Equal columns join together: A_S has no full rank. The neighbours do not notice."""
    given = problem(dtype=dtype)
    A = given.f.A.clone()
    A[1, :, 1::2] = A[1, :, ::2]
    spoilt = sp.lasso(A, given.f.b, given.r.lam)
    assert torch.equal(followed_path(spoilt)[1], torch.zeros(40, dtype=torch.float64))
    solution = sp.solve(spoilt, engine="plain")
    assert set(solution.status) == {Status.CONVERGED}
    assert [count > 0 for count in solution.iterations.tolist()] == [False, True, False]
    assert solution.track[1] != Track.PATH
    alone = sp.solve(given, engine="plain")
    torch.testing.assert_close(solution.x[::2].double(), alone.x[::2].double(), rtol=1e-12, atol=1e-12)


def test_a_neighbour_changes_nothing():
    given = problem(batch=5)
    for i in range(5):
        alone = followed_path(given.select(torch.tensor([i])))
        torch.testing.assert_close(alone, followed_path(given)[i : i + 1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_neighbour_without_a_path_changes_nothing(dtype):
    """No penalty, numbers whose squares overflow, a matrix of zeros: each beside an ordinary instance."""
    given = problem(60, 20, batch=4, dtype=dtype)
    A, b, lam = given.f.A.clone(), given.f.b, given.r.lam.clone()
    lam[1] = 0.0
    A[2] *= 1e18 if dtype == torch.float32 else 1e160
    A[3] = 0.0
    path = followed_path(sp.lasso(A, b, lam))
    assert torch.isfinite(path).all()
    torch.testing.assert_close(path[:1], followed_path(given)[:1], rtol=1e-12, atol=1e-12)
    assert torch.equal(path[1], torch.zeros(20, dtype=torch.float64))
    assert torch.equal(path[3], torch.zeros(20, dtype=torch.float64))
    together = sp.solve(sp.lasso(A[:2], b[:2], lam[:2]), engine="plain")
    assert together.track[0] == Track.PATH
    assert together.track[1] != Track.PATH
    assert set(together.status) == {Status.CONVERGED}


def test_chunks(monkeypatch):
    given = problem(batch=5)
    whole = followed_path(given)
    monkeypatch.setattr("sureprox.support.path.CHUNK", 2 * 40 * 40)
    torch.testing.assert_close(followed_path(given), whole, rtol=1e-12, atol=1e-12)


def test_a_moved_problem():
    given = problem()
    t = torch.linspace(-5, 5, 40, dtype=torch.float64).expand(3, 40)
    torch.testing.assert_close(followed_path(given.shifted(t)), followed_path(given) - t, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    "asked",
    [
        {"optimizer": FISTA()}, {"optimizer": "sure/lasso"}, {"x0": torch.ones(3, 40, dtype=torch.float64)},
        {"record": ("gap",)}, {"callback": lambda progress: None}, {"certify": False}, {"max_iter": 999},
        {"step_size": torch.full((3,), 1e-3, dtype=torch.float64)}, {"generator": torch.Generator()},
    ],
)  # fmt: skip
def test_who_asks_for_iterations_gets_them(asked):
    solution = sp.solve(problem(part=0.3), **asked, engine="plain")
    assert bool((solution.iterations > 0).all())
    assert Track.PATH not in set(solution.track)


def test_gradients_flow_through_iterations():
    given = problem(part=0.3, batch=1)
    b = given.f.b.clone().requires_grad_()
    solution = sp.solve(sp.lasso(given.f.A, b, given.r.lam), max_iter=20, engine="plain")
    assert solution.x.requires_grad
    assert int(solution.iterations[0]) > 0


@pytest.mark.parametrize(
    "other",
    [
        lambda: problem(n=WIDEST + 1),
        lambda: sp.logistic(torch.ones(1, 4, 3), torch.ones(1, 4), 0.1),
        lambda: Problem(LeastSquares(torch.ones(1, 4, 3), torch.ones(1, 4)), sp.problems.Zero()),
    ],
)  # fmt: skip
def test_what_has_no_short_path(other):
    assert not has_short_path(form_of(other()))


def test_what_has_one():
    assert has_short_path(form_of(problem()))
    assert has_short_path(form_of(problem(shared=True)))
    small = Problem(LeastSquares(torch.ones(1, 4, 3), torch.ones(1, 4)), L1(torch.tensor([0.1])))
    assert has_short_path(form_of(small))
