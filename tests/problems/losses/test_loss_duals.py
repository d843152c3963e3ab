"""Conjugates and duality gaps of the losses: against brute force, high precision, and solutions."""

import mpmath
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sureprox as sp
from helpers import F64, normal
from loss_cases import NAMES, POINTWISE, B, K, M, N, full, loss, point, row_weights
from sureprox.problems import L1, Huber, Logistic, Poisson, Problem, Quantile, Softmax, SquaredHinge, WeightedL1
from sureprox.problems.free import free_gap, has_free_gap
from sureprox.problems.losses.functions import exp_above_line, log_below_line, relative_entropy

every = pytest.mark.parametrize("name", NAMES)
one_number = pytest.mark.parametrize("name", POINTWISE)


def test_functions_of_one_number_have_all_their_digits():
    with mpmath.workdps(60):
        for text in ("1e-14", "1e-7", "0.01", "0.2", "0.2499", "0.2501", "0.9", "3"):
            for sign in (1, -1):
                r = sign * float(text)
                want = float(mpmath.exp(mpmath.mpf(r)) - 1 - mpmath.mpf(r))
                assert float(exp_above_line(torch.tensor(r, dtype=F64))) == pytest.approx(want, rel=1e-13, abs=0)
                if r > -1:
                    want = float(mpmath.mpf(r) - mpmath.log1p(mpmath.mpf(r)))
                    assert float(log_below_line(torch.tensor(r, dtype=F64))) == pytest.approx(want, rel=1e-13, abs=0)
        for q in (0.0, 1e-300, 1e-5, 1.0, 1e3):
            for mu in (1e-280, 1e-5 * (1 + 1e-9), 1.0 + 1e-7, 1e3 - 1e-3, 1e6):
                want = mpmath.mpf(mu) - mpmath.mpf(q) + (mpmath.mpf(q) * mpmath.log(mpmath.mpf(q) / mu) if q else 0)
                excess = float(mpmath.mpf(mu) - mpmath.mpf(q))
                numbers = (torch.tensor(value, dtype=F64) for value in (q, mu, excess, float(mpmath.log(mu))))
                assert float(relative_entropy(*numbers)) == pytest.approx(float(want), rel=1e-11, abs=0)


def feasible(f, seed: int) -> torch.Tensor:
    """Random v of the dual domain, at its ends too."""
    low, high = (torch.as_tensor(end, dtype=F64).expand(B, f.m) for end in f.dual_domain)
    share = torch.rand(B, f.m, generator=torch.Generator().manual_seed(seed), dtype=F64)
    low, high = low.clamp(min=-3), high.clamp(max=3)
    return low + (high - low) * share


@one_number
def test_the_conjugate_is_the_largest_difference(name):
    f = loss(name)
    if name == "least squares":
        pytest.skip("its gap has a closed form of its own")
    v = feasible(f, 0) * 0.97
    grid = torch.linspace(-40, 120, 80_001, dtype=F64).unsqueeze(1).expand(-1, M)
    found, terms = f.conjugates(v), f.select(torch.tensor([0])).terms(grid)
    brute = (v[:1] * grid - terms).amax(0)
    torch.testing.assert_close(found[0], brute, rtol=0, atol=1e-3 if name == "poisson" else 1e-4)
    assert (brute.abs() > 0.01).any()
    outside = v + 1e3 if name != "poisson" else v - 1e3
    if name != "squared hinge":
        assert torch.isinf(f.conjugates(outside)).all()
        assert torch.isinf(f.divergence(torch.ones_like(v), outside)).all()


@pytest.mark.parametrize("size", [0.1, 1.0, 5.0])
@one_number
def test_the_divergence_is_what_fenchel_and_young_say(name, size):
    f = loss(name)
    z = f.inner(point(name, size=size))
    if name == "least squares":
        return
    for seed in range(5):
        v = feasible(f, seed)
        v = v * (1 - 1e-9) if "poisson identity" in name else v
        gap = f.divergence(z, v)
        assert (gap >= 0).all()
        torch.testing.assert_close(gap, f.terms(z) + f.conjugates(v) - v * z, rtol=1e-9, atol=1e-9)
    u = f.slopes(z)
    assert (f.divergence(z, u) <= 1e-13 * (1 + f.terms(z))).all()
    for share in (1e-3, 1e-6):  # of second order, and to all digits: half the curvature times the square
        small = f.divergence(z, u * (1 - share)) / share**2
        smaller = f.divergence(z, u * (1 - share / 10)) / (share / 10) ** 2
        bent = f.curvatures(z) > 0
        near = bent & (u.abs() > 1e-3) & (u.abs() < 0.5)
        torch.testing.assert_close(small[near], smaller[near], rtol=0.05, atol=1e-9)


def test_the_divergence_of_softmax_sums_to_a_relative_entropy():
    f = loss("softmax")
    z = f.inner(point("softmax"))
    q = torch.rand(B, K, M, generator=torch.Generator().manual_seed(0), dtype=F64)
    q = q / q.sum(1, keepdim=True)
    v = (q - torch.nn.functional.one_hot(f.y.long(), K).mT).flatten(1)
    p = z.view(B, K, M).softmax(1)
    expected = (q * (q / p).log()).sum(1)
    found = f.divergence(z, v)
    assert (found >= 0).all()
    torch.testing.assert_close(found.view(B, K, M).sum(1), expected, rtol=1e-11, atol=1e-13)
    fenchel = f.terms(z) + f.conjugates(v) - (v * z).view(B, K, M).sum(1)
    torch.testing.assert_close(expected, fenchel, rtol=1e-10, atol=1e-12)


@every
def test_fenchel_young_is_the_divergence_at_the_scaled_slopes(name):
    f = full(name)
    z = f.inner(point(name))
    for s in (0.0, 0.3, 0.999, 1.0):
        scale = torch.full((B,), s, dtype=F64)
        expected = f.total(f.divergence(z, s * f.slopes(z)))
        torch.testing.assert_close(f.fenchel_young(z, scale), expected, rtol=1e-9, atol=1e-13)
    assert (f.fenchel_young(z, torch.ones(B, dtype=F64)) <= 1e-14).all()


GAPS = {
    "huber": lambda A, y, w: Huber(A, 5 * y, 0.5, w),
    "quantile": lambda A, y, w: Quantile(A, y, 0.8, 0.3, w),
    "squared hinge": lambda A, y, w: SquaredHinge(A, (y > 0).to(F64), w),
    "logistic": lambda A, y, w: Logistic(A, (y > 0).to(F64), weights=w),
    "poisson": lambda A, y, w: Poisson(A, (3 * y.abs()).floor(), weights=w),
    "softmax": lambda A, y, w: Softmax(A, (2 * y.abs()).floor().clamp(max=2), 3, w),
}


@pytest.mark.parametrize("penalty", ["l1", "weighted"])
@pytest.mark.parametrize("name", GAPS)
@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**20),
    scale=st.sampled_from([1e-3, 1.0, 1e2]),
    ratio=st.sampled_from([1e-3, 0.1, 0.9]),
    size=st.sampled_from([1e-8, 1e-3, 1.0]),
)
def test_the_gap_bounds_the_distance_of_any_two_points(name, penalty, seed, scale, ratio, size):
    """F(x) - gap(x) <= F* <= F(x') for all x and x': nothing has to be solved."""
    A, y = scale * normal(2, 6, 4, seed=seed), normal(2, 6, seed=seed + 1)
    f = GAPS[name](A, y, normal(2, 6, seed=seed + 2).abs() + 0.1)
    lam = ratio * f.grad(torch.zeros(f.shape, dtype=F64)).abs().amax(1)
    r = L1(lam) if penalty == "l1" else WeightedL1(lam.unsqueeze(1) * (1 + normal(*f.shape, seed=seed + 4).abs()))
    problem = Problem(f, r)
    points = [torch.zeros(f.shape, dtype=F64)]
    step = problem.step_size(f.lipschitz(exact=True)).unsqueeze(1) / (8 if name == "poisson" else 1)
    for _ in range(20):
        points.append(problem.proximal_step(points[-1], step))
    points.append(points[-1] + size / scale * normal(*f.shape, seed=seed + 3))
    values = torch.stack([problem.objective(x) for x in points])
    bounds = values - torch.stack([problem.duality_gap(x) for x in points])
    lowest = values.amin(0)
    assert (bounds.amax(0) <= lowest + 1e-12 * values[0]).all()
    assert (problem.duality_gap(points[0]) < torch.inf).all()


@every
def test_a_subclass_has_no_gap(name):
    f = loss(name)

    class Own(type(f)):
        pass

    own = Own.trusted(**vars(f))
    assert Problem(f, L1(0.1)).has_duality_gap
    assert has_free_gap(Problem(f, L1(0.1)))
    assert not Problem(own, L1(0.1)).has_duality_gap
    assert not own.can_stack


FREE = tuple(name for name in NAMES if name != "poisson identity")


@pytest.mark.parametrize("name", FREE)
def test_the_gap_with_free_coordinates_bounds_the_distance_and_vanishes_at_the_solution(name):
    f = full(name)
    weights = 0.1 * f.grad(torch.zeros(f.shape, dtype=F64)).abs().amax(1, keepdim=True).expand(f.shape).clone()
    weights[:, 0] = 0
    weights[:, N - 2] = 0
    problem = Problem(f, WeightedL1(weights))
    best = sp.solve(problem, tol=1e-11, max_iter=4000)
    assert best.converged.all()
    assert (best.x[:, 0] != 0).all()
    assert (free_gap(problem, best.x) <= 1e-10 * best.objective).all()
    for size in (1e-5, 1e-2, 1.0):
        x = best.x + size * normal(*f.shape, seed=7)
        gap, value = free_gap(problem, x), problem.objective(x)
        assert (gap >= value - best.objective - 1e-11 * value).all()
        assert (gap <= value).all()
    near = free_gap(problem, best.x + 1e-5 * normal(*f.shape, seed=7))
    assert (near < 0.05 * best.objective).all()


def test_where_all_rows_are_outliers_there_is_no_dual_point_but_zero():
    A, weights = normal(2, 6, 3), torch.tensor([0.0, 0.1, 0.1], dtype=F64)
    problem = Problem(Huber(A, 1e6 + normal(2, 6), 1e-3), WeightedL1(weights))
    x = torch.zeros(2, 3, dtype=F64)
    assert (problem.f.curvatures(problem.f.inner(x)) == 0).all()
    assert torch.equal(free_gap(problem, x), problem.objective(x))


def test_rows_of_weight_zero_do_not_count():
    f = full("huber")
    moved = f.b.clone()
    moved[:, 2] = 1e6
    other = Huber(f.A, moved, 0.7, row_weights())
    x, r = point("huber"), L1(0.5)
    same = Huber(f.A, f.b, 0.7, row_weights())
    for method in ("objective", "grad", "duality_gap"):
        torch.testing.assert_close(getattr(Problem(other, r), method)(x), getattr(Problem(same, r), method)(x))
