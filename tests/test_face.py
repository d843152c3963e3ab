"""Newton's method on the face, for every loss and separable penalty: against enumeration and long runs."""

from itertools import product

import pytest
import torch
from torch import Tensor

import sureprox as sp
from helpers import F64, normal
from sureprox.guarantee import Track
from sureprox.optimizers import FISTA
from sureprox.problems.penalties import Box, ElasticNet, NonNegative, Separable
from sureprox.support.face import newton_points

A, WIDE = normal(3, 40, 6), normal(3, 20, 30, seed=5)
b, wide_b = normal(3, 40, seed=1), normal(3, 20, seed=6)
LABELS = (b > 0).to(F64)

PENALTIES = {
    "elastic net": lambda: ElasticNet(3.0, 2.0),
    "nonnegative": lambda: NonNegative(1.0),
    "box": lambda: Box(-0.05, 0.1),
    "everything": lambda: Separable(torch.tensor([0.0, 1.0, 2.0, 0.5, 3.0, 1.0]), 0.5, low=-0.1, high=0.08),
    "away from zero": lambda: Separable(0.5, low=0.02, high=0.3),
}
LOSSES = {
    "squares": lambda: sp.losses.LeastSquares(A, b),
    "weighted": lambda: sp.losses.LeastSquares(A, b, weights=normal(40, seed=2).abs()),
    "logistic": lambda: sp.losses.Logistic(A, LABELS),
    "huber": lambda: sp.losses.Huber(A, b, delta=0.7),
    "poisson": lambda: sp.losses.Poisson(0.3 * A, torch.round(b.abs() * 3)),
}
SMALL = {"logistic": 0.02, "poisson": 0.5}  # their gradients are smaller


def problem(loss: str, penalty: str) -> sp.Problem:
    r = PENALTIES[penalty]()
    made = sp.Problem(LOSSES[loss](), r)
    scale = SMALL.get(loss)
    return made if scale is None else sp.Problem(made.f, made.r.scaled(torch.full((3,), scale, dtype=F64)))


def best_of_all_faces(Q: Tensor, c: Tensor, l1: float, l2: float, low: float, high: float) -> float:
    """min 1/2 x'Qx - c'x + l1 |x|_1 + l2/2 |x|^2 over a box in two coordinates, by every combination of pieces."""
    pieces = [(low, min(high, 0.0), -l1), (max(low, 0.0), high, l1)]
    value = torch.inf
    for choice in product([*pieces, low, high, 0.0], repeat=len(c)):
        fixed = [i for i, piece in enumerate(choice) if not isinstance(piece, tuple)]
        free = [i for i, piece in enumerate(choice) if isinstance(piece, tuple)]
        x = torch.zeros(len(c), dtype=F64)
        for i in fixed:
            x[i] = choice[i]
        if free:
            H = Q + l2 * torch.eye(len(c), dtype=F64)
            slopes = torch.tensor([choice[i][2] for i in free], dtype=F64)
            right = c[free] - slopes - H[free][:, fixed] @ x[fixed]
            x[free] = torch.linalg.solve(H[free][:, free], right)
            if any(not choice[i][0] - 1e-12 <= float(x[i]) <= choice[i][1] + 1e-12 for i in free):
                continue
        if bool(((x >= low - 1e-12) & (x <= high + 1e-12)).all()):
            value = min(value, float(x @ Q @ x / 2 - c @ x + l1 * x.abs().sum() + l2 / 2 * x.square().sum()))
    return value


@pytest.mark.parametrize("seed", range(8))
def test_the_minimum_of_a_quadratic_is_that_over_all_faces(seed):
    M, c = normal(1, 5, 2, seed=seed), normal(1, 5, seed=seed + 1)
    l1, l2, low, high = 0.8, 0.3, -0.4, 0.25
    given = sp.Problem(sp.losses.LeastSquares(M, c), Separable(l1, l2, low, high))
    x = torch.zeros(1, 2, dtype=F64)
    for _ in range(3):
        x = newton_points(given, x)
    expected = best_of_all_faces(M[0].mT @ M[0], M[0].mT @ c[0], l1, l2, low, high) + float(c.square().sum()) / 2
    assert float(given.objective(x)) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("penalty", PENALTIES)
def test_a_point_near_the_solution_becomes_the_solution(loss, penalty):
    given = problem(loss, penalty)
    long = sp.solve(given, FISTA(restart=True), max_iter=20_000, tol=1e-12, polish=False)
    near = given.prox(long.x + 1e-3 * normal(3, 6, seed=9), torch.full((3, 1), 1e-3, dtype=F64))
    x = near
    for _ in range(3):
        x = newton_points(given, x)
    error = (given.objective(x) - long.objective) / long.objective
    assert bool((error <= 1e-10).all())
    assert bool((given.objective(near) > long.objective * (1 + 1e-9)).all()), "the case is trivial"


@pytest.mark.parametrize("loss", ["logistic", "huber", "poisson"])
def test_no_step_of_a_loss_that_is_not_quadratic_goes_up(loss):
    given = problem(loss, "elastic net")
    for size in (0.1, 3.0, 100.0):
        x = size * normal(3, 6, seed=4)
        assert bool((given.objective(newton_points(given, x)) <= given.objective(x)).all())


def test_each_instance_alone():
    given = problem("logistic", "everything")
    x = 0.05 * normal(3, 6, seed=4)
    together = newton_points(given, x)
    for i in range(3):
        index = torch.tensor([i])
        torch.testing.assert_close(
            newton_points(given.select(index), x[index]), together[index], rtol=1e-12, atol=1e-14
        )


def test_what_cannot_be_solved_stays():
    """More coordinates on the face than rows, and no curvature."""
    given = sp.Problem(sp.losses.LeastSquares(WIDE, wide_b), Box(-10.0, 10.0))
    x = normal(3, 30, seed=3)
    assert torch.equal(newton_points(given, x), x)
    curved = sp.Problem(sp.losses.LeastSquares(WIDE, wide_b), Separable(l2=1.0))
    normal_equations = WIDE.mT @ WIDE + torch.eye(30, dtype=F64)
    truth = torch.linalg.solve(normal_equations, (WIDE.mT @ wide_b.unsqueeze(2))).squeeze(2)
    torch.testing.assert_close(newton_points(curved, x), truth, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("penalty", PENALTIES)
@pytest.mark.parametrize("loss", ["squares", "logistic", "huber"])
def test_a_solve_ends_by_it_in_few_iterations(loss, penalty, dtype):
    given = problem(loss, penalty).to(dtype=dtype)
    quick, slow = (sp.solve(given, tol=1e-9, max_iter=20_000, polish=polish) for polish in (True, False))
    assert quick.converged.all()
    assert slow.converged.all()
    assert bool((quick.iterations <= 30).all())
    assert Track.POLISH in quick.track or bool((quick.iterations <= 10).all())
    torch.testing.assert_close(quick.objective, slow.objective, rtol=1e-8, atol=1e-10)


def test_moved_problems():
    given = problem("squares", "everything").shifted(torch.linspace(-3, 3, 6, dtype=F64))
    still = sp.solve(problem("squares", "everything"), tol=1e-10)
    moved = sp.solve(given, tol=1e-10)
    assert moved.converged.all()
    torch.testing.assert_close(moved.objective, still.objective, rtol=1e-9, atol=0)


def flat_softmax() -> sp.Problem:
    """H has a direction without curvature for every column: the same number added to all classes."""
    A = normal(2, 100, 12, seed=20)
    classes = (2 * normal(2, 100, seed=21)).round().clamp(-1, 1) + 1
    return sp.Problem(sp.losses.Softmax(A, classes), sp.penalties.L1(0.01))


def narrow_quantile() -> sp.Problem:
    """Few rows bend at any point, and others than those at the solution."""
    return sp.Problem(
        sp.losses.Quantile(normal(2, 200, 12, seed=22), normal(2, 200, seed=23), 0.8, 0.01), sp.penalties.L1(0.5)
    )


def test_where_the_model_is_flat_damped_steps_lower_F():
    given = flat_softmax()
    start = 0.1 * normal(2, given.n, seed=24)
    found = newton_points(given, start)
    least = sp.solve(given, FISTA(restart=True), polish=False, max_iter=20_000).objective
    assert (given.objective(found) - least < 0.05 * (given.objective(start) - least)).all()
    for i in range(2):
        alone = newton_points(given.select(torch.tensor([i])), start[i : i + 1])
        torch.testing.assert_close(alone[0], found[i], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("make", [flat_softmax, narrow_quantile])
def test_hard_problems_end_within_the_default_iterations(make):
    given = make()
    solution = sp.solve(given)
    assert solution.converged.all()
    assert (solution.track == Track.POLISH).all()
    alone = sp.solve(given, FISTA(restart=True), polish=False, max_iter=1000)
    assert (~alone.converged | (alone.iterations > 5 * solution.iterations)).all()
    assert (solution.objective <= alone.objective * (1 + 1e-13)).all()
