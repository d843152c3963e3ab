"""Solves that end by the polish: when an instance is tried, what it costs, and that its certificate decides."""

from importlib import import_module

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sureprox as sp
from helpers import F64, autoregressive, normal, random_problem, with_ratio
from polish_cases import EVERY
from sureprox.guarantee import Track
from sureprox.optimizers import FISTA
from sureprox.solve import loop
from sureprox.solve.loop import STALLED, Run
from sureprox.solve.solution import Status
from sureprox.solve.stopping import StoppingRule
from sureprox.sources import LassoFamily
from sureprox.support.newton import MEASURED, _width, polished
from sureprox.support.path import followed_path

FAST = FISTA(restart=True)


def test_the_default_solve_in_float32():
    problem = LassoFamily().sample(6, torch.Generator().manual_seed(3))
    quick, slow = (sp.solve(problem, "sure", polish=polish) for polish in (True, False))
    assert {*quick.status} == {Status.CONVERGED}
    assert {*quick.track} == {Track.POLISH}
    assert Track.POLISH not in {*slow.track}
    assert (quick.iterations < slow.iterations).all()
    best = sp.reference(problem)
    assert (quick.gap <= 1e-6 * quick.objective).all()
    assert (quick.objective - best.objective <= 1e-6 * best.objective).all()
    exact = problem.to(dtype=F64)
    torch.testing.assert_close(exact.objective(quick.x.double()), quick.objective, rtol=1e-14, atol=0)
    torch.testing.assert_close(exact.duality_gap(quick.x.double()), quick.gap, rtol=1e-6, atol=1e-16)
    assert (quick.x.dtype == F64) == bool(quick.refined.any())


@EVERY
@pytest.mark.parametrize("certify", [True, "audit", "cheap"])
def test_every_kind_of_problem_ends_early(problem, certify):
    options = {"max_iter": 5000, "tol": 1e-10, "certify": certify}
    quick, slow = (sp.solve(problem, FAST, **options, polish=polish) for polish in (True, False))
    assert quick.converged.all()
    assert {*quick.track} == {Track.POLISH}
    assert (quick.iterations <= slow.iterations).all()
    assert quick.iterations.sum() < slow.iterations.sum()
    torch.testing.assert_close(quick.x, sp.reference(problem).x, rtol=1e-5, atol=1e-6)
    assert not quick.refined.any()


def test_what_float32_cannot_hold_ends_in_float64_without_further_iterations():
    problem = random_problem("lasso", batch=4, m=40, n=60).to(dtype=torch.float32)
    solution = sp.solve(problem, FAST, tol=1e-10)
    assert solution.converged.all()
    assert solution.refined.all()
    assert solution.x.dtype == F64
    assert {*solution.track} == {Track.POLISH}
    loose = sp.solve(problem, FAST, tol=1e-4)
    assert not loose.refined.any()
    assert loose.x.dtype == torch.float32
    assert (solution.iterations <= sp.solve(problem, FAST, tol=1e-10, polish=False).iterations).all()


def test_some_need_float64_and_some_do_not():
    A, b = normal(40, 60), normal(4, 40, seed=1)
    ratio = torch.tensor([0.5, 0.9, 1e-3, 2.0], dtype=F64)
    problem = with_ratio("lasso", A, b, ratio).to(dtype=torch.float32)
    solution = sp.solve(problem, FAST, max_iter=20_000, tol=2e-6)
    assert solution.converged.all()
    assert solution.refined.any()
    assert not solution.refined.all()
    exact = problem.to(dtype=F64)
    assert (exact.duality_gap(solution.x.double()) <= 2e-6 * solution.objective).all()
    kept = solution.x[~solution.refined]
    assert torch.equal(kept, kept.float().double())


def test_neighbours_do_not_change_when_an_instance_ends():
    problem = with_ratio(
        "lasso", normal(6, 40, 60), normal(6, 40, seed=1), torch.tensor([0.7, 0.5, 0.3, 0.1, 0.03, 0.01], dtype=F64)
    )
    together = sp.solve(problem, FAST, max_iter=3000)
    assert together.converged.all()
    assert len({*together.iterations.tolist()}) > 2
    for i in range(6):
        alone = sp.solve(problem.select(torch.tensor([i])), FAST, max_iter=3000)
        assert alone.iterations[0] == together.iterations[i]
        assert alone.track[0] is together.track[i]
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-9, atol=1e-11)


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(2, 40), n=st.integers(2, 60), ratio=st.sampled_from([0.9, 0.3, 0.1, 0.01, 0.001]),
    rho=st.sampled_from([0.0, 0.9, 0.999]), twins=st.booleans(), shared=st.booleans(), seed=st.integers(0, 10**6),
    dtype=st.sampled_from([torch.float32, F64]),
)  # fmt: skip
def test_converged_is_never_said_of_a_wrong_point(m, n, ratio, rho, twins, shared, seed, dtype):
    A = autoregressive(2, m, n, rho, seed)
    if twins:
        A[:, :, 1::2] = A[:, :, : n // 2]
    problem = with_ratio("lasso", A[0] if shared else A, normal(2, m, seed=seed + 1), ratio).to(dtype=dtype)
    solution = sp.solve(problem, FAST, max_iter=300, check_every=5)
    exact = problem.to(dtype=F64)
    x = solution.x.double()
    torch.testing.assert_close(exact.objective(x), solution.objective, rtol=1e-12, atol=0)
    lower = sp.solve(exact, FAST, x, max_iter=500, tol=1e-10, certify=False)  # F* >= its dual value
    bound = torch.maximum(lower.objective - lower.gap, solution.objective - solution.gap)
    assert (solution.gap >= solution.objective - lower.objective - 1e-12 * solution.objective).all()
    floor = torch.maximum(lower.objective, 1e-6 * exact.scale()[0])
    for i in range(2):
        if solution.status[i] is Status.CONVERGED:
            assert solution.objective[i] - bound[i] <= 1.001e-6 * floor[i]


def test_a_polished_point_is_not_above_the_best_one():
    """What the rate says of the best point holds for the one that is returned."""
    problem, x0 = random_problem("lasso", batch=6, m=40, n=60), normal(6, 60, seed=5)
    best = sp.reference(problem)
    radius = (x0 - best.x).norm(dim=1)
    for tol in (1e-1, 1e-2, 1e-6):
        polish, plain = (sp.solve(problem, FAST, x0, tol=tol, check_every=2, polish=on) for on in (True, False))
        assert (polish.objective - best.objective <= polish.bound(radius) + 1e-13).all()
        cut = [sp.solve(problem, FAST, x0, max_iter=int(k), tol=tol, polish=False) for k in polish.iterations]
        assert all(polish.objective[i] <= cut[i].objective[i] * (1 + 1e-13) for i in range(6))
        assert (polish.iterations <= plain.iterations).all()


def test_the_iteration_limit_holds():
    problem = random_problem("lasso", m=40, n=60, ratio=0.01)
    full = sp.solve(problem, FAST, max_iter=5000)
    limit = int(full.iterations.min()) - 1
    cut = sp.solve(problem, FAST, max_iter=limit)
    assert cut.iterations.tolist() == [limit] * 3
    assert sp.solve(problem, FAST, max_iter=0).iterations.tolist() == [0, 0, 0]
    assert {*sp.solve(problem, FAST, max_iter=0).status} == {Status.ITERATION_LIMIT}


# --- which instances are tried, and what it costs ---------------------------------------------------------------------


class Attempts:
    """Stands in for `polished`: counts, and returns a worse point than x unless told to help."""

    def __init__(self, *, help=False):
        self.help, self.made = help, []

    def __call__(self, problem, x, g, rows, operations):
        self.made.append((problem.dtype, (x != 0).sum(1), rows.tolist()))
        return polished(problem, x, g, rows) if self.help else 1.5 * x.double()

    def costs(self, n):
        return [int(_width(k, n)) ** 2 + MEASURED * n for _, sizes, _ in self.made for k in sizes]


@pytest.mark.parametrize("check_every", [1, 10])
def test_attempts_in_vain_cost_no_more_than_the_iterations(check_every, monkeypatch):
    """But for the last second attempt, which is made on credit."""
    attempts = Attempts()
    monkeypatch.setattr(loop, "polished", attempts)
    monkeypatch.setattr(loop, "approached", lambda problem, x: x.double())
    problem = random_problem("lasso", batch=1, m=40, n=60, ratio=0.02)
    solution = sp.solve(problem, FAST, max_iter=2000, tol=1e-9, check_every=check_every)
    assert solution.converged.all()
    costs = attempts.costs(60)
    assert len(costs) >= 4
    assert sum(costs[:-1]) <= 6 * 60 * int(solution.iterations[0])
    plain = sp.solve(problem, FAST, max_iter=2000, tol=1e-9, check_every=check_every, polish=False)
    assert torch.equal(solution.x, plain.x)
    assert torch.equal(solution.iterations, plain.iterations)


def test_an_optimizer_alone_affords_less(monkeypatch):
    made = []
    for certify in (True, False):
        attempts = Attempts()
        monkeypatch.setattr(loop, "polished", attempts)
        problem = random_problem("lasso", batch=1, m=40, n=60, ratio=0.02)
        solution = sp.solve(problem, FAST, max_iter=100, tol=1e-13, check_every=1, certify=certify, polish=True)
        made.append(sum(attempts.costs(60)[:-1]))
        assert made[-1] <= (6 if certify else 2) * 60 * int(solution.iterations[0])
    assert made[0] > made[1] > 0


def test_signs_that_failed_are_not_tried_again(monkeypatch):
    attempts = Attempts()
    monkeypatch.setattr(loop, "polished", attempts)
    problem = random_problem("lasso", batch=1, m=90, n=60, ratio=0.3)
    solution = sp.solve(problem, FAST, max_iter=2000, tol=1e-13, check_every=5)
    assert int(solution.iterations[0]) >= 30
    assert 2 <= len(attempts.made) <= 6


def test_a_second_attempt_follows_for_those_that_failed(monkeypatch):
    """The first one helps every other instance."""

    class Half(Attempts):
        def __call__(self, problem, x, g, rows, operations):
            tried = super().__call__(problem, x, g, rows, operations)
            fails = (rows % 2 == 0) & (len(self.made) == 1)
            return torch.where(fails.unsqueeze(1), (1 + 1e-3) * x.double(), tried)

    attempts = Half(help=True)
    monkeypatch.setattr(loop, "polished", attempts)
    problem = random_problem("lasso", batch=8, m=40, n=60, ratio=0.3)
    solution = sp.solve(problem, FAST, check_every=20)
    assert solution.converged.all()
    assert {*solution.track} == {Track.POLISH}
    assert [rows for *_, rows in attempts.made] == [[*range(8)], [0, 2, 4, 6]]
    assert solution.iterations.tolist() == [20] * 8


def test_what_cannot_be_computed_is_not_tried_twice(monkeypatch):
    """As `polished` says by returning x itself."""

    class Stuck(Attempts):
        def __call__(self, problem, x, g, rows, operations):
            super().__call__(problem, x, g, rows, operations)
            return x.double()

    attempts = Stuck()
    monkeypatch.setattr(loop, "polished", attempts)
    sp.solve(random_problem("lasso", batch=2, m=40, n=60, ratio=0.3), FAST, max_iter=20, check_every=20)
    assert len(attempts.made) == 1


def test_who_stalls_in_float32_is_tried_whatever_it_costs(monkeypatch):
    monkeypatch.setattr("sureprox.support.newton.MEASURED", 10**6)
    problem = random_problem("lasso", batch=4, m=40, n=60).to(dtype=torch.float32)
    solution = sp.solve(problem, FAST, tol=1e-10)
    plain = sp.solve(problem, FAST, tol=1e-10, polish=False)
    assert solution.converged.all()
    assert {*solution.track} == {Track.POLISH}
    assert (solution.iterations > STALLED).all()
    assert (solution.iterations < plain.iterations).all()
    assert solution.refined.all()


def test_the_run_in_float64_may_polish_too(monkeypatch):
    """Columns so alike that float32 does not find the signs."""
    attempts = Attempts(help=True)
    monkeypatch.setattr(loop, "polished", attempts)
    monkeypatch.setattr(loop, "approached", lambda problem, x: x.double())
    A, b = autoregressive(6, 30, 80, 0.9), normal(6, 30, seed=1)
    solution = sp.solve(with_ratio("lasso", A, b, 0.003).to(dtype=torch.float32), FAST, max_iter=20_000)
    assert solution.converged.all()
    assert solution.refined.all()
    assert {*solution.track} == {Track.POLISH}
    assert {dtype for dtype, _, rows in attempts.made if rows} == {torch.float32, F64}


@pytest.mark.parametrize("asked", [{"certify": False}, {"record": ("gap",)}, {"polish": False}])
def test_who_wants_the_optimizer_alone_gets_it(asked):
    problem = random_problem("lasso", m=40, n=60)
    solution = sp.solve(problem, FAST, max_iter=3000, **asked)
    assert solution.converged.all()
    assert Track.POLISH not in {*solution.track}


def test_gradients_flow_through_iterations():
    problem = random_problem("lasso", m=40, n=60, batch=1)
    b = problem.f.b.clone().requires_grad_()
    solution = sp.solve(sp.lasso(problem.f.A, b, problem.r.lam), FAST, max_iter=60)
    assert solution.x.requires_grad
    assert solution.track[0] is not Track.POLISH


def test_other_problems_do_not_change():
    for dtype in (torch.float32, F64):
        f = random_problem("lasso", m=40, n=60).f
        problem = sp.Problem(f, sp.penalties.GroupBall(torch.arange(60) // 5, 0.1)).to(dtype=dtype)
        on, off = (sp.solve(problem, FISTA(restart=True), max_iter=3000, polish=polish) for polish in (True, False))
        assert torch.equal(on.x, off.x)
        assert torch.equal(on.iterations, off.iterations)
        assert [*on.track] == [*off.track]


def test_a_point_that_passes_but_lies_above_the_best_one_is_not_taken():
    """Else F of what is returned could rise, and the rate that is certified for it would not hold."""
    problem = LassoFamily(m=20, n=60, nonzeros=4).sample(2, torch.Generator().manual_seed(3), torch.float64)
    best = sp.reference(problem).x
    rule = StoppingRule(problem, torch.zeros_like(best), 1e-2)
    run = Run(problem, FISTA(), best, rule.measure(best), 10, rule, ())
    worse, rows, everyone = best * 1.0001, torch.arange(2), torch.ones(2, dtype=torch.bool)
    assert rule.measure(worse).converged.all()
    run.take(rows, worse, rule, everyone, Track.POLISH)
    assert torch.equal(run.x, best)
    run.x, run.best = worse, rule.measure(worse)
    run.take(rows, best, rule, everyone, Track.POLISH)
    assert torch.equal(run.x, best)


def test_what_fails_is_tried_once_more_at_the_last_iteration_too(monkeypatch):
    """Then all instances are done, but not all are solved."""
    tried = []
    monkeypatch.setattr(
        loop, "polished", lambda problem, x, g, rows, operations: tried.append(len(rows)) or 0.9 * x.double()
    )
    problem = LassoFamily(m=20, n=60, nonzeros=4).sample(3, torch.Generator().manual_seed(3), torch.float64)
    solution = sp.solve(problem, FISTA(), max_iter=100, check_every=100, tol=1e-13)
    assert not bool(solution.converged.any())
    assert tried == [3, 3]


# --- what is not solved -----------------------------------------------------------------------------------------------


def ill_conditioned(dtype: torch.dtype) -> sp.Problem:
    """Singular values from 1 to 1e-6, and a small lam."""
    U, V = (torch.linalg.qr(normal(8, 40, 40, seed=seed)).Q for seed in (1, 2))
    A = (U * torch.logspace(0, -6, 40, dtype=F64)) @ V
    return with_ratio("lasso", A, normal(8, 40, seed=3), 1e-5).to(dtype=dtype)


@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_the_lowest_point_is_the_answer_though_its_certificate_does_not_pass(dtype):
    problem = ill_conditioned(dtype)
    options = {"max_iter": 290, "tol": 1e-9}  # proximal points would solve more of them
    solution, plain = (sp.solve(problem, "sure/lasso", **options, polish=polish) for polish in (True, False))
    kept = torch.tensor([track is Track.POLISH for track in solution.track]) & ~solution.converged
    assert kept.sum() >= 2
    assert (solution.objective <= plain.objective * (1 + 1e-14)).all()
    assert (solution.objective < 0.999 * plain.objective)[kept].all()
    exact = problem.to(dtype=F64)
    residual, sums = exact.f.inner(solution.x.double()), exact.f.A.abs() @ solution.x.double().abs().unsqueeze(2)
    rounding = torch.finfo(F64).eps * sums.squeeze(2).norm(dim=1) * residual.norm(dim=1)  # x is large, A x is not
    assert ((exact.objective(solution.x.double()) - solution.objective).abs() <= rounding).all()
    torch.testing.assert_close(exact.kkt_residual(solution.x.double()), solution.kkt, rtol=1e-6, atol=1e-14)
    assert (solution.gap <= exact.duality_gap(solution.x.double()) * (1 + 1e-6)).all()
    followed = followed_path(exact)
    above = solution.objective - exact.objective(followed)
    assert (above <= solution.gap).all()
    assert (above <= solution.bound(followed.norm(dim=1)) + 1e-12).all()
    if dtype == torch.float32:
        assert solution.refined[kept].all()


def test_a_point_of_the_path_is_kept_too(monkeypatch):
    problem = random_problem("lasso", batch=3, m=20, n=30)
    near = sp.reference(problem).x * (1 + 1e-3)
    module = import_module("sureprox.solve.stages")
    monkeypatch.setattr(module, "followed_path", lambda problem: near)
    monkeypatch.setattr(module, "ENOUGH", 1)
    solution = sp.solve(problem, max_iter=1, tol=1e-9, polish=False)
    assert not solution.converged.any()
    assert {*solution.track} == {Track.PATH}
    assert torch.equal(solution.x, near)
    torch.testing.assert_close(solution.objective, problem.objective(near))


def test_a_point_of_the_path_is_kept_where_float64_takes_over(monkeypatch):
    """Float32 is left in all instances, and the few iterations after that do not come as low."""
    problem = random_problem("lasso", batch=3, m=20, n=30).to(dtype=torch.float32)
    near = sp.reference(problem.to(dtype=F64)).x * (1 + 1e-7)
    module = import_module("sureprox.solve.stages")
    monkeypatch.setattr(module, "followed_path", lambda problem: near)
    monkeypatch.setattr(module, "ENOUGH", 30)
    monkeypatch.setattr(loop, "STALLED", 0)
    solution = sp.solve(problem, max_iter=30, tol=1e-15, polish=False)
    assert solution.refined.all()
    assert (solution.iterations == 30).all()
    assert {*solution.track} == {Track.PATH}
    assert torch.equal(solution.x, near)
