"""Smooth parts: values against naive formulas, gradients against autograd, logistic at any margin."""

import mpmath
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sureprox as sp
from helpers import F64, labels, normal, random_problem
from sureprox.problems import LeastSquares, Logistic


def naive_value(f, i: int, x: torch.Tensor) -> torch.Tensor:
    A = f.A if f.A.ndim == 2 else f.A[i]
    z = A @ x
    if isinstance(f, LeastSquares):
        return ((z - f.b[i]) ** 2).sum() / 2
    return (torch.log(1 + torch.exp(z)) - f.y[i] * z).sum() / len(z)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_value_is_the_formula(kind, shared):
    f = random_problem(kind, shared=shared).f
    x = normal(3, 12, seed=5)
    expected = torch.stack([naive_value(f, i, x[i]) for i in range(3)])
    torch.testing.assert_close(f.value(x), expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize("shared", [False, True])
@given(seed=st.integers(0, 2**20), scale=st.sampled_from([0.0, 1e-3, 1.0, 50.0]))
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_gradient_is_autograd_of_value(kind, shared, seed, scale):
    f = random_problem(kind, seed=seed, shared=shared).f
    x = (scale * normal(3, 12, seed=seed + 7)).requires_grad_()
    (expected,) = torch.autograd.grad(f.value(x).sum(), x)
    torch.testing.assert_close(f.grad(x), expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_hessian_is_the_square_of_its_root(kind):
    f = random_problem(kind, batch=1).f
    x = normal(1, 12, seed=3)
    hessian = torch.autograd.functional.hessian(lambda v: f.value(v.unsqueeze(0))[0], x[0])
    root = f.hessian_root(x, f.A)[0]
    expected = root.T @ root
    torch.testing.assert_close(hessian, expected, rtol=1e-11, atol=1e-13)


@pytest.mark.parametrize("margin", [0.0, 1e-8, 1.0, 30.0, 39.9, 40.1, 700.0, 1e4, 1e300])
@pytest.mark.parametrize("sign", [-1.0, 1.0])
@pytest.mark.parametrize("label", [0.0, 1.0])
def test_logistic_at_any_margin(label, sign, margin):
    """log(1 + e^z) - y z and sigmoid(z) - y, compared with 60 digits."""
    z = sign * margin
    f = Logistic(torch.ones(1, 1, 1, dtype=F64), torch.tensor([[label]], dtype=F64))
    x = torch.tensor([[z]], dtype=F64)
    with mpmath.workdps(60):
        u = mpmath.mpf((1 - 2 * label) * z)
        value = float(u + mpmath.log1p(mpmath.exp(-u)) if u > 0 else mpmath.log1p(mpmath.exp(u)))
        slope = float((1 - 2 * label) / (1 + mpmath.exp(-u)))
    assert float(f.value(x)) == pytest.approx(value, rel=1e-14, abs=0)
    assert float(f.grad(x)) == pytest.approx(slope, rel=1e-14, abs=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_logistic_stays_finite_with_rows_of_huge_margin(dtype):
    A = 1e4 * torch.tensor([[[1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]], dtype=dtype)
    problem = sp.logistic(A, torch.tensor([[0.0, 1.0, 0.0]], dtype=dtype), 0.1)
    x = torch.tensor([[1.0, -0.5]], dtype=dtype)
    for result in (problem.objective(x), problem.grad(x), problem.duality_gap(x), problem.kkt_residual(x)):
        assert torch.isfinite(result).all()
    identity = torch.logaddexp(torch.zeros(1, 3, dtype=dtype), (A @ x[0]) * torch.tensor([1, -1, 1], dtype=dtype))
    torch.testing.assert_close(problem.f.value(x), identity.mean(1))


def test_logistic_curvature_bounds_the_second_derivative_and_no_less_does():
    """L = lambda_max(A'A) / (4 m) is attained at x = 0, so a smaller constant would be wrong."""
    f = random_problem("logistic", batch=1, m=9, n=4).f
    root = f.hessian_root(torch.zeros(1, 4, dtype=F64), f.A)[0]
    at_zero = root.T @ root
    assert torch.linalg.eigvalsh(at_zero)[-1] == pytest.approx(float(f.lipschitz(exact=True)), rel=1e-12)
    assert (f.hessian_root(normal(1, 4), torch.ones(1, 9, 1, dtype=F64)).square() < 0.25 / 9).all()


def test_curvature_one_is_four_times_the_default():
    A, y = normal(2, 9, 4), labels(2, 9)
    for exact in (False, True):
        sharp = sp.logistic(A, y, 0.1).lipschitz(exact=exact)
        torch.testing.assert_close(sp.logistic(A, y, 0.1, curvature=1.0).lipschitz(exact=exact), 4 * sharp)


def test_least_squares_lipschitz_is_the_largest_eigenvalue():
    A, b = normal(2, 6, 9), normal(2, 6)
    expected = torch.linalg.eigvalsh(A.mT @ A)[:, -1]
    torch.testing.assert_close(sp.lasso(A, b, 0.1).lipschitz(exact=True), expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("make", [sp.lasso, sp.logistic])
def test_shared_matrix_is_kept_once(make):
    A, y = normal(6, 9), labels(50, 6)
    problem = make(A, y, 0.1)
    sole = A.untyped_storage()
    for kept in (problem, problem.shifted(1.0), problem.select(torch.tensor([3, 1])), problem.to(dtype=F64)):
        assert kept.f.A.untyped_storage().data_ptr() == sole.data_ptr()
    other = problem.to(dtype=torch.float32).f.A
    assert other.untyped_storage().nbytes() == 6 * 9 * 4
    assert problem.batch == 50
    assert problem.lipschitz().shape == (50,)


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_shared_matrix_is_the_same_problem_as_copies_of_it(kind):
    shared = random_problem(kind, shared=True)
    own = getattr(sp, kind)(shared.f.A.expand(3, -1, -1), vars(shared.f)[shared.f.batched[1]], shared.r.lam)
    x = normal(3, 12, seed=9)
    for method in ("objective", "grad", "duality_gap", "kkt_residual"):
        torch.testing.assert_close(getattr(shared, method)(x), getattr(own, method)(x), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(shared.lipschitz(), own.lipschitz(), rtol=1e-12, atol=0)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_select_picks_instances(kind, shared):
    problem = random_problem(kind, shared=shared).shifted(normal(3, 12, seed=4))
    x = normal(3, 12, seed=9)
    for index in (torch.tensor([2, 0]), torch.tensor([True, False, True])):
        part = problem.select(index)
        assert part.batch == 2
        torch.testing.assert_close(part.objective(x[index]), problem.objective(x)[index], rtol=1e-13, atol=0)
        torch.testing.assert_close(part.duality_gap(x[index]), problem.duality_gap(x)[index], rtol=1e-12, atol=0)


@pytest.mark.parametrize("curvature", [0, -0.25, float("nan"), float("inf"), "quarter", None])
def test_bad_curvature_is_refused(curvature):
    with pytest.raises(sp.InputError, match=r"curvature is .*; pass a number > 0"):
        sp.logistic(normal(2, 3, 4), labels(2, 3), 0.1, curvature=curvature)
