"""Gradients of solves: against finite differences and against float64, of solutions and of iterations."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from helpers import normal, refused
from optimizer_cases import calm
from sureprox.optimizers import FISTA, ISTA, Sure
from sureprox.problems import L1, LeastSquares, Logistic, Penalty, Smooth, WeightedL1
from sureprox.solve.solve import default_optimizer

F32, F64 = torch.float32, torch.float64
VARIANTS = {
    "full": {},
    "conjugate": {"conjugate": True},
    "light": {"coordinate": 0},
    "light-conjugate": {"coordinate": 0, "conjugate": True},
    "general": {"conjugate": True, "features": "general"},
}
CASES = [((4, 20, 60), True), ((2, 30, 12), True), ((4, 20, 60), "cheap"), ((4, 20, 60), False)]
FAMILIES = {"lasso": sp.lasso, "logistic": sp.logistic}


def lasso_data(seed: int, shape: tuple[int, int, int], ratio: float = 0.1) -> list[Tensor]:
    """A (B, m, n), b (B, m) and lam (B,), a part of the smallest lam whose solution is zero."""
    A, b = normal(*shape, seed=seed), normal(*shape[:2], seed=seed + 100)
    return [A, b, ratio * (A.mT @ b.unsqueeze(2)).squeeze(2).abs().amax(1)]


def logistic_data(seed: int, shape: tuple[int, int, int], ratio: float = 0.1) -> list[Tensor]:
    A, b, _ = lasso_data(seed, shape)
    y = (b > 0).double()
    return [A, y, ratio * (A.mT @ (y - 0.5).unsqueeze(2)).squeeze(2).abs().amax(1) / shape[1]]


def gradients(family: str, data: list[Tensor], dtype: torch.dtype, *which: int, optimizer=None, x0=None, **options):
    """The solution and d/d(data) of a fixed combination of its coordinates, all in float64."""
    given = [value.to(dtype).clone() for value in data]
    inputs = [given[i].requires_grad_() for i in which]
    if x0 is not None:
        x0 = x0.to(dtype).clone().requires_grad_()
        inputs.append(x0)
    solution = sp.solve(FAMILIES[family](*given), optimizer, x0, **options)
    weights = normal(*solution.x.shape, seed=7)
    found = torch.autograd.grad((weights * solution.x.double()).sum(), inputs)
    return solution, [value.double() for value in found]


def close(ours: list[Tensor], theirs: list[Tensor], rtol: float) -> None:
    for mine, other in zip(ours, theirs, strict=True):
        assert float(other.norm()) > 0
        assert float((mine - other).norm()) <= rtol * float(other.norm())


# --- of converged instances -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("shape", "certify"), CASES, ids=str)
@pytest.mark.parametrize("optimizer", [None, FISTA(restart=True)], ids=["sure", "fista"])
def test_float32_solves_have_the_gradients_of_float64(shape, certify, optimizer):
    for seed, ratio in ((0, 0.3), (1, 0.1)):
        data = lasso_data(seed, shape, ratio)
        options = {"optimizer": optimizer, "certify": certify, "tol": 1e-4}
        single, ours = gradients("lasso", data, F32, 0, 1, 2, **options)
        double, theirs = gradients("lasso", data, F64, 0, 1, 2, **options)
        assert single.converged.all()
        assert double.converged.all()
        close(ours, theirs, 1e-4)


@pytest.mark.parametrize("optimizer", [None, FISTA(restart=True)], ids=["sure", "fista"])
def test_instances_finished_in_float64_keep_their_gradients(optimizer):
    data = lasso_data(3, (2, 20, 40))
    single, ours = gradients("lasso", data, F32, 0, 1, 2, optimizer=optimizer, tol=1e-9)
    _, theirs = gradients("lasso", data, F64, 0, 1, 2, optimizer=optimizer, tol=1e-9)
    assert single.refined.any()
    close(ours, theirs, 1e-5)


def test_float64_iterations_after_float32_are_on_the_graph():
    """No second derivatives of f are known, so that gradients come through the iterations."""

    class Own(LeastSquares):
        pass

    found = []
    for dtype in (F32, F64):
        A, b, lam = (value.to(dtype) for value in lasso_data(3, (3, 20, 15)))
        b.requires_grad_()
        problem = sp.Problem(Own(A, b), L1(lam))
        solution = sp.solve(problem, FISTA(restart=True), tol=1e-9, max_iter=3000)
        assert bool(solution.refined.any()) == (dtype == F32)
        found.append(torch.autograd.grad((normal(3, 15) * solution.x.double()).sum(), b)[0].double())
    close(found[:1], found[1:], 1e-4)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_gradients_are_those_of_the_solution(family, shared):
    """gradcheck of b or y, lam, A and a shift, in float64; from a start that is worth nothing."""
    A, b, lam = (lasso_data if family == "lasso" else logistic_data)(1, (2, 16, 4), 0.4)
    A = A[0] if shared else A
    x0 = normal(2, 4, seed=3)

    def answer(A: Tensor, b: Tensor, lam: Tensor, shift: Tensor) -> Tensor:
        if family == "logistic":
            f: Smooth = Logistic(A, y=(b > 0).double())
        else:
            f = LeastSquares(A, b)
        return sp.solve(sp.Problem(f, L1(lam)).shifted(shift), FISTA(restart=True), x0, tol=1e-13).x

    inputs = (A, b, lam, 0.1 * normal(2, 4, seed=4))
    support = (answer(*inputs) + inputs[3]).abs() > 1e-9
    assert support.any()
    assert not support.all()
    wanted = [True, family == "lasso", True, True]
    given = [value.clone().requires_grad_(want) for value, want in zip(inputs, wanted, strict=True)]
    assert torch.autograd.gradcheck(answer, given, eps=1e-5, atol=1e-5, rtol=1e-4, fast_mode=True)


def test_gradients_of_weights_of_the_penalty():
    A, b, _ = lasso_data(2, (2, 18, 6))
    weights = (0.5 + normal(2, 6, seed=5).abs()).requires_grad_()

    def answer(weights: Tensor) -> Tensor:
        return sp.solve(sp.Problem(LeastSquares(A, b), WeightedL1(weights)), FISTA(restart=True), tol=1e-13).x

    assert torch.autograd.gradcheck(answer, weights, eps=1e-5, atol=1e-5, rtol=1e-4, fast_mode=True)


def test_gradients_do_not_depend_on_how_the_solution_was_found():
    data = lasso_data(4, (3, 30, 20))
    _, cold = gradients("lasso", data, F64, 0, 1, 2, tol=1e-7)
    for start in (sp.solve(sp.lasso(*data), tol=1e-7).x, normal(3, 20, seed=8)):
        solution, found = gradients("lasso", data, F64, 0, 1, 2, x0=start, tol=1e-7)
        assert solution.converged.all()
        assert not found.pop().any()  # a solution does not depend on x0
        close(found, cold, 1e-9)


def test_where_the_solution_is_not_unique_gradients_come_through_iterations():
    A, b, lam = lasso_data(5, (2, 20, 6), 0.2)
    A[1] = torch.cat([A[1][:, :3], A[1][:, :3]], 1)
    solution, found = gradients("lasso", [A, b, lam], F64, 1, x0=normal(2, 6), optimizer=ISTA(), tol=1e-8)
    assert solution.converged.all()
    assert torch.isfinite(found[0]).all()
    assert found[0].any(1).all()
    assert found[1].any(1).tolist() == [False, True]  # of x0


def test_gradients_of_solutions_cannot_be_differentiated_again():
    A, b, lam = lasso_data(6, (1, 9, 5))
    b.requires_grad_()
    x = sp.solve(sp.lasso(A, b, lam)).x
    refused(lambda: torch.autograd.grad(x.sum(), b, create_graph=True), "create_graph is True", "sureprox.iterate")


# --- of iterations ----------------------------------------------------------------------------------------------------


def iterated(optimizer, certify, data: list[Tensor], x0: Tensor, steps: int) -> Tensor:
    """After a few steps of a fixed size: 1/L is a constant for gradients."""
    step = torch.full_like(x0[:, 0].detach(), 0.02)
    return sp.solve(sp.lasso(*data), optimizer, x0, max_iter=steps, tol=1e-14, certify=certify, step_size=step).x


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False], ids=str)
@pytest.mark.parametrize("kind", ["fista", *VARIANTS])
def test_gradcheck_of_iterations(kind, certify):
    optimizer = FISTA(restart=True) if kind == "fista" else calm(Sure(**VARIANTS[kind])).double()
    data, x0 = lasso_data(7, (2, 6, 4), 0.05), normal(2, 4, seed=2)
    inputs = [value.clone().requires_grad_() for value in (*data, x0)]
    x = iterated(optimizer, certify, inputs[:3], inputs[3], 4)
    assert x.requires_grad
    assert torch.autograd.gradcheck(
        lambda A, b, lam, x0: iterated(optimizer, certify, [A, b, lam], x0, 4),
        inputs,
        eps=1e-6,
        atol=1e-6,
        fast_mode=True,
    )


@pytest.mark.parametrize("certify", [True, False], ids=str)
@pytest.mark.parametrize("kind", ["fista", *VARIANTS])
@pytest.mark.parametrize("scale", [1.0, 1e-9], ids=str)
def test_iterations_in_float32_have_the_gradients_of_float64(kind, certify, scale):
    """Also of problems whose numbers are so small that the square of a reciprocal is none in float32."""
    found = []
    for dtype in (F32, F64):
        optimizer = FISTA(restart=True) if kind == "fista" else calm(Sure(**VARIANTS[kind])).to(dtype)
        A, b, lam = lasso_data(8, (3, 10, 15), 0.05)
        inputs = [v.to(dtype).requires_grad_() for v in (A, scale * b, scale * lam, scale * normal(3, 15, seed=3))]
        x = iterated(optimizer, certify, inputs[:3], inputs[3], 8)
        found.append([v.double() for v in torch.autograd.grad((normal(3, 15) * x.double()).sum(), inputs)])
    close(*found, 1e-3)


@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
@pytest.mark.parametrize("variant", VARIANTS)
def test_gradients_through_sure_are_finite_where_nothing_moves(variant, dtype):
    """At a solution, at zero with and without a penalty, and on a column of zeros."""
    A, b, lam = lasso_data(9, (4, 10, 6), 0.2)
    A[2, :, 1] = 0.0
    lam[1], lam[2] = 1e3, 0.0
    b[3] = 0.0
    x0 = sp.solve(sp.lasso(A, b, lam), tol=1e-12).x
    inputs = [value.to(dtype).requires_grad_() for value in (A, b, lam, x0)]
    optimizer = calm(Sure(**VARIANTS[variant])).to(dtype)
    problem = sp.lasso(*inputs[:3])
    *_, last = sp.iterate(problem, optimizer, optimizer.init(problem, inputs[3]), 12)
    for gradient in torch.autograd.grad(last.x.sum(), inputs):
        assert torch.isfinite(gradient).all()


# --- the graph --------------------------------------------------------------------------------------------------------


class Box(Penalty):
    """Only its numbers matter: nothing runs."""

    def __init__(self, end: Tensor) -> None:
        self.end = end

    def value(self, x: Tensor) -> Tensor:
        return torch.where((x.abs() <= self.end).all(1), 0.0, torch.inf)

    def prox(self, v: Tensor, step: Tensor) -> Tensor:
        return torch.maximum(torch.minimum(v, self.end), -self.end)

    def subdiff(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return torch.where(x <= -self.end, -torch.inf, 0.0), torch.where(x >= self.end, torch.inf, 0.0)


@pytest.mark.parametrize("max_iter", [0, 100])
def test_gradients_are_zero_and_not_missing_where_nothing_ran(max_iter):
    data = lasso_data(0, (3, 8, 5), 1.5)
    inputs = [value.requires_grad_() for value in (*data, torch.zeros(3, 5, dtype=F64))]
    solution = sp.solve(sp.lasso(*inputs[:3]), None, inputs[3], max_iter=max_iter)
    assert solution.converged.all()
    for gradient in torch.autograd.grad(solution.x.sum(), inputs):
        assert not gradient.any()


def test_a_problem_of_ones_own_is_on_the_graph_where_nothing_ran():
    end = torch.ones(2, 5, dtype=F64, requires_grad=True)
    solution = sp.solve(sp.Problem(LeastSquares(normal(2, 8, 5), torch.zeros(2, 8, dtype=F64)), Box(end)))
    assert solution.iterations.max() == 0
    assert not torch.autograd.grad(solution.x.sum(), end)[0].any()


def test_backward_leaves_no_gradients_in_the_weights_that_solves_share():
    A, b, lam = lasso_data(0, (3, 8, 60))
    b.requires_grad_()
    for name in (None, "sure/lasso"):
        problem = sp.lasso(A, b, lam)
        sp.solve(problem, name, max_iter=5).x.sum().backward()
        shared = default_optimizer(problem)
        assert all(parameter.grad is None for parameter in shared.parameters())
    assert b.grad is not None
