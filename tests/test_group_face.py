"""Newton's method on the groups that are not zero: against long runs, and where iterations alone are slow."""

import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.guarantee import Track
from sureprox.optimizers import FISTA
from sureprox.problems.penalties import GroupL2, SparseGroup
from sureprox.support.face import newton_points

GROUPS = torch.tensor([0, 0, 0, 1, 1, 2, 3, 3, 3, 3, -1, -1])  # the last two are free
A = normal(3, 60, 12) + 2 * normal(3, 60, 1, seed=1)  # columns that are alike
b = (A[:, :, :5]).sum(2) + 3 * normal(3, 60, seed=2)
PENALTIES = {
    "groups": lambda size: GroupL2(GROUPS, size, [3**0.5, 2**0.5, 1.0, 2.0]),
    "sparse groups": lambda size: SparseGroup(GROUPS, 0.5 * size, size),
    "classes": lambda size: GroupL2(torch.arange(12).repeat(3), size),
}
LOSSES = {
    "squares": lambda: sp.losses.LeastSquares(A, b),
    "logistic": lambda: sp.losses.Logistic(A, b > 0),
    "huber": lambda: sp.losses.Huber(A, b, delta=2.0),
    "poisson": lambda: sp.losses.Poisson(0.1 * A, b.abs().round()),
    "softmax": lambda: sp.losses.Softmax(A, (b > -3).long() + (b > 3).long()),
}
SIZE = {"logistic": 0.05}
FORMS = [(loss, penalty) for loss in LOSSES for penalty in PENALTIES if (loss == "softmax") == (penalty == "classes")]


def problem(loss: str, penalty: str) -> sp.Problem:
    return sp.Problem(LOSSES[loss](), PENALTIES[penalty](SIZE.get(loss, 2.0)))


def norms(given: sp.Problem, x: torch.Tensor) -> torch.Tensor:
    assert isinstance(given.r, SparseGroup)
    return given.r.norms(x)


@pytest.mark.parametrize(("loss", "penalty"), FORMS)
def test_a_solve_ends_by_it_where_iterations_alone_go_on(loss, penalty):
    given = problem(loss, penalty)
    found = sp.solve(given, tol=1e-9)
    alone = sp.solve(given, FISTA(restart=True), tol=1e-9, max_iter=20_000, polish=False)
    assert found.converged.all()
    assert alone.converged.all()
    assert (found.iterations <= alone.iterations).all()
    assert (found.track == Track.POLISH).any()
    torch.testing.assert_close(found.objective, alone.objective, rtol=1e-8, atol=0)
    assert torch.equal(norms(given, found.x) == 0, norms(given, alone.x) == 0)


@pytest.mark.parametrize("penalty", ["groups", "sparse groups"])
def test_groups_that_are_wrong_enter_and_leave(penalty):
    given = problem("squares", penalty)
    least = sp.solve(given, tol=1e-10, max_iter=20_000)
    for start in (torch.zeros(3, 12, dtype=F64), normal(3, 12, seed=3)):
        found = newton_points(given, start)
        above = given.objective(found) - least.objective
        assert (above <= 1e-6 * least.objective).all()
        for i in range(3):
            alone = newton_points(given.select(torch.tensor([i])), start[i : i + 1])
            torch.testing.assert_close(alone[0], found[i], rtol=1e-9, atol=1e-12)


def test_moved_problems_and_float32():
    given, t = problem("squares", "sparse groups"), normal(12, seed=4)
    expected = sp.solve(given, tol=1e-9).x
    moved = sp.solve(given.shifted(t), tol=1e-9)
    torch.testing.assert_close(moved.x + t, expected, rtol=1e-5, atol=1e-6)
    assert sp.solve(given.to(dtype=torch.float32)).converged.all()
