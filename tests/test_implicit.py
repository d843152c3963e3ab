"""`solve(differentiable="implicit")`: against central differences, for every loss and separable penalty."""

import warnings
from contextlib import nullcontext

import pytest
import torch
from torch import Tensor

import sureprox as sp
from helpers import F64, labels, normal
from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Problem, Quantile, Softmax, SquaredHinge
from sureprox.problems import penalties as r
from sureprox.solve.implicit import newton_step

B, M, N = 2, 30, 8
TOL = 1e-10
STEP = 1e-4


def data(name: str) -> dict[str, Tensor]:
    """What the derivatives are with respect to."""
    b = 2 * normal(B, M, seed=1)
    given = {"A": normal(B, M, N), "w": normal(B, M, seed=3).abs() + 0.5}
    if name in ("squares", "huber", "quantile"):
        given["b"] = b
    if name not in ("squares", "huber", "quantile", "squared hinge"):
        given["offset"] = 0.3 * normal(B, M * (3 if name == "softmax" else 1), seed=4).abs()
    return given


def loss(name: str, A: Tensor, w: Tensor, b: Tensor | None = None, offset: Tensor | None = None):
    y, counts = labels(B, M, 2), (2 * normal(B, M, seed=5).abs()).floor()
    made = {
        "squares": lambda: LeastSquares(A, b, w),
        "huber": lambda: Huber(A, b, 1.5, w),
        "quantile": lambda: Quantile(A, b, 0.4, 0.7, w),
        "squared hinge": lambda: SquaredHinge(A, y, w),
        "logistic": lambda: Logistic(A, y, weights=w, offset=offset),
        "poisson": lambda: Poisson(A / 2, counts, weights=w, offset=offset),
        "poisson identity": lambda: Poisson(A.abs(), counts, "identity", weights=w, offset=0.5 + offset),
        "softmax": lambda: Softmax(A, counts.clamp(max=2), 3, weights=w, offset=offset.reshape(B, M, 3)),
    }
    return made[name]()


def sizes(kind: str, scale: Tensor, n: int) -> dict[str, Tensor]:
    line = torch.linspace(0.5, 1.5, n, dtype=F64)
    made = {
        "l1": {"l1": 0.25 * scale},
        "weighted": {"l1": 0.25 * scale.unsqueeze(1) * line},
        "elastic": {"l1": 0.2 * scale, "l2": 0.1 * scale},
        "l2": {"l2": 0.2 * scale.unsqueeze(1) * line},
        "nonnegative": {"l1": 0.1 * scale, "low": torch.zeros(1, n, dtype=F64)},
        "box": {"low": -0.05 * line.expand(B, n), "high": 0.07 * line.expand(B, n)},
        "all": {"l1": 0.1 * scale, "l2": 0.1 * scale, "low": -0.1 * line.expand(B, n), "high": 0.1 * line.expand(B, n)},
        "none": {},
    }
    return {name: value.clone() for name, value in made[kind].items()}


LOSSES = ("squares", "huber", "quantile", "squared hinge", "logistic", "poisson", "poisson identity", "softmax")
KINDS = ("l1", "weighted", "elastic", "l2", "nonnegative", "box", "all", "none")
# softmax does not change when all classes move together: without l1 or l2 no solution is the only one; and Poisson with
# the identity as its link needs bounds
OUT = {("softmax", "none"), ("softmax", "box")}
OUT |= {("poisson identity", kind) for kind in ("l1", "weighted", "elastic", "l2", "none")}
CASES = [(name, kind) for name in LOSSES for kind in KINDS if (name, kind) not in OUT]


def inputs(name: str, kind: str) -> tuple[dict[str, Tensor], int]:
    given = data(name)
    n = N * (3 if name == "softmax" else 1)
    scale = loss(name, **given).grad(torch.zeros(B, n, dtype=F64)).abs().amax(1).detach()
    return given | sizes(kind, scale, n), n


def made(name: str, given: dict[str, Tensor]) -> Problem:
    of_penalty = {key: value for key, value in given.items() if key in ("l1", "l2", "low", "high")}
    rest = {key: value for key, value in given.items() if key not in of_penalty}
    return Problem(loss(name, **rest), r.Separable(**of_penalty))


@pytest.mark.parametrize(("name", "kind"), CASES)
def test_derivatives_are_those_of_central_differences(name: str, kind: str) -> None:
    """At a gap of 1e-10, against differences of solutions to 1e-14, along a direction in which all data move."""
    given, n = inputs(name, kind)
    directions = {
        key: normal(*value.shape, seed=i + 20) * value.abs().mean() for i, (key, value) in enumerate(given.items())
    }
    if name == "poisson identity" and "low" in given:
        directions["low"] = torch.zeros_like(given["low"])
    leaves = {key: value.clone().requires_grad_() for key, value in given.items()}
    certified = name != "softmax" or "l2" in given  # nothing bounds the curvature of softmax from below
    with nullcontext() if certified else pytest.warns(sp.DerivativeWarning, match="2 of 2 solutions are not certified"):
        solution = sp.solve(made(name, leaves), sp.optimizers.FISTA(restart=True), tol=TOL, differentiable="implicit")
    assert solution.converged.all()
    assert torch.isfinite(solution.derivative_error).all() == certified
    combined = normal(B, n, seed=9)
    found = torch.autograd.grad((combined * solution.x).sum(), list(leaves.values()))
    ours = sum(float((g * directions[key]).sum()) for key, g in zip(leaves, found, strict=True))

    def value(t: float) -> float:
        moved = {key: value + t * directions[key] for key, value in given.items()}
        start = solution.x.detach()
        for bound in {"low", "high"} & set(given):  # what lies at a bound stays there
            start = torch.where(start == given[bound], moved[bound], start)
        return float((combined * accurate(made(name, moved), start)).sum())

    # of fourth order: 4/3 of the differences with a step less 1/3 of those with twice the step
    near, far = ((value(k * STEP) - value(-k * STEP)) / (2 * k * STEP) for k in (1, 2))
    theirs = (4 * near - far) / 3
    assert abs(ours - theirs) <= 1e-6 * abs(theirs)
    assert abs(theirs) > 1e-4


def accurate(problem: Problem, x: Tensor) -> Tensor:
    """The solution to the last digits, by Newton steps from a point nearby; the optimality conditions confirm it."""
    for _ in range(8):
        step, known = newton_step(problem, x)
        assert known.all()
        x = x + step
        if step.abs().max() < 1e-14:
            break
    assert step.abs().max() < 1e-13
    assert (problem.kkt_residual(x) <= 1e-13 * (1 + problem.scale()[1])).all()
    return x


def test_memory_does_not_depend_on_the_number_of_iterations() -> None:
    """Bytes kept for the way back: as many after 3,000 iterations as after one at the solution; with True they grow."""
    A, b = normal(2, 20, 40), normal(2, 20, seed=1).requires_grad_()
    best = sp.reference(sp.lasso(A, b.detach(), 1.0)).x

    def kept(differentiable: bool | str, start: Tensor | None, iterations: int) -> int:
        sizes: list[int] = []

        def packed(value: Tensor) -> Tensor:
            sizes.append(value.numel() * value.element_size())
            return value

        options = {"max_iter": iterations, "tol": 1e-16, "differentiable": differentiable}
        with warnings.catch_warnings(), torch.autograd.graph.saved_tensors_hooks(packed, lambda value: value):
            warnings.simplefilter("ignore")
            sp.solve(sp.lasso(A, b, 1.0), sp.optimizers.ISTA(), start, **options)
        return sum(sizes)

    assert 0 < kept("implicit", None, 3000) == kept("implicit", best, 1)
    assert kept(True, None, 300) > 10 * kept(True, best, 1)


def test_the_error_estimate_covers_the_error_and_is_infinite_without_a_certificate() -> None:
    """Beside derivatives at a gap of 1e-14: in no instance more than the estimate, where there is one."""
    A, y = normal(30, 25, 40), labels(30, 25, 2)
    lam = 0.4 * Logistic(A, y).grad(torch.zeros(30, 40, dtype=F64)).abs().amax(1)
    combined = normal(30, 40, seed=9)

    def derivatives(tol: float) -> tuple[sp.Solution, Tensor]:
        leaf = lam.clone().requires_grad_()
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            problem, method = Problem(Logistic(A, y), r.L1(leaf)), sp.optimizers.FISTA(restart=True)
            solution = sp.solve(problem, method, tol=tol, polish=False, check_every=1, differentiable="implicit")
        unknown = int(torch.isinf(solution.derivative_error).sum())
        assert [str(w.message)[:60] for w in seen] == (
            [f"the derivatives of {unknown} of 30 solutions are not certified: their gaps"[:60]] if unknown else []
        )
        return solution, torch.autograd.grad((combined * solution.x).sum(), leaf)[0]

    _, truth = derivatives(1e-14)
    certified = []
    for tol in (1e-1, 1e-3, 1e-6):
        solution, found = derivatives(tol)
        known = torch.isfinite(solution.derivative_error)
        assert torch.isfinite(found).all()
        assert ((found - truth).abs() <= solution.derivative_error * truth.abs() + 1e-12)[known].all()
        certified.append(int(known.sum()))
    assert certified[0] < certified[2] == 30


def test_where_no_derivative_exists_it_is_zero_and_said_so() -> None:
    """Twins: the solution is not unique."""
    A = normal(2, 20, 6)
    A[1] = torch.cat([A[1][:, :3], A[1][:, :3]], 1)
    b = normal(2, 20, seed=1).requires_grad_()
    problem = sp.lasso(A, b, 0.5)
    with pytest.warns(sp.DerivativeWarning, match="1 of 2 solutions"):
        solution = sp.solve(problem, sp.optimizers.ISTA(), normal(2, 6), tol=1e-8, differentiable="implicit")
    (found,) = torch.autograd.grad(solution.x.sum(), b)
    assert torch.isinf(solution.derivative_error).tolist() == [False, True]
    assert found.any(1).tolist() == [True, False]


def test_float32_and_shifts_and_what_is_refused() -> None:
    A, b = normal(2, 20, 10), normal(2, 20, seed=1)
    gradients = []
    for dtype in (F64, torch.float32):
        leaf = torch.zeros(2, 10, dtype=dtype, requires_grad=True)
        moved = sp.elastic_net(A.to(dtype), b.to(dtype), 1.0, 0.1).shifted(leaf)
        x = sp.solve(moved, tol=1e-5, differentiable="implicit").x
        gradients.append(torch.autograd.grad((normal(2, 10, seed=3).to(dtype) * x).sum(), leaf)[0].double())
    assert torch.allclose(gradients[0], -normal(2, 10, seed=3))
    assert torch.allclose(*gradients, rtol=1e-5)
    with pytest.raises(sp.InputError, match="no derivatives are known for LeastSquares \\+ GroupL2"):
        sp.solve(sp.group_lasso(A, b, torch.arange(10) // 2, 1.0), differentiable="implicit")
    with pytest.raises(sp.InputError, match="differentiable is 'implict'"):
        sp.solve(sp.lasso(A, b, 1.0), differentiable="implict")
