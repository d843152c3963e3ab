"""The duality gap where the penalty leaves coordinates free: never below F - F*, and zero at the solution."""

import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Logistic, Problem, WeightedL1, WeightedLeastSquares, Zero
from sureprox.problems.free import free_gap, has_free_gap
from sureprox.solve.stopping import StoppingRule

B, M, N = 3, 20, 8
KINDS = ("least squares", "shared", "weighted", "logistic", "logistic with weights")


def smooth(kind: str):
    A, noise, weights = normal(B, M, N), normal(B, M, seed=1), normal(B, M, seed=2).abs()
    A[:, :, -1] = 1
    if kind.startswith("logistic"):
        y = (A[:, :, 0] + 2 * noise > 0).to(F64)
        return Logistic(A, y, weights=weights if "weights" in kind else None)
    b = A[:, :, :3].sum(2) + 1 + noise
    if kind == "weighted":
        return WeightedLeastSquares(A[0], b, weights, intercept=False)
    return LeastSquares(A[0] if kind == "shared" else A, b)


def penalty(free: int) -> WeightedL1:
    weights = torch.full((N,), 0.02, dtype=F64)
    weights[N - free :] = 0
    return WeightedL1(weights)


@pytest.mark.parametrize("free", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gap_bounds_the_distance_and_vanishes_at_the_solution(kind, free):
    problem = Problem(smooth(kind), penalty(free))
    best = sp.solve(problem, FISTA(restart=True), tol=1e-11, max_iter=20_000, certify=False)
    assert best.converged.all()
    assert (free_gap(problem, best.x) <= 1e-9 * best.objective).all()
    assert (problem.duality_gap(best.x) > 0.5 * best.objective).all()  # without the correction it says nothing
    for size in (1e-6, 1e-3, 0.1, 1.0):
        x = best.x + size * normal(B, N, seed=7)
        gap, value = free_gap(problem, x), problem.objective(x)
        assert (gap >= value - best.objective - 1e-12 * value).all()
        assert (gap <= value).all()


def test_each_instance_has_free_coordinates_of_its_own():
    weights = torch.full((B, N), 0.02, dtype=F64)
    weights[0, 1], weights[2, 3:6] = 0, 0
    problem = Problem(smooth("least squares"), WeightedL1(weights))
    x = normal(B, N, seed=3)
    together = free_gap(problem, x)
    for i in range(B):
        alone = free_gap(problem.select(torch.tensor([i])), x[i : i + 1])
        torch.testing.assert_close(alone[0], together[i], rtol=1e-12, atol=0)


def test_without_any_penalty_the_gap_is_the_distance():
    problem = Problem(smooth("least squares"), Zero())
    exact = torch.linalg.lstsq(problem.f.A, problem.f.b.unsqueeze(2)).solution.squeeze(2)
    x = exact + 1e-3 * normal(B, N, seed=3)
    distance = 0.5 * (problem.f.A @ (x - exact).unsqueeze(2)).squeeze(2).square().sum(1)
    torch.testing.assert_close(free_gap(problem, x), distance, rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", KINDS)
def test_units_of_the_free_columns_do_not_matter(kind):
    f, units = smooth(kind), torch.ones(N, dtype=F64)
    units[-2:] = torch.tensor([1e9, 1e-7], dtype=F64)
    other = type(f).trusted(**vars(f) | {"A": f.A * units})
    problem, scaled = Problem(f, penalty(3)), Problem(other, penalty(3))
    x = sp.solve(problem, FISTA(restart=True), tol=1e-4, max_iter=5000, certify=False).x
    torch.testing.assert_close(free_gap(scaled, x / units), free_gap(problem, x), rtol=1e-6, atol=1e-15)


@pytest.mark.parametrize("seed", range(5))
def test_free_columns_that_reach_every_b_leave_no_dual_point_but_zero(seed):
    """F* = 0 then, and what a projection leaves of the residual is rounding, which no scale makes a dual point."""
    A = normal(B, 3, N, seed=seed) * torch.tensor([1.0] * (N - 4) + [1e-6, 1.0, 1e3, 1e3], dtype=F64)
    problem = Problem(LeastSquares(A, 1e9 * normal(B, 3, seed=seed + 1)), penalty(4))
    x = 1e-3 * normal(B, N, seed=seed + 2)
    assert torch.equal(free_gap(problem, x), problem.objective(x))


def test_a_column_that_depends_on_the_others_or_vanishes_does_no_harm():
    f = smooth("least squares")
    A = f.A.clone()
    A[:, :, -2], A[:, :, -3] = A[:, :, -1], 0
    problem = Problem(LeastSquares(A, f.b), penalty(3))
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-9, max_iter=5000)
    assert solution.converged.all()
    assert (solution.gap <= 1e-9 * solution.objective).all()


def test_who_has_such_a_gap():
    class Own(LeastSquares):
        pass

    f = smooth("least squares")
    assert has_free_gap(Problem(f, Zero()))
    assert has_free_gap(Problem(f, L1(0.0)))
    assert not has_free_gap(Problem(Own(f.A, f.b), Zero()))


@pytest.mark.parametrize("certify", [True, False])
@pytest.mark.parametrize("ratio", [1e-2, 1e-4, 1e-6])
@pytest.mark.parametrize("kind", ["least squares", "logistic"])
def test_converged_with_a_free_coordinate_is_as_close_as_promised(kind, ratio, certify):
    f = smooth(kind)
    lam = ratio * f.grad(torch.zeros(B, N, dtype=F64)).abs().amax(1, keepdim=True)
    weights = lam.repeat(1, N)
    weights[:, -1] = 0
    problem = Problem(f, WeightedL1(weights))
    tol = 1e-4
    seen = []
    x = problem.start()
    rule = StoppingRule(problem, None, tol)
    for _ in range(12):  # wherever it is stopped, what is called converged must be
        solution = sp.solve(problem, FISTA(restart=True), x, tol=tol, max_iter=150, certify=certify, polish=False)
        seen.append((solution.objective, solution.converged))
        x = solution.x
        if solution.converged.all():
            break
    bound = (solution.objective - free_gap(problem, x)).clamp(min=0)
    assert solution.converged.all() or kind == "logistic"
    for value, converged in seen:
        assert (value[converged] - bound[converged] <= 2 * tol * value[converged]).all()
    assert (rule.measure(x).converged == solution.converged).all()


def test_a_small_residual_alone_does_not_make_a_nearly_separable_problem_converged():
    A = normal(2, 30, 20)
    A[:, :, -1] = 1
    f = Logistic(A, (A[:, :, :5].sum(2) + 0.1 * normal(2, 30, seed=1) > 0).to(F64))
    gradient = f.grad(torch.zeros(2, 20, dtype=F64)).abs().amax(1, keepdim=True)
    weights = 1e-6 * gradient.repeat(1, 20)
    weights[:, -1] = 0
    problem = Problem(f, WeightedL1(weights))
    options = {"tol": 1e-12, "max_iter": 1000, "certify": False, "check_every": 1000}
    x = sp.solve(problem, FISTA(restart=True), **options).x
    assert (problem.kkt_residual(x) <= 1e-3 * gradient[:, 0]).all()
    better = sp.solve(problem, FISTA(restart=True), x, **options).objective
    assert (problem.objective(x) > 1.05 * better).all()
    assert not StoppingRule(problem, None, 1e-3).measure(x).converged.any()
