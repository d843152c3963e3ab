"""Weights: on the rows of both losses, on the coordinates of the L1 penalty, and coordinates without a penalty."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sureprox as sp
from helpers import F64, labels, normal, refused
from sureprox.guarantee import Certified
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Logistic, Problem, WeightedL1, WeightedLeastSquares
from sureprox.problems.stacked import Points, Stacked

B, M, N = 3, 8, 5


def row_weights(seed: int = 0) -> torch.Tensor:
    """Positive, zero and large ones."""
    weights = normal(B, M, seed=seed).abs() * torch.tensor([1.0, 10.0, 1.0, 1.0, 0.1, 1.0, 1.0, 1.0], dtype=F64)
    weights[:, 2] = 0
    return weights


def smooth(kind: str, shared: bool, seed: int = 0):
    A = normal(M, N, seed=seed) if shared else normal(B, M, N, seed=seed)
    if kind == "logistic":
        return Logistic(A, labels(B, M, seed + 1), weights=row_weights(seed))
    return WeightedLeastSquares(A, normal(B, M, seed=seed + 1), row_weights(seed), kind == "intercept")


def formula(kind: str, seed: int, i: int, shared: bool, x: torch.Tensor) -> torch.Tensor:
    """f(x) of instance i as its docstring says it."""
    A = normal(M, N, seed=seed) if shared else normal(B, M, N, seed=seed)[i]
    w, t = row_weights(seed)[i], A @ x
    if kind == "logistic":
        return (w * (torch.log(1 + torch.exp(t)) - labels(B, M, seed + 1)[i] * t)).sum() / M
    b = normal(B, M, seed=seed + 1)[i]
    c = (w * (b - t)).sum() / w.sum() if kind == "intercept" else 0.0
    return (w * (t + c - b) ** 2).sum() / 2


KINDS = ["logistic", "plain", "intercept"]


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**20))
def test_value_is_the_formula_and_the_gradient_its_derivative(kind, shared, seed):
    f, x = smooth(kind, shared, seed), normal(B, N, seed=seed + 5).requires_grad_()
    expected = torch.stack([formula(kind, seed, i, shared, x[i]) for i in range(B)])
    torch.testing.assert_close(f.value(x), expected, rtol=1e-11, atol=1e-13)
    (gradient,) = torch.autograd.grad(expected.sum(), x)
    torch.testing.assert_close(f.grad(x.detach()), gradient, rtol=1e-10, atol=1e-12)


def test_in_float64_a_float32_problem_with_an_intercept_is_what_its_data_say():
    """The unit vector of the intercept, rounded to float32, would make P no projection and A'D z no gradient."""
    A, b, x = normal(M, N).float(), normal(B, M, seed=1).float() + 100, normal(B, N, seed=2)
    weights = (row_weights() > 0.3).float()
    rounded = WeightedLeastSquares(A, b, weights).to(dtype=F64)
    exact = WeightedLeastSquares(A.double(), b.double(), weights.double())
    torch.testing.assert_close(rounded.value(x), exact.value(x), rtol=1e-13, atol=0)
    torch.testing.assert_close(rounded.grad(x), exact.grad(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_hessian_root_and_lipschitz(kind):
    f, x = smooth(kind, shared=False), normal(B, N, seed=3)
    root = f.hessian_root(x, f.A)
    for i in range(B):
        hessian = torch.autograd.functional.hessian(lambda v, i=i: formula(kind, 0, i, False, v), x[i])
        torch.testing.assert_close(root[i].T @ root[i], hessian, rtol=1e-10, atol=1e-12)
    steepest = f.hessian_root(torch.zeros_like(x), f.A)  # the logistic loss bends most at zero
    expected = torch.linalg.eigvalsh(steepest.mT @ steepest)[:, -1]
    torch.testing.assert_close(f.lipschitz(exact=True), expected, rtol=1e-10, atol=0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", KINDS)
@given(seed=st.integers(0, 2**20))
def test_bregman_divergence_and_its_bounds(kind, shared, seed):
    f, x, y = smooth(kind, shared, seed), normal(B, N, seed=seed + 2), normal(B, N, seed=seed + 3)
    z, at = f.inner(x), f.inner(y)
    expected = f.value(x) - f.value(y) - (f.grad(y) * (x - y)).sum(1)
    torch.testing.assert_close(f.bregman(z - at, at), expected, rtol=1e-8, atol=1e-12)
    step = (z - at).square().sum(1, keepdim=True)
    assert (expected.unsqueeze(1) <= f.steepness * step / 2 + 1e-12).all()


@pytest.mark.parametrize("kind", ["plain", "intercept", "logistic"])
def test_duality_gap_bounds_the_distance_to_the_minimum(kind):
    problem = Problem(smooth(kind, shared=True), WeightedL1(0.05 * (1 + normal(B, N, seed=8).abs())))
    best = sp.reference(problem)
    assert (best.gap <= 1e-11 * best.objective).all()
    for seed in range(5):
        x = best.x + 10.0**-seed * normal(B, N, seed=seed)
        above = problem.objective(x) - best.objective
        assert (problem.duality_gap(x) >= above - 1e-12).all()
    assert (problem.duality_gap(best.x) < 1e-10).all()


def test_weights_are_repeated_rows():
    """A row of weight 3 is three rows, one of weight 0 is none."""
    A, y, b = normal(4, N), labels(1, 4), normal(1, 4, seed=2)
    counts = torch.tensor([3, 0, 1, 2])
    often, x = torch.arange(4).repeat_interleave(counts), normal(1, N, seed=4)
    weighted = Logistic(A, y, weights=counts.to(F64))
    torch.testing.assert_close(weighted.value(x) * 4, Logistic(A[often], y[:, often]).value(x) * 6)
    squares = WeightedLeastSquares(A, b, counts.to(F64), intercept=False)
    torch.testing.assert_close(squares.value(x), LeastSquares(A[often], b[:, often]).value(x))


def test_weights_of_one_change_nothing():
    A, y, b, x = normal(B, M, N), labels(B, M), normal(B, M, seed=2), normal(B, N, seed=3)
    ones = torch.ones(B, M, dtype=F64)
    for plain, weighted in (
        (Logistic(A, y), Logistic(A, y, weights=ones)),
        (LeastSquares(A, b), WeightedLeastSquares(A, b, ones, intercept=False)),
    ):
        r = L1(0.1), WeightedL1(torch.full((N,), 0.1, dtype=F64))
        one, other = Problem(plain, r[0]), Problem(weighted, r[1])
        for method in ("objective", "grad", "duality_gap", "kkt_residual"):
            torch.testing.assert_close(getattr(other, method)(x), getattr(one, method)(x), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(other.lipschitz(), one.lipschitz(), rtol=1e-12, atol=0)


def test_weighted_l1_is_l1_in_other_units():
    """With A scaled by s, sum_j w_j |x_j| of the one is |v|_1 of the other at v = w x."""
    A, b, w = normal(M, N), normal(B, M, seed=1), normal(N, seed=2).abs() + 0.5
    ours = sp.reference(Problem(LeastSquares(A, b), WeightedL1(0.3 * w)))
    theirs = sp.reference(sp.lasso(A / w, b, 0.3))
    torch.testing.assert_close(ours.x, theirs.x / w, rtol=1e-9, atol=1e-10)
    torch.testing.assert_close(ours.objective, theirs.objective, rtol=1e-11, atol=0)


def test_weighted_l1_prox_and_subdifferential():
    w, v, step = normal(B, N).abs(), normal(B, N, seed=1), normal(B, 1, seed=2).abs() + 0.1
    penalty = WeightedL1(w)
    result = penalty.prox(v, step)
    low, high = penalty.subdiff(result)
    slope = (v - result) / step
    assert (slope >= low - 1e-12).all()
    assert (slope <= high + 1e-12).all()
    assert (result == 0).any()
    torch.testing.assert_close(penalty.difference(v, result), penalty.value(v) - penalty.value(result))


@pytest.mark.parametrize("kind", KINDS)
def test_certified_solve_with_a_free_coordinate_ends_by_its_kkt_residual(kind):
    weights = 0.05 * torch.ones(N, dtype=F64)
    weights[-1] = 0
    problem = Problem(smooth(kind, shared=True), WeightedL1(weights))
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-9, max_iter=20_000)
    assert solution.converged.all()
    gradient = problem.grad(problem.start()).abs().amax(1)
    assert (problem.kkt_residual(solution.x) <= 1e-9 * gradient).all()
    assert (problem.grad(solution.x)[:, -1].abs() <= 1e-9 * gradient).all()
    assert (solution.x[:, -1] != 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_points_evaluated_together_are_evaluated_alone(kind):
    problem = Problem(smooth(kind, shared=True), WeightedL1(normal(B, N, seed=6).abs()))
    stack, x = Stacked(problem, 2), normal(B, 2, N, seed=7)
    z = stack.image(x)
    for k in range(2):
        torch.testing.assert_close(stack.grad(z)[:, k], problem.grad(x[:, k].contiguous()), rtol=1e-12, atol=1e-14)
    base, best = Points(x, z), Points(x[:, :1], z[:, :1])
    moved = x + 0.1 * normal(B, 2, N, seed=9)
    seen = stack.compare(Points(moved, stack.image(moved)), base, stack.grad(z), best, problem.lipschitz())
    expected = torch.stack([problem.objective(moved[:, k].contiguous()) for k in range(2)], 1)
    torch.testing.assert_close(seen.above, expected - problem.objective(x[:, 0].contiguous()).unsqueeze(1))
    assert (seen.curvature <= problem.lipschitz().unsqueeze(1) * (1 + 1e-12)).all()


@pytest.mark.parametrize("kind", KINDS)
def test_a_neighbour_changes_nothing(kind):
    problem = Problem(smooth(kind, shared=True), WeightedL1(0.05 + normal(B, N, seed=6).abs() / 10))
    together = sp.solve(problem, Certified(FISTA(restart=True)), tol=1e-8, max_iter=5000)
    for i in range(B):
        alone = sp.solve(problem.select(torch.tensor([i])), Certified(FISTA(restart=True)), tol=1e-8, max_iter=5000)
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-9, atol=1e-11)
        assert int(alone.iterations) == int(together.iterations[i])


def test_bad_weights_are_refused():
    A, y = normal(M, N), labels(2, M)
    refused(lambda: Logistic(A, y, weights=-torch.ones(M, dtype=F64)), "weights is -1", ">= 0")
    refused(lambda: Logistic(A, y, weights=torch.zeros(M, dtype=F64)), "zero for every row", "positive weight")
    refused(lambda: Logistic(A, y, weights=torch.ones(3, M, dtype=F64)), "weights has shape (3, 8)", "(2, 8)")
    refused(lambda: WeightedLeastSquares(A, y, torch.full((M,), torch.nan, dtype=F64)), "weights", "NaN")
    refused(lambda: WeightedL1(-torch.ones(N, dtype=F64)), "weights is -1", ">= 0")
    refused(lambda: WeightedL1(torch.tensor(1.0)), "weights has shape ()", "(n,) or (B, n)")


def test_weighted_l1_of_a_wrong_shape_is_refused():
    f = LeastSquares(normal(M, N), normal(2, M))
    refused(lambda: Problem(f, WeightedL1(torch.ones(N + 1, dtype=F64))), "weights has shape (6,)", "(5,)")
    refused(lambda: Problem(f, WeightedL1(torch.ones(3, N, dtype=F64))), "weights has shape (3, 5)", "(2, 5)")
