"""solution.bound is never below F - F*: also where L was raised last of all, and from starts outside the domain."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from certified_cases import Ball, Ridge, constant
from helpers import F64, normal, random_problem, refused
from sureprox.guarantee import audited
from sureprox.optimizers import FISTA, ISTA
from sureprox.problems import LeastSquares

OPTIMIZERS = (FISTA(restart=True), constant(float("nan")))
SLOPES = torch.tensor([0.0, -3.0, 5.0, -8.0], dtype=F64).repeat(4).unsqueeze(1)
LONG = torch.tensor([1.0, 1.7, 30.0, 1e4], dtype=F64).repeat_interleave(4)  # the first step, in units of 1/L


class Tilted(Ball):
    """slope x_j where |x_j| <= size, infinite elsewhere: its proximal point may be farther from x* than the start."""

    batched = ("slope",)

    def __init__(self, slope: Tensor, size: float = 1.0) -> None:
        self.slope, self.size = slope, size

    def value(self, x: Tensor) -> Tensor:
        return super().value(x / self.size) + (self.slope * x).sum(1)

    def prox(self, v: Tensor, step: Tensor) -> Tensor:
        return (v - step * self.slope).clamp(-self.size, self.size)

    def subdiff(self, x: Tensor) -> tuple[Tensor, Tensor]:
        low, high = super().subdiff(x / self.size)
        return low + self.slope, high + self.slope


def drawn(structure: bool) -> tuple[sp.Problem, Tensor]:
    """f(x) = 1/2 |x - c|^2_W, known to be least squares or not, on a tilted box; and its solution."""
    w, c = 10 ** normal(16, 7), 3 * normal(16, 7, seed=1)
    f = LeastSquares(torch.diag_embed(w.sqrt()), w.sqrt() * c) if structure else Ridge(w, c)
    return sp.Problem(f, Tilted(SLOPES)), (c - SLOPES / w).clamp(-1, 1)


@pytest.mark.parametrize("certify", [True, "audit", "cheap"])
@pytest.mark.parametrize("structure", [False, True])
@pytest.mark.parametrize("outside", [False, True])
def test_the_bound_holds_after_every_iteration(structure, outside, certify):
    problem, exact = drawn(structure)
    x0 = normal(16, 7, seed=2).clamp(-1, 1) + (1.5 if outside else 0.0)
    assert bool(torch.isinf(problem.objective(x0)).all()) == outside
    best, radius = problem.objective(exact), (x0 - exact).norm(dim=1)
    raised_last = 0
    for optimizer in OPTIMIZERS:
        before = torch.zeros(16, dtype=torch.int64)
        for steps in (0, 1, 2, 3, 4, 5, 6, 7, 8, 20) if certify is True else (5, 9, 10, 11, 20, 30, 40):
            options = {"max_iter": steps, "tol": 1e-15, "certify": certify, "step_size": LONG * problem.step_size()}
            solution = sp.solve(problem, optimizer, x0, **options)
            bound = solution.bound(radius)
            assert (solution.objective - best <= bound + 1e-13 * best.abs()).all(), (steps, bound)
            raised_last += int((solution.rejected > before).sum())
            before = solution.rejected
    assert raised_last > (10 if certify == "audit" else 20)  # the case is met; in audits L is raised by FISTA alone


class Bent(sp.Smooth):
    """f(x) = sum_j -g_j x_j + K_j/2 max(x_j - e_j, 0)^2: no curvature is seen before x_j has come to e_j."""

    batched = ("g", "K", "e")

    def __init__(self, g: Tensor, K: Tensor, e: Tensor) -> None:
        self.g, self.K, self.e = g, K, e

    @property
    def shape(self) -> torch.Size:
        return self.g.shape

    def value(self, x: Tensor) -> Tensor:
        return (self.K / 2 * (x - self.e).clamp(min=0).square() - self.g * x).sum(1)

    def grad(self, x: Tensor) -> Tensor:
        return self.K * (x - self.e).clamp(min=0) - self.g

    def lipschitz(self, exact: bool = False) -> Tensor:
        return torch.ones_like(self.g[:, 0])


def test_the_bound_holds_where_L_is_raised_in_the_last_iteration():
    generator = torch.Generator().manual_seed(0)
    g, K, e = (
        10 ** (low + width * torch.rand(1000, 2, generator=generator, dtype=F64))
        for low, width in ((-2, 2), (-1, 3), (-1, 2.5))
    )
    problem, exact = sp.Problem(Bent(g, K, e), Tilted(torch.zeros(1000, 1, dtype=F64), 1e9)), e + g / K
    best, radius = problem.objective(exact), exact.norm(dim=1)
    for steps in (8, 12, 17, 22):
        solution, before = (sp.solve(problem, FISTA(), max_iter=k, tol=1e-15) for k in (steps, steps - 1))
        assert (solution.rejected > before.rejected).sum() > 10
        assert (solution.objective - best <= solution.bound(radius) + 1e-13 * best.abs()).all()


def test_a_start_just_outside_the_domain_is_moved_and_the_bound_knows():
    """x* = 1 and x_0 = 1.001, but its proximal point is far from both, where a flat f lets it stay."""
    w, slope = 10 ** normal(16, 7).clamp(min=-2), torch.full((16, 1), 5.0, dtype=F64)
    problem = sp.Problem(Ridge(w, 2 + slope / w), Tilted(slope))
    exact = torch.ones(16, 7, dtype=F64)
    x0 = 1.001 * exact
    solution = sp.solve(problem, FISTA(), x0, max_iter=3, tol=1e-15)
    assert torch.isfinite(solution.objective).all()  # that no slope says so does not make the start a solution
    begun = problem.prox(x0, problem.step_size().unsqueeze(1))
    torch.testing.assert_close(solution.moved, (begun - x0).norm(dim=1))
    above = solution.objective - problem.objective(exact)
    assert (above <= solution.bound((x0 - exact).norm(dim=1)) + 1e-13).all()
    inside = sp.solve(problem, FISTA(), begun, max_iter=3, tol=1e-15)
    assert torch.equal(inside.moved, torch.zeros(16, dtype=F64))


def test_without_a_rate_the_gap_is_the_bound_even_for_radius_zero():
    problem = random_problem("lasso", batch=3)
    for options in ({"max_iter": 0}, {"certify": False, "max_iter": 3}, {"certify": "cheap", "max_iter": 9}):
        solution = sp.solve(problem, FISTA(), normal(3, 12), polish=False, **options)
        if options.get("certify") != "cheap":
            assert torch.equal(solution.bound(0.0), solution.gap)
        assert not torch.isnan(solution.bound(0.0)).any()


def test_a_radius_that_is_none_is_one_line():
    solution = sp.solve(random_problem("lasso", batch=3), FISTA(), max_iter=2, polish=False)
    refused(lambda: solution.bound("far"), "radius is a str")
    for radius, got in ((-1.0, "value -1.0"), (float("nan"), "value nan"), (torch.ones(2), "shape (2,)")):
        refused(lambda radius=radius: solution.bound(radius), f"radius has {got}; pass a number >= 0")
    refused(lambda: solution.bound(torch.tensor([1.0, -1.0, 1.0])), "radius has shape (3,); pass a number >= 0")
    assert torch.equal(solution.bound(2), solution.bound(torch.full((3,), 2.0)))


def test_a_weight_that_overflows_proves_nothing(monkeypatch):
    """As A of 1e-16 in float32 makes it in an audit: the rate was zero then, and with it the bound."""
    proved = audited._proved
    monkeypatch.setattr(audited, "_proved", lambda *given: (torch.full_like(given[3], torch.inf), proved(*given)[1]))
    problem = random_problem("lasso", batch=2, m=8, n=12).to(dtype=torch.float32)
    solution = sp.solve(problem, ISTA(), certify="audit", max_iter=40, tol=1e-12, polish=False, engine="plain")
    assert bool((solution.rate == torch.inf).any())
    assert torch.equal(solution.bound(1.0), solution.gap)
