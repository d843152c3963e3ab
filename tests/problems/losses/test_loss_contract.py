"""One contract for all losses: formula, gradient, curvature, L, Bregman divergence, weights, offsets, batches."""

import numpy as np
import pytest
import torch

from helpers import F64, normal
from loss_cases import GLOBAL, NAMES, POINTWISE, B, K, M, N, formula, full, loss, matrix, offset, point, row_weights
from sureprox.problems import L1, LeastSquares, Problem, Softmax
from sureprox.problems.stacked import Points, Stacked

every = pytest.mark.parametrize("name", NAMES)


def class_offset() -> torch.Tensor:
    return 0.5 * normal(B, M, K, seed=6)


@pytest.mark.parametrize("size", [0.0, 1e-3, 1.0, 3.0])
@pytest.mark.parametrize("shared", [False, True])
@every
def test_value_is_the_formula_and_the_gradient_its_derivative(name, shared, size):
    off = class_offset() if name == "softmax" else offset(name)
    for f, w, o in ((loss(name, shared), None, None), (full(name, shared), row_weights(), off)):
        x = point(name, size=size).requires_grad_()
        expected = formula(name, shared, w, o, x)
        torch.testing.assert_close(f.value(x), expected, rtol=1e-11, atol=1e-12)
        (gradient,) = torch.autograd.grad(expected.sum(), x)
        torch.testing.assert_close(f.grad(x.detach()), gradient, rtol=1e-10, atol=1e-11)
        value, other = f.value_and_grad(x.detach())
        torch.testing.assert_close(value, f.value(x))
        assert torch.equal(other, f.grad(x.detach()))
        (through,) = torch.autograd.grad(f.value(x).sum(), x)
        torch.testing.assert_close(through, gradient, rtol=1e-10, atol=1e-11)
    assert (expected > 0).all()


@every
def test_the_hessian_is_the_square_of_its_root(name):
    f, x = full(name), point(name)
    off = class_offset() if name == "softmax" else offset(name)
    every_column = torch.arange(f.n).expand(B, -1)
    root = f.hessian_root(x, f.map.columns(every_column))

    def value(i):
        return lambda v: formula(name, False, row_weights(), off, x.index_copy(0, torch.tensor([i]), v[None]))[i]

    for i in range(B):
        hessian = torch.autograd.functional.hessian(value(i), x[i])
        torch.testing.assert_close(root[i].T @ root[i], hessian, rtol=1e-9, atol=1e-10)
    assert root.abs().max() > 0


@every
def test_L_is_the_largest_eigenvalue_with_the_bound_of_the_curvature(name):
    f = full(name)
    A, w = matrix(name).numpy(), row_weights()
    bound = w / 2 if name == "softmax" else POINTWISE[name].bend(w, offset(name), POINTWISE[name].y)
    expected = [np.linalg.svd(bound[i].sqrt().numpy()[:, None] * A[i], compute_uv=False)[0] ** 2 for i in range(B)]
    torch.testing.assert_close(f.lipschitz(exact=True), torch.tensor(expected), rtol=1e-10, atol=0)
    assert (f.lipschitz() >= f.lipschitz(exact=True)).all()


@pytest.mark.parametrize("name", GLOBAL)
def test_the_bound_of_the_curvature_holds_and_is_attained(name):
    """With one row a of weight 2: |grad f(x) - grad f(y)| <= L |x - y|, and nearly equal where phi bends most."""
    best = 0.0
    for seed in range(200):
        f = loss(name, weights=torch.full((B, M), 2.0, dtype=F64))
        x = point(name, seed=seed, size=0.02 * (1 + seed))
        d = 1e-4 * point(name, seed=seed + 1000)
        z, at = f.inner(x + d), f.inner(x)
        rise = f.bregman(z - at, at)
        roof = (f.steepness * (z - at).square().sum(1, keepdim=True) / 2)[:, 0]
        assert (rise <= roof * (1 + 1e-6)).all()
        best = max(best, float((rise / roof).max()))
    assert best > (0.4 if name == "softmax" else POINTWISE[name].reached)


@pytest.mark.parametrize("size", [1e-12, 1e-6, 1e-2, 1.0, 10.0])
@every
def test_the_bregman_divergence_loses_no_digits(name, size):
    """Against the integral of the second derivative; where phi has kinks, against its definition."""
    f = full(name)
    at, d = f.inner(point(name)), size * normal(B, f.m, seed=8)
    ours = f.bregman(d, at)
    # D = int_0^1 (1 - t) d'H(at + t d) d dt
    if (name != "softmax" and POINTWISE[name].kinks) or size > 1:
        if size < 1e-2:
            return
        expected = f.value_at(at + d) - f.value_at(at) - slope_of(f, at, d)
        finite = torch.isfinite(expected)
        torch.testing.assert_close(ours[finite], expected[finite], rtol=1e-9, atol=1e-9)
        return
    if "identity" in name and size > 1e-2:
        return
    nodes, weights = np.polynomial.legendre.leggauss(30)
    total = torch.zeros(B, dtype=F64)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        z = (at + node * d).requires_grad_()
        (g,) = torch.autograd.grad(f.value_at(z).sum(), z, create_graph=True)
        (h,) = torch.autograd.grad((g * d).sum(), z)
        total += weight * (1 - node) * (h * d).sum(1)
    rtol = 1e-3 if name == "logistic" and size < 1e-6 else 1e-8  # its plain formula is half as long
    torch.testing.assert_close(ours, total, rtol=rtol, atol=0)


def slope_of(f, at, d):
    z = at.clone().requires_grad_()
    (g,) = torch.autograd.grad(f.value_at(z).sum(), z)
    return (g * d).sum(1)


@pytest.mark.parametrize("name", GLOBAL)
def test_no_slope_is_steeper_than_its_bound(name):
    f = full(name)
    for seed in range(20):
        z = f.inner(point(name, seed=seed, size=0.1 * 3**seed))
        factors = torch.as_tensor(f.row_factors, dtype=F64)
        unit = 1.0 if name == "least squares" else factors
        slope = torch.linalg.vector_norm(unit * f.slopes(z), dim=1, keepdim=True)
        size = torch.linalg.vector_norm(z, dim=1, keepdim=True)
        assert (slope <= f.slope_bound(size) * (1 + 1e-12)).all()


@every
def test_weights_are_repeated_rows(name):
    counts = torch.tensor([3, 0, 1, 2, 1, 1, 1, 1, 1, 1, 1, 0])
    often = torch.arange(M).repeat_interleave(counts)
    A, x = matrix(name, shared=True), point(name)
    weights = counts.to(F64)
    if name == "softmax":
        y = loss(name).y
        one, other = Softmax(A, y, K, weights), Softmax(A[often], y[:, often], K)
    else:
        case, off = POINTWISE[name], offset(name)
        one = case.make(A, case.y, weights, off)
        other = case.make(A[often], case.y[:, often], None, off[:, often])
    scale = len(often) / M if name == "logistic" else 1.0
    torch.testing.assert_close(one.value(x), scale * other.value(x), rtol=1e-12, atol=0)
    torch.testing.assert_close(one.grad(x), scale * other.grad(x), rtol=1e-11, atol=1e-12)
    torch.testing.assert_close(one.lipschitz(exact=True), scale * other.lipschitz(exact=True), rtol=1e-10, atol=0)


@pytest.mark.parametrize("name", ["least squares", "huber", "quantile"])
def test_an_offset_is_taken_from_the_target(name):
    case, A, off, x = POINTWISE[name], matrix(name), offset(name), point(name)
    moved = case.make(A, case.y, None, off)
    torch.testing.assert_close(moved.value(x), case.make(A, case.y - off, None, None).value(x), rtol=1e-13, atol=0)


@every
def test_an_offset_is_a_column_of_its_own(name):
    """A x + o = [A, o] (x, 1)."""
    if name == "softmax":
        off = class_offset()
        wide = torch.cat([matrix(name), off.permute(0, 1, 2)], 2)
        f = Softmax(wide, loss(name).y, K)
        x = torch.cat([point(name).view(B, K, N), torch.eye(K, dtype=F64).expand(B, K, K)], 2).flatten(1)
        expected = f.value(x)
        torch.testing.assert_close(loss(name, off=off).value(point(name)), expected, rtol=1e-12, atol=0)
        return
    case, off = POINTWISE[name], offset(name)
    wide = torch.cat([matrix(name), off.unsqueeze(2)], 2)
    column = torch.full((B, M), 0.5, dtype=F64)  # the background that identity asks for, taken off again
    o = column if "identity" in name else None
    x = torch.cat([point(name), torch.ones(B, 1, dtype=F64)], 1)
    expected = case.make(matrix(name), case.y, None, off + (0 if o is None else o)).value(point(name))
    torch.testing.assert_close(case.make(wide, case.y, None, o).value(x), expected, rtol=1e-12, atol=0)


def test_without_weights_and_offset_least_squares_is_what_it_was():
    f = loss("least squares")
    assert set(vars(f)) == {"A", "b"}
    assert f.weights is None
    A, w = matrix("least squares"), row_weights()
    torch.testing.assert_close(LeastSquares(A, f.b, w).weights, w)


@every
def test_instances_do_not_depend_on_the_rest_of_the_batch(name):
    f, x = full(name), point(name)
    problem = Problem(f, L1(0.1))
    for index in (torch.tensor([2, 0]), torch.tensor([True, False, True])):
        part = problem.select(index)
        for method in ("objective", "grad", "duality_gap", "kkt_residual"):
            whole, alone = getattr(problem, method)(x)[index], getattr(part, method)(x[index])
            torch.testing.assert_close(alone, whole, rtol=1e-12, atol=1e-13)


@every
def test_points_evaluated_together_are_evaluated_alone(name):
    for shared in (False, True):
        problem = Problem(full(name, shared), L1(0.1))
        assert problem.f.can_stack == (not name.startswith("poisson"))
        stack = Stacked(problem, 2)
        x = torch.stack([point(name, seed=7), point(name, seed=8)], 1)
        z = stack.image(x)
        for k in range(2):
            alone = problem.grad(x[:, k].contiguous())
            torch.testing.assert_close(stack.grad(z)[:, k], alone, rtol=1e-11, atol=1e-12)
        moved = x + 0.01 * x.abs()
        best = Points(x[:, :1], z[:, :1])
        seen = stack.compare(
            Points(moved, stack.image(moved)), Points(x, z), stack.grad(z), best, problem.lipschitz(exact=True)
        )
        there = torch.stack([problem.objective(moved[:, k].contiguous()) for k in range(2)], 1)
        above = there - problem.objective(x[:, 0].contiguous()).unsqueeze(1)
        if name not in ("poisson", "poisson identity"):
            torch.testing.assert_close(seen.above, above, rtol=1e-9, atol=1e-9)
        assert (seen.above >= above - 1e-10).all()


@every
def test_float32_is_float64_rounded(name):
    x = point(name)
    f, g = full(name), full(name, dtype=torch.float32)
    assert g.like.dtype == torch.float32
    assert g.value(x.float()).dtype == torch.float32
    torch.testing.assert_close(g.value(x.float()).double(), f.value(x), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(g.grad(x.float()).double(), f.grad(x), rtol=1e-3, atol=1e-3)
    torch.testing.assert_close(g.to(dtype=F64).value(x), f.value(x), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@every
def test_no_margin_makes_a_nan(name, dtype):
    f = loss(name, dtype=dtype)
    f.A = torch.ones_like(f.A) / N  # so that z is as large as x, of one sign
    problem = Problem(f, L1(0.1))
    for size in (1e3, 1e10, 1e18 if dtype == torch.float32 else 1e300):
        for sign in (1.0, -1.0):
            x = torch.full(f.shape, sign * size, dtype=dtype)
            if name == "softmax":
                x[:, N:] *= -1
            assert not problem.objective(x).isnan().any()
            assert not problem.duality_gap(x).isnan().any()
            assert torch.isfinite(f.slopes(f.inner(x))).all()
            assert not f.grad(x).isnan().any()
            z = f.inner(x)
            for d in (z, -z, -2 * z, 1e-9 * z):
                rise = f.bregman(d, z)
                assert (rise >= 0).all(), (size, sign)
