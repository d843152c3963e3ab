"""When an instance counts as solved: scale-free, bounded where that can be proved, and never by underflow."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from helpers import F64, normal, random_problem
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Penalty, Problem, WeightedL1, Zero
from sureprox.solve.stopping import StoppingRule


class Plain(LeastSquares):
    """Least squares of which no duality gap is known."""


class Free(Penalty):
    """sum_j w_j |x_j| of which no conjugate is known; w may be zero somewhere."""

    batched = ()

    def __init__(self, w: Tensor) -> None:
        self.w = w

    def value(self, x):
        return WeightedL1(self.w).value(x)

    def prox(self, v, step):
        return WeightedL1(self.w).prox(v, step)

    def subdiff(self, x):
        return WeightedL1(self.w).subdiff(x)


def own(ratio: float, units: Tensor | None = None, free: bool = False) -> tuple[Problem, Tensor]:
    """A problem without a duality gap, its columns in these units, and the best F."""
    A, b = normal(4, 25, 10), normal(4, 25, seed=1)
    lam = ratio * (A.mT @ b.unsqueeze(2)).abs().amax()
    w = torch.full((10,), float(lam), dtype=F64)
    w[-1] = 0 if free else w[-1]
    best = sp.solve(Problem(LeastSquares(A, b), WeightedL1(w)), tol=1e-12, max_iter=5000)
    assert best.converged.all()
    units = torch.ones(10, dtype=F64) if units is None else units
    return Problem(Plain(A * units, b), Free(w * units)), best.objective


@pytest.mark.parametrize("tol", [1e-3, 1e-6])
@pytest.mark.parametrize("ratio", [0.3, 1e-2, 1e-4, 1e-6])
def test_without_a_gap_converged_is_within_the_tolerance(ratio, tol):
    problem, best = own(ratio)
    for certify in (True, False):
        solution = sp.solve(problem, FISTA(restart=True), tol=tol, max_iter=3000, certify=certify)
        assert solution.converged.all()
        assert torch.isinf(solution.gap).all()
        assert (solution.objective - best <= tol * solution.objective).all()


class Tilted(Plain):
    """f(x) = 1/2 |x|^2 - c'x, without the constant that would keep it from being negative."""

    def value(self, x):
        return super().value(x) - 0.5 * self.b.square().sum(1)


def test_where_f_cancels_r_small_residuals_alone_are_not_enough():
    """With r(x) much larger than |F(x)|: here all residuals are below tol/2 lam, and F(x) > F(0)."""
    tol, lam, slope = 1e-2, 1.0, 1.001
    A, b = torch.eye(1, dtype=F64).unsqueeze(0), torch.full((1, 1), slope, dtype=F64)
    problem = Problem(Tilted(A, b), Free(torch.full((1,), lam, dtype=F64)))
    best = -0.5 * (slope - lam) ** 2
    rule = StoppingRule(problem, None, tol)
    far, near = (torch.full((1, 1), slope - lam + moved, dtype=F64) for moved in (0.9 * tol / 2 * lam, 1e-7))
    seen = rule.measure(far)
    assert float(seen.kkt) < tol / 2 * lam
    assert float(seen.objective) > 0 > best
    assert not seen.converged
    assert rule.measure(near).converged


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize("long", [1e8, 1e-8])
def test_the_unit_of_a_column_does_not_change_the_verdict(long, free):
    units = torch.ones(10, dtype=F64)
    units[2] = long
    plain, _ = own(1e-2, free=free)
    scaled, best = own(1e-2, units, free)
    one, other = StoppingRule(plain, None, 1e-4), StoppingRule(scaled, None, 1e-4)
    verdicts = []
    x = plain.start()
    for _ in range(30):
        x = sp.solve(plain, FISTA(restart=True), x, max_iter=6, tol=1e-14, certify=False).x
        verdict = one.measure(x).converged
        assert torch.equal(other.measure(x / units).converged, verdict)
        close = plain.objective(x) - best <= 1e-4 * best
        assert (verdict <= close).all()
        verdicts.append(int(verdict.sum()))
    assert verdicts[0] == 0
    assert verdicts[-1] == 4


def test_a_long_column_does_not_hide_the_others():
    """A proximal step solves the long column at once; the others have not begun."""
    units = torch.ones(10, dtype=F64)
    units[2] = 1e8
    problem, best = own(1e-3, units)
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-4, max_iter=5, certify=False)
    assert (solution.kkt <= 1e-4 * problem.scale()[1]).all()
    assert (solution.objective > 1.4 * best).all()
    assert not solution.converged.any()


def test_small_residuals_of_columns_that_are_nearly_the_same_are_not_enough():
    """Only together they reach b: no residual is more than tol times the slope at the origin, and F is 200 F*."""
    tol, lam, apart = 1e-2, 1e-6, 1e-3
    A = torch.tensor([[[1.0, 1.0], [0.0, apart]]], dtype=F64)
    problem = Problem(Plain(A, torch.ones(1, 2, dtype=F64)), Free(torch.full((2,), lam, dtype=F64)))
    best = sp.lasso(A, torch.ones(1, 2, dtype=F64), lam).objective(
        torch.tensor([[1 - 1 / apart, 1 / apart]], dtype=F64)
    )
    one_alone = torch.tensor([[1 - lam, 0.0]], dtype=F64)
    seen = StoppingRule(problem, None, tol).measure(one_alone)
    assert (seen.kkt <= tol * problem.scale()[1]).all()
    assert (seen.objective > 200 * best).all()
    assert not seen.converged.any()


def test_a_long_column_does_not_hide_a_free_coordinate_that_has_not_moved():
    """It has a residual and is zero, the others are solved."""
    units = torch.ones(10, dtype=F64)
    units[2] = 1e8
    problem, best = own(1e-2, units, free=True)
    held = torch.full((10,), float(problem.r.w[0]), dtype=F64)
    held[-1] = 1e6
    f = LeastSquares(problem.f.A / units, problem.f.b)
    x = sp.solve(Problem(f, WeightedL1(held)), tol=1e-14, max_iter=5000).x / units
    assert (x[:, -1] == 0).all()
    assert (problem.objective(x) > 1.01 * best).any()
    assert (problem.kkt_residual(x) <= 1e-4 * problem.scale()[1]).all()
    assert not StoppingRule(problem, None, 1e-4).measure(x).converged.any()


def test_an_objective_that_underflows_converges_by_no_gap():
    A, b = normal(3, 20, 8), normal(3, 20, seed=1)
    scale = torch.tensor([1.0, 1e-163, 0.0], dtype=F64)
    lam = 0.1 * scale
    problem = sp.lasso(A, b * scale.unsqueeze(1), lam)
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-6, max_iter=50)
    assert solution.converged.tolist() == [True, False, True]  # the third is solved by x = 0 exactly
    above = sp.lasso(A, b * scale.unsqueeze(1), 1e3 * scale)
    assert sp.solve(above).converged.all()


def test_an_objective_that_overflows_does_not_converge():
    A, b = normal(2, 20, 8), normal(2, 20, seed=1)
    b[0] *= 1e160
    solution = sp.solve(sp.lasso(A, b, 0.1), FISTA(restart=True), tol=1e-6)
    assert solution.converged.tolist() == [False, True]


@pytest.mark.parametrize("certify", [True, "audit", "cheap", False])
@pytest.mark.parametrize("optimizer", [None, FISTA(restart=True)], ids=["default", "fista"])
@pytest.mark.parametrize(
    ("size", "dtype"), [(1e160, F64), (1e-157, F64), (1e22, torch.float32), (1e-22, torch.float32)]
)
def test_an_instance_whose_L_cannot_be_held_does_not_stop_the_others(size, dtype, optimizer, certify):
    """Neither do their answers change by a bit."""
    good = random_problem("lasso", batch=4, m=60, n=50, ratio=0.1).to(dtype=dtype)
    A, b, lam = good.f.A.clone(), good.f.b, good.r.lam.clone()
    A[1] *= size
    bad = sp.lasso(A, b, lam.index_fill(0, torch.tensor([1]), 0.0))
    step = bad.step_size()[1]
    assert not (torch.isfinite(step) & (step > 0))
    solved = sp.lasso(good.f.A, b, lam.index_fill(0, torch.tensor([1]), 1e5))  # by zero: it stops as early
    options = {"tol": 1e-3, "max_iter": 40, "certify": certify, "polish": False}
    mixed, alone = sp.solve(bad, optimizer, **options), sp.solve(solved, optimizer, **options)
    assert mixed.status[1] == sp.Status.DIVERGED
    assert mixed.x[1].abs().max() == 0
    others = torch.tensor([0, 2, 3])
    assert list(mixed.status[others]) == list(alone.status[others])
    assert torch.equal(mixed.x[others], alone.x[others])
    assert torch.equal(mixed.iterations[others], alone.iterations[others])


def test_a_start_that_solves_an_instance_without_a_step_size_is_converged():
    A, b = normal(2, 20, 8), normal(2, 20, seed=1)
    A[0] *= 1e160
    solution = sp.solve(sp.lasso(A, b, torch.tensor([1e170, 0.1], dtype=F64)), FISTA(restart=True))
    assert solution.converged.all()


def test_without_a_penalty_the_gap_decides():
    A, b = normal(3, 20, 6), normal(3, 20, seed=1)
    solution = sp.solve(Problem(LeastSquares(A, b), Zero()), FISTA(restart=True), tol=1e-7, max_iter=3000)
    exact = torch.linalg.lstsq(A, b.unsqueeze(2)).solution
    best = 0.5 * (A @ exact - b.unsqueeze(2)).square().sum((1, 2))
    assert solution.converged.all()
    assert (solution.gap <= 1e-7 * best).all()
    assert (solution.objective - best <= 1e-7 * best).all()
    assert sp.solve(sp.Problem(LeastSquares(A, b), L1(0.0)), tol=1e-7).converged.all()
