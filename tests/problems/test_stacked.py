"""Several points per instance at one read of A: against one point at a time, and in float32 against float64."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from helpers import F64, normal, random_problem
from sureprox.problems import L1, LeastSquares, Logistic, Zero
from sureprox.problems.forms import along, scaled
from sureprox.problems.stacked import Points, Stacked, is_still

KINDS = pytest.mark.parametrize("kind", ["lasso", "logistic"])
COUNT = 3


class Unknown(LeastSquares):
    """A subclass: what it inherits from `stacked` cannot be trusted."""


def make(kind: str, shared: bool = False, own: bool = False, shift: float | None = None) -> sp.Problem:
    problem = random_problem(kind, batch=2, shared=shared)
    if own:
        problem = sp.Problem(Unknown(problem.f.A, problem.f.b), problem.r)
    return problem if shift is None else problem.shifted(shift)


def steps(problem: sp.Problem, at: Tensor, length: float) -> tuple[Stacked, Points, Points, Tensor, Tensor]:
    """K proximal steps of that length, in units of 1/L, from `at` (B, K, n): stack, new points, bases, gradients, L."""
    stack = Stacked(problem, at.shape[1])
    base = Points(at, stack.image(at))
    g = stack.grad(base.z)
    step = length * problem.step_size()
    new = stack.proximal_step(at, g, step)
    return stack, Points(new, stack.image(new)), base, g, 1 / step


@KINDS
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("shift", [None, 0.7])
def test_stacked_is_one_point_at_a_time(kind, shared, shift):
    problem, x = make(kind, shared, shift=shift), normal(2, COUNT, 12, seed=4)
    stack, step = Stacked(problem, COUNT), torch.tensor([0.3, 0.5], dtype=F64)
    g, p = stack.grad(stack.image(x)), stack.prox(x, step)
    for j in range(COUNT):
        torch.testing.assert_close(g[:, j], problem.grad(x[:, j]), rtol=1e-13, atol=1e-14)
        torch.testing.assert_close(p[:, j], problem.prox(x[:, j], step.unsqueeze(1)), rtol=1e-14, atol=1e-15)
    mixed = 1.4 * x[:, :1] - 0.4 * x[:, 1:2]  # images are affine
    z = stack.image(x)
    image = Stacked(problem, 1).image(mixed)
    torch.testing.assert_close(1.4 * z[:, :1] - 0.4 * z[:, 1:2], image, rtol=1e-12, atol=1e-13)


def test_structure_of_a_subclass_is_not_relied_upon():
    problem, x = make("lasso", own=True, shift=0.3), normal(2, COUNT, 12, seed=4)
    stack, known = Stacked(problem, COUNT), Stacked(make("lasso", shift=0.3), COUNT)
    assert stack.linear is None
    assert known.linear is not None
    torch.testing.assert_close(stack.grad(stack.image(x)), known.grad(known.image(x)), rtol=1e-12, atol=1e-13)


@KINDS
@pytest.mark.parametrize("length", [0.5, 1.0, 30.0])
@pytest.mark.parametrize("own", [False, True])
def test_comparison_against_plain_values(kind, length, own):
    if own and kind == "logistic":
        pytest.skip("the own problem here is a LASSO problem")
    problem = make(kind, own=own, shift=0.3)
    at = 3 * normal(2, COUNT, 12, seed=4)
    stack, new, base, g, L = steps(problem, at, length)
    best = normal(2, 1, 12, seed=5)
    seen = stack.compare(new, base, g, Points(best, Stacked(problem, 1).image(best)), L)
    f = problem.f
    for j in range(COUNT):
        x, y = new.x[:, j], at[:, j]
        true = problem.objective(x) - problem.objective(best[:, 0])
        torch.testing.assert_close(seen.above[:, j], true, rtol=1e-11, atol=1e-12)
        bend = f.value(x + 0.3) - f.value(y + 0.3) - (g[:, j] * (x - y)).sum(1)
        torch.testing.assert_close(seen.curvature[:, j], 2 * bend / (x - y).square().sum(1), rtol=1e-9, atol=1e-12)
        assert (seen.curvature[:, j] <= problem.lipschitz(exact=True) * (1 + 1e-12)).all()
        torch.testing.assert_close(seen.move[:, j], (x - y).norm(dim=1) / x.norm(dim=1), rtol=1e-12, atol=0)


@KINDS
@pytest.mark.parametrize("scale", [1e-1, 1e-3, 1e-5])
def test_float32_comparison_of_close_points_is_an_upper_bound_with_digits_that_values_do_not_have(kind, scale):
    problem = random_problem(kind, batch=8, m=40, n=30).to(dtype=torch.float32)
    exact = problem.to(dtype=F64)
    centre = sp.reference(exact, tol=1e-10).x
    at = (centre.unsqueeze(1) + scale * normal(8, COUNT, 30, seed=4)).float()
    best = (centre + scale * normal(8, 30, seed=5)).float().unsqueeze(1)
    stack, new, base, g, L = steps(problem, at, 1.0)
    seen = stack.compare(new, base, g, Points(best, Stacked(problem, 1).image(best)), L)
    value = exact.objective(best[:, 0].double())
    true = torch.stack([exact.objective(new.x[:, j].double()) - value for j in range(COUNT)], 1)
    error = seen.above.double() - true
    noise = 1e-15 * value.unsqueeze(1)
    assert (error >= -noise).all()
    assert float(error.max()) <= 400 * scale * torch.finfo(torch.float32).eps * float(value.max())


def test_lost_points_are_infinitely_far_above():
    problem = make("lasso")
    at = normal(2, COUNT, 12, seed=4)
    stack, new, base, g, L = steps(problem, at, 1.0)
    x = new.x.clone()
    x[0, 0], x[0, 1, 3], x[1, 2] = torch.nan, torch.inf, 1e200
    seen = stack.compare(Points(x, stack.image(x)), base, g, Points(at[:, :1], base.z[:, :1]), L)
    lost = torch.tensor([[True, True, False], [False, False, True]])
    assert torch.equal(torch.isinf(seen.above), lost)
    assert (seen.above[lost] > 0).all()
    assert torch.isfinite(seen.curvature[~lost]).all()
    assert not (seen.curvature[lost] <= L.max()).any()


def test_a_move_of_rounding_size_is_still_and_says_nothing_about_curvature():
    problem = make("lasso")
    at = normal(2, 1, 12, seed=4)
    stack = Stacked(problem, 1)
    base = Points(at, stack.image(at))
    near = at * (1 + 2 * torch.finfo(F64).eps)
    seen = stack.compare(Points(near, stack.image(near)), base, stack.grad(base.z), base, torch.ones(2, dtype=F64))
    assert is_still(seen.move).all()
    assert (seen.curvature == 0).all()
    assert not is_still(torch.tensor([1e-10], dtype=F64)).any()


@pytest.mark.parametrize("far", [1.0, 5.0, 30.0])
@pytest.mark.parametrize("size", [1e-6, 1e-3, 0.3, 1.0, 3.0, 60.0])
def test_bregman_divergence_of_the_logistic_loss_keeps_its_digits(size, far):
    """D = int_0^1 (1 - s) sigma'(t + s d) d^2 ds by quadrature, no cancellation in it."""
    f = Logistic(normal(1, 40, 5), (normal(1, 40, seed=1) > 0).to(F64))
    at, d = far * normal(1, 40, seed=2), size * normal(1, 40, seed=3)
    nodes = (torch.arange(20000, dtype=F64) + 0.5) / 20000
    z = at.unsqueeze(2) + nodes * d.unsqueeze(2)
    integrand = (1 - nodes) * torch.sigmoid(z) * torch.sigmoid(-z) * d.unsqueeze(2).square()
    torch.testing.assert_close(f.bregman(d, at), integrand.mean(2).mean(1), rtol=1e-5, atol=0)
    torch.testing.assert_close(f.bregman(-d, -at), f.bregman(d, at), rtol=1e-15, atol=0)
    for t, step in ((1000.0, 3.0), (-1000.0, 3.0), (1000.0, 1e-3), (1000.0, -2000.0), (-1000.0, 2000.0)):
        one = f.bregman(torch.full_like(d, step), torch.full_like(at, t))
        assert one.item() == pytest.approx(max(0.0, abs(step) - abs(t)), rel=1e-12)
    assert (2 * f.bregman(d, at) <= f.steepness * d.square().sum(1) * (1 + 1e-9)).all()


@pytest.mark.parametrize("r", [L1(0.3), L1(torch.tensor([0.1, 0.4], dtype=F64)), Zero()])
def test_difference_of_the_penalty(r):
    x, y = normal(2, 6), normal(2, 6, seed=1)
    torch.testing.assert_close(r.difference(x, y), r.value(x) - r.value(y), rtol=1e-12, atol=1e-14)


CHAINS = {
    "own": lambda A, y: sp.losses.LeastSquares(A, y),
    "shared": lambda A, y: sp.losses.LeastSquares(A[0], y),
    "logistic": lambda A, y: sp.losses.Logistic(A, (y > 0).to(y.dtype), weights=y.abs()),
    "standardized": lambda A, y: sp.losses.LeastSquares(sp.operators.Standardized(sp.operators.Dense(A), A.mean(1)), y),
    "centred alike": lambda A, y: sp.losses.LeastSquares(sp.operators.Standardized(sp.operators.Dense(A), A[0, 0]), y),
}


@pytest.mark.parametrize("name", CHAINS)
@pytest.mark.parametrize("index", [torch.tensor([7, 0, 4]), torch.arange(12) % 5 == 2], ids=["numbers", "mask"])
def test_points_that_share_an_A_can_be_cut(name, index):
    """Rows i K + k of f + t_ik r are instance i with the penalty t_ik r."""
    A, y, x = normal(3, 5, 4), normal(3, 5, seed=1), normal(12, 4, seed=2)
    given, scales = sp.Problem(CHAINS[name](A, y), sp.penalties.ElasticNet(0.3, 0.2)), 1 + normal(3, 4, seed=3).abs()
    part = along(given, scales).select(index)
    rows = torch.arange(12)[index]
    expected = scaled(given.select(rows // 4), scales.reshape(-1)[rows])
    assert part.batch == len(rows)
    torch.testing.assert_close(part.objective(x[index]), expected.objective(x[index]))
    torch.testing.assert_close(part.grad(x[index]), expected.grad(x[index]))
    torch.testing.assert_close(part.lipschitz(exact=True), expected.lipschitz(exact=True))
