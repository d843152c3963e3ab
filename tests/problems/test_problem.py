"""Problem: the duality gap is a bound and is the textbook one, translation, KKT residual, conversions."""

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import sureprox as sp
from helpers import F64, labels, lam_max, normal, random_problem, refused, with_ratio
from sureprox.problems import L1, LeastSquares, Zero

KINDS = ["lasso", "logistic"]
RATIOS = [1e-6, 1e-2, 0.3, 0.999, 1.5, 100.0]


def textbook_dual(problem: sp.Problem, x: torch.Tensor) -> torch.Tensor:
    """The lower bounds l <= F* of THEORY.md, section 7.1, written out naively for problems that are not shifted."""
    f, lam = problem.f, problem.r.lam
    if isinstance(f, LeastSquares):
        rho = f.b - torch.einsum("bmn,bn->bm", f.A, x)
        bound = lam / torch.einsum("bmn,bm->bn", f.A, rho).abs().amax(1)
        c = ((f.b * rho).sum(1) / (rho * rho).sum(1)).clamp(-bound, bound)
        theta = c.unsqueeze(1) * rho
        return (f.b**2).sum(1) / 2 - ((theta - f.b) ** 2).sum(1) / 2
    sigma = torch.sigmoid(torch.einsum("bmn,bn->bm", f.A, x))
    gradient = torch.einsum("bmn,bm->bn", f.A, sigma - f.y) / f.m
    s = (lam / gradient.abs().amax(1)).clamp(max=1)
    v = f.y + s.unsqueeze(1) * (sigma - f.y)
    return -(torch.xlogy(v, v) + torch.xlogy(1 - v, 1 - v)).mean(1)


@given(seed=st.integers(0, 2**20), scale=st.sampled_from([0.01, 0.3, 3.0]), ratio=st.sampled_from(RATIOS))
@pytest.mark.parametrize("kind", KINDS)
def test_gap_is_the_textbook_primal_minus_dual(kind, seed, scale, ratio):
    problem = random_problem(kind, ratio=ratio, seed=seed)
    x = scale * normal(3, 12, seed=seed + 9)
    expected = problem.objective(x) - textbook_dual(problem, x)
    rounding = 1e-13 * (1 + problem.objective(x))
    assert ((problem.duality_gap(x) - expected).abs() <= rounding).all()


@given(
    seed=st.integers(0, 2**20),
    scale=st.sampled_from([0.0, 1e-3, 0.3, 5.0]),
    ratio=st.sampled_from(RATIOS),
    shift=st.sampled_from([None, 10.0, "vector"]),
)
@settings(max_examples=25)
@pytest.mark.parametrize("kind", KINDS)
def test_gap_bounds_the_suboptimality(kind, seed, scale, ratio, shift):
    plain = random_problem(kind, batch=2, m=30, n=4, ratio=ratio, seed=seed)  # tall, so that a tiny lam is solvable
    best = sp.reference(plain)
    t = 0.0 if shift is None else shift if isinstance(shift, float) else normal(2, 4, seed=seed + 1)
    problem = plain if shift is None else plain.shifted(t)
    for x in (scale * normal(2, 4, seed=seed + 9), best.x - t + scale * normal(2, 4, seed=seed + 3)):
        above = problem.objective(x) - best.objective
        assert (problem.duality_gap(x) >= above - 1e-12 * (1 + problem.objective(x))).all()


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("kind", KINDS)
def test_gap_and_kkt_vanish_at_the_solution_and_only_there(kind, ratio):
    problem = random_problem(kind, m=30, n=12, ratio=ratio)
    best = sp.reference(problem)
    assert (problem.duality_gap(best.x) <= 1e-12 * best.objective).all()
    assert (problem.kkt_residual(best.x) <= 1e-5 * lam_max(problem)).all()
    away = best.x + 0.1 * normal(3, 12)
    assert (problem.duality_gap(away) > 1e-6 * best.objective).all()
    assert (problem.kkt_residual(away) > 1e-6 * lam_max(problem)).all()


@pytest.mark.parametrize("away", [1e-3, 1e-6, 1e-9])
def test_logistic_gap_keeps_its_digits_near_the_solution(away):
    """A gap of 1e-20 is computed to three digits where primal minus dual in float64 would be rounding alone."""
    A, y = normal(1, 6, 1), labels(1, 6)
    problem = with_ratio("logistic", A, y, 0.5)
    x = sp.reference(problem, tol=1e-13).x * (1 - away)
    with mpmath.workdps(60):
        a, b, z = A[0, :, 0].tolist(), y[0].tolist(), mpmath.mpf(float(x))
        lam = mpmath.mpf(float(problem.r.lam))
        sigma = [1 / (1 + mpmath.exp(-mpmath.mpf(ai) * z)) for ai in a]
        gradient = sum(mpmath.mpf(ai) * (s - bi) for ai, s, bi in zip(a, sigma, b, strict=True)) / 6
        s = min(mpmath.mpf(1), lam / abs(gradient))
        v = [bi + s * (si - bi) for bi, si in zip(b, sigma, strict=True)]
        dual = -sum(vi * mpmath.log(vi) + (1 - vi) * mpmath.log(1 - vi) for vi in v) / 6
        margins = [mpmath.mpf(ai) * z for ai in a]
        primal = sum(mpmath.log1p(mpmath.exp(zi)) - bi * zi for zi, bi in zip(margins, b, strict=True)) / 6
        gap = primal + lam * abs(z) - dual
    assert float(problem.duality_gap(x)) == pytest.approx(float(gap), rel=1e-6, abs=1e-17 * float(lam * abs(z)))


@pytest.mark.parametrize("kind", KINDS)
def test_gap_without_penalty_is_still_a_bound(kind):
    problem = random_problem(kind, m=20, n=4, ratio=0.0)
    x = normal(3, 4, seed=8)
    best = sp.reference(problem).objective
    assert (problem.duality_gap(x) >= problem.objective(x) - best - 1e-12).all()
    unpenalised = sp.Problem(problem.f, Zero())
    torch.testing.assert_close(unpenalised.duality_gap(x), problem.duality_gap(x), rtol=1e-13, atol=0)


def test_kkt_residual_is_the_distance_to_the_subdifferential():
    problem = random_problem("lasso", batch=2, n=5)
    x = normal(2, 5, seed=3) * (normal(2, 5, seed=4) > 0)
    g, lam = problem.grad(x), problem.r.lam
    for i in range(2):
        distances = []
        for j in range(5):
            if x[i, j] == 0:
                distances.append(max(0.0, abs(float(g[i, j])) - float(lam[i])))
            else:
                distances.append(abs(float(g[i, j] + lam[i] * torch.sign(x[i, j]))))
        assert float(problem.kkt_residual(x)[i]) == pytest.approx(max(distances), rel=1e-12)


def test_subgradient_is_gradient_plus_the_middle_of_the_box():
    problem = random_problem("lasso", batch=2, n=5)
    x = normal(2, 5, seed=3) * (normal(2, 5, seed=4) > 0)
    expected = problem.grad(x) + problem.r.lam.unsqueeze(1) * torch.sign(x)
    torch.testing.assert_close(problem.subgradient(x), expected, rtol=1e-14, atol=0)


SHIFTS = {"number": 10.0, "integer": -3, "row": normal(12, seed=20), "column": normal(3, 1), "all": normal(3, 12)}


@pytest.mark.parametrize("t", SHIFTS.values(), ids=SHIFTS)
@pytest.mark.parametrize("kind", KINDS)
def test_shifted_is_the_problem_at_x_plus_t(kind, t):
    problem = random_problem(kind)
    moved = problem.shifted(t)
    x = normal(3, 12, seed=6)
    y = x + t
    step = normal(3, 12, seed=7).abs()
    for method in ("objective", "grad", "kkt_residual", "duality_gap", "subgradient"):
        torch.testing.assert_close(getattr(moved, method)(x), getattr(problem, method)(y), rtol=1e-13, atol=0)
    for ours, theirs in zip(moved.subdiff(x), problem.subdiff(y), strict=True):
        assert torch.equal(ours, theirs)
    torch.testing.assert_close(moved.prox(x, step), problem.prox(y, step) - t, rtol=1e-13, atol=1e-14)
    assert torch.equal(moved.lipschitz(), problem.lipschitz())
    assert "shifted" in repr(moved)


def test_shifts_add_and_leave_the_original_alone():
    problem = random_problem("lasso")
    x, t = normal(3, 12, seed=6), normal(3, 12, seed=7)
    torch.testing.assert_close(problem.shifted(2.0).shifted(t).objective(x), problem.shifted(2.0 + t).objective(x))
    torch.testing.assert_close(problem.shifted(t).shifted(-t).objective(x), problem.objective(x), rtol=1e-12, atol=0)
    assert problem.shift is None


def test_gradients_flow_to_the_shift():
    t = normal(3, 12, seed=7).requires_grad_()
    moved = random_problem("lasso").shifted(t)
    assert moved.requires_grad
    x = normal(3, 12, seed=6)
    (gradient,) = torch.autograd.grad(moved.objective(x).sum(), t)
    torch.testing.assert_close(gradient, moved.subgradient(x), rtol=1e-12, atol=1e-13)


def test_bad_shifts_are_refused():
    problem = random_problem("lasso")
    refused(lambda: problem.shifted(torch.zeros(4, 12)), "t has shape (4, 12)", "(3, 12)")
    refused(lambda: problem.shifted(float("nan")), "t has 1 entries that are NaN or infinite")
    refused(lambda: problem.shifted("far"), "t is a str", "pass a number")
    refused(lambda: problem.shifted(None), "t is a NoneType")


def test_step_size_is_one_over_L_and_one_where_L_is_zero():
    A = normal(2, 4, 6)
    A[1] = 0
    problem = sp.lasso(A, normal(2, 4), 0.1)
    assert float(problem.step_size()[0] * problem.lipschitz()[0]) == pytest.approx(1)
    assert float(problem.step_size()[1]) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_numpy_and_lists_are_the_same_problem(kind):
    A, rhs, lam = normal(2, 4, 6), labels(2, 4), torch.tensor([0.1, 0.2], dtype=F64)
    make, x = getattr(sp, kind), normal(2, 6, seed=2)
    expected = make(A, rhs, lam).objective(x)
    for given_lam in (lam.numpy(), [0.1, 0.2], (0.1, 0.2)):
        assert torch.equal(make(A.numpy(), rhs.numpy(), given_lam).objective(x), expected)
    assert torch.equal(make(A, rhs.tolist(), lam).objective(x), expected)
    swapped = A.numpy().astype(">f8")
    assert torch.equal(make(swapped, rhs.numpy()[::-1][::-1], lam).objective(x), expected)
    torch.testing.assert_close(make(A, rhs, np.float64(0.1)).objective(x), make(A, rhs, 0.1).objective(x))
    from_lists = make(A.tolist(), rhs.tolist(), 0.1)
    assert from_lists.dtype == F64


def test_numpy_data_is_copied():
    A, b = normal(2, 4, 6).numpy(), normal(2, 4).numpy()
    problem = sp.lasso(A, b, 0.1)
    x = normal(2, 6)
    before = problem.objective(x)
    A[:] = 0
    b[:] = 0
    assert torch.equal(problem.objective(x), before)


@pytest.mark.parametrize("given_labels", ["bool", "int64", "uint8", "int32"])
def test_labels_may_be_integers_or_booleans(given_labels):
    A, y, x = normal(2, 4, 6), labels(2, 4), normal(2, 6)
    expected = sp.logistic(A, y, 0.1).objective(x)
    assert torch.equal(sp.logistic(A, y.to(getattr(torch, given_labels)), 0.1).objective(x), expected)
    assert torch.equal(sp.logistic(A, y.numpy().astype(given_labels), 0.1).objective(x), expected)
    assert torch.equal(sp.logistic(A, y.long().tolist(), 0.1).objective(x), expected)


@pytest.mark.parametrize("kind", KINDS)
def test_one_right_hand_side_for_all_instances(kind):
    A, rhs = normal(3, 4, 6), labels(1, 4)
    make, x = getattr(sp, kind), normal(3, 6)
    torch.testing.assert_close(make(A, rhs[0], 0.1).objective(x), make(A, rhs.expand(3, 4), 0.1).objective(x))
    alone = make(A[0], rhs[0], 0.1)
    assert (alone.batch, alone.n) == (1, 6)


@pytest.mark.parametrize("kind", KINDS)
def test_to_another_precision_and_back(kind):
    problem = random_problem(kind).shifted(normal(3, 12, seed=2))
    low = problem.to(dtype=torch.float32)
    assert problem.dtype == F64
    assert {low.dtype, low.r.lam.dtype, low.shift.dtype} == {torch.float32}
    x = normal(3, 12, seed=3)
    assert low.objective(x.float()).dtype == torch.float32
    torch.testing.assert_close(low.objective(x.float()).double(), problem.objective(x), rtol=1e-5, atol=0)
    torch.testing.assert_close(low.lipschitz().double(), problem.lipschitz(), rtol=1e-4, atol=0)
    same = problem.to(dtype=F64)
    assert same.f.A.data_ptr() == problem.f.A.data_ptr()


def test_scale_is_measured_at_the_origin_of_the_unshifted_problem():
    problem = random_problem("lasso")
    for moved in (problem, problem.shifted(7.0)):
        value, gradient = moved.scale()
        torch.testing.assert_close(value, 0.5 * problem.f.b.square().sum(1))
        torch.testing.assert_close(gradient, lam_max(problem))


def test_wrong_parts_are_refused():
    f, r = LeastSquares(normal(2, 3, 4), normal(2, 3)), L1(0.1)
    refused(lambda: sp.Problem(r, f), "f is a L1 without grad, lipschitz", "it needs value, grad, lipschitz")
    refused(lambda: sp.Problem(f, L1), "r is the class L1", "pass an object made of it")
    refused(lambda: sp.Problem(LeastSquares, r), "f is the class LeastSquares", "pass an object made of it")
    refused(lambda: sp.Problem(f, 0.1), "r is a float without value, prox, subdiff", "it needs value, prox, subdiff")
    refused(lambda: sp.Problem(f, L1(torch.ones(3))), "lam has shape (3,)", "a batch of 2", "(2,)")


def test_repr_says_what_it_is():
    assert repr(random_problem("lasso")) == "Problem(LeastSquares + L1, batch=3, n=12, torch.float64, cpu)"


def test_one_a_one_b_and_many_lam_are_a_path():
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    b = torch.randn(5, generator=generator, dtype=torch.float64)
    lams = torch.linspace(0.1, 1, 7, dtype=torch.float64)
    path = sp.reference(sp.lasso(A, b, lams))
    for i, lam in enumerate(lams.tolist()):
        alone = sp.reference(sp.lasso(A, b, lam))
        torch.testing.assert_close(path.objective[i : i + 1], alone.objective, rtol=1e-11, atol=0)


@pytest.mark.parametrize(
    ("point", "words"),
    [
        (torch.zeros(2, 5, dtype=torch.float64), r"a tensor \(2, 4\), got shape \(2, 5\)"),
        (torch.zeros(4, dtype=torch.float64), r"a tensor \(2, 4\), got shape \(4,\)"),
        (torch.zeros(2, 4), "the point has dtype torch.float32, the problem torch.float64"),
    ],
)
def test_a_point_that_does_not_fit_is_refused(point, words):
    problem = sp.lasso(torch.ones(2, 3, 4, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64), 0.1)
    with pytest.raises(sp.InputError, match=words):
        problem.centred.__wrapped__(problem, point) if hasattr(problem.centred, "__wrapped__") else problem.objective(
            point
        )


def test_a_matrix_without_data_is_refused():
    with pytest.raises(sp.InputError, match="A is on the device 'meta', which holds no data"):
        sp.lasso(torch.ones(2, 3, 4, device="meta"), torch.ones(2, 3), 0.1)
