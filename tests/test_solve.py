"""solve: status, stopping for each instance alone, history, divergence, gradients, degenerate and bad input."""

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from torch import Tensor

import sureprox as sp
from certified_cases import ADVERSARIES
from helpers import F64, labels, lam_max, normal, random_problem, refused, relative_error, walk, with_ratio
from sureprox import Status
from sureprox.guarantee import Track
from sureprox.optimizers import FISTA, ISTA, Adam, AdamHD
from sureprox.optimizers.base import State
from sureprox.problems import L1, LeastSquares, Zero
from sureprox.solve.solve import default_optimizer

KINDS = pytest.mark.parametrize("kind", ["lasso", "logistic"])
FAST = FISTA(restart=True)


def lower_bound(problem: sp.Problem, x: Tensor) -> Tensor:
    """A dual value <= F* in plain formulas (THEORY.md 7.1), for float64 LASSO problems with one A per instance."""
    f, lam = problem.f, problem.r.lam
    rho = f.b - torch.einsum("bmn,bn->bm", f.A, x)
    bound = lam / torch.einsum("bmn,bm->bn", f.A, rho).abs().amax(1)
    c = ((f.b * rho).sum(1) / (rho * rho).sum(1)).clamp(-bound, bound)
    return (f.b**2).sum(1) / 2 - ((c.unsqueeze(1) * rho - f.b) ** 2).sum(1) / 2


def test_without_an_optimizer_the_default_runs():
    """Where there are no kernels that need none (`test_working_set.py`)."""
    problem = random_problem("lasso", batch=3, m=20, n=60)
    default = sp.solve(problem, engine="plain")
    named = sp.solve(problem, default_optimizer(problem), engine="plain")
    assert torch.equal(default.x, named.x)
    assert default.converged.all()


# --- status and stopping ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tol", [1e-2, 1e-6, 1e-9])
@KINDS
def test_converged_means_close_to_the_optimum(kind, tol):
    problem = random_problem(kind, batch=4, m=20, n=10)
    solution = sp.solve(problem, FAST, max_iter=5000, tol=tol)
    best = sp.reference(problem).objective
    assert all(status is Status.CONVERGED for status in solution.status)
    assert solution.converged.all()
    assert (solution.objective - best <= tol * best).all()
    assert (solution.gap <= tol * best * (1 + 1e-9)).all()
    torch.testing.assert_close(solution.objective, problem.objective(solution.x), rtol=1e-14, atol=0)
    torch.testing.assert_close(solution.gap, problem.duality_gap(solution.x), rtol=1e-6, atol=1e-16)
    torch.testing.assert_close(solution.kkt, problem.kkt_residual(solution.x), rtol=1e-6, atol=1e-14)


@pytest.mark.parametrize("tol", [1e-4, 0.5])  # at 0.5, F - gap and F are far apart
@pytest.mark.parametrize("check_every", [1, 7])
def test_every_instance_stops_at_its_own_first_passing_check(check_every, tol):
    """Against a loop that never stops, never drops an instance, and uses naive formulas for the certificate."""
    A, b = normal(6, 20, 12), normal(6, 20, seed=1)
    problem = with_ratio("lasso", A, b, torch.tensor([0.9, 0.5, 0.1, 0.03, 0.3, 1.2], dtype=F64))
    max_iter = 60
    solution = sp.solve(problem, ISTA(), max_iter=max_iter, tol=tol, certify=False, check_every=check_every)
    path = walk(problem, ISTA(), torch.zeros(6, 12, dtype=F64), max_iter)
    checks = sorted({*range(0, max_iter, check_every), max_iter})
    gaps = torch.stack([problem.objective(path[k]) - lower_bound(problem, path[k]) for k in checks])
    bounds = torch.stack([lower_bound(problem, path[k]) for k in checks])
    floor = tol * problem.objective(path[0] * 0)
    passed = gaps <= tol * torch.maximum(bounds, floor)
    for i in range(6):
        hits = passed[:, i].nonzero()
        expected = checks[int(hits[0])] if len(hits) else max_iter
        assert solution.iterations[i] == expected
        assert solution.status[i] is (Status.CONVERGED if len(hits) else Status.ITERATION_LIMIT)
        assert (solution.x[i] - path[expected, i]).abs().max() <= 1e-12
    if tol == 1e-4:  # the case is not trivial
        assert len(set(solution.iterations.tolist())) >= 4
        assert {*solution.status} == {Status.CONVERGED, Status.ITERATION_LIMIT}


def test_stopping_by_kkt_where_the_gap_says_nothing():
    problem = random_problem("lasso", batch=2, m=20, n=6, ratio=0.0)
    solution = sp.solve(problem, FAST, tol=1e-7, max_iter=3000)
    exact = torch.linalg.lstsq(problem.f.A, problem.f.b.unsqueeze(2)).solution.squeeze(2)
    assert solution.converged.all()
    assert (problem.kkt_residual(solution.x) <= 1e-7 * lam_max(problem)).all()
    torch.testing.assert_close(solution.x, exact, rtol=0, atol=1e-6)


class Between(sp.Penalty):
    """r(x) = 0 where 1 <= x_j <= 2, infinite elsewhere; with its dual."""

    def value(self, x):
        return torch.where(((x >= 1) & (x <= 2)).all(1), 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v.clamp(1, 2)

    def subdiff(self, x):
        return torch.where(x > 1, 0.0, -torch.inf).to(x.dtype), torch.where(x < 2, 0.0, torch.inf).to(x.dtype)


class BetweenWithGap(Between):
    def dual_range(self, g):
        return torch.ones_like(g[:, 0]), torch.ones_like(g[:, 0])

    def fenchel_young(self, x, g, scale):
        s = scale.unsqueeze(1)
        return self.value(x) + (torch.maximum(-s * g, -2 * s * g) + s * g * x).sum(1)


SLOPES = torch.arange(1, 5, dtype=F64)


@pytest.mark.parametrize(("start", "right", "best"), [(0.0, -20.0, 1.0), (9.0, 20.0, 2.0)])
def test_outside_the_domain_nothing_is_converged(start, right, best):
    """At these starts -grad f lies within the bounds that stand for the subdifferential, which is empty there."""
    problem = sp.Problem(LeastSquares(torch.diag(SLOPES), right * SLOPES), Between())
    x0 = torch.full((1, 4), start, dtype=F64)
    assert not sp.solve(problem, FISTA(), x0, max_iter=0).converged.any()
    solution = sp.solve(problem, FISTA(restart=True), x0, tol=1e-10)
    assert solution.converged.all()
    assert torch.equal(solution.x, torch.full((1, 4), best, dtype=F64))


def test_an_infinite_objective_at_the_origin_is_no_floor_of_the_gap():
    A = torch.cat([torch.diag(SLOPES), torch.diag(SLOPES)])
    problem = sp.Problem(LeastSquares(A, torch.cat([1.5 * SLOPES - 0.9, 1.5 * SLOPES + 1.1])), BetweenWithGap())
    assert problem.has_duality_gap
    solution = sp.solve(problem, FISTA(restart=True), torch.full((1, 4), 2.0, dtype=F64), check_every=1)
    best = problem.objective((1.5 + 0.1 / SLOPES).unsqueeze(0))
    assert solution.converged.all()
    assert (solution.objective - best <= 1e-6 * best).all()


def test_not_converged_is_not_called_converged():
    problem = random_problem("lasso", batch=3, m=20, n=30, ratio=0.01)
    solution = sp.solve(problem, ISTA(), max_iter=5, tol=1e-9)
    assert [*solution.status] == [Status.ITERATION_LIMIT] * 3
    assert not solution.converged.any()
    assert solution.iterations.tolist() == [5, 5, 5]
    assert str(solution.status[0]) == "iteration_limit"


def test_a_start_at_the_solution_takes_no_iteration():
    problem = random_problem("lasso")
    best = sp.reference(problem)
    solution = sp.solve(problem, ISTA(), best.x, tol=1e-9, record=("objective",))
    assert solution.iterations.tolist() == [0, 0, 0]
    assert solution.converged.all()
    assert torch.equal(solution.x, best.x)
    assert solution.x.data_ptr() != best.x.data_ptr()  # the caller's tensor is not handed back
    assert solution.history["objective"].shape == (1, 3)


def test_no_iterations_allowed():
    problem = random_problem("lasso")
    x0 = normal(3, 12, seed=5)
    solution = sp.solve(problem, ISTA(), x0, max_iter=0, record=("objective", "gap"))
    assert torch.equal(solution.x, x0)
    assert [*solution.status] == [Status.ITERATION_LIMIT] * 3
    torch.testing.assert_close(solution.history["objective"], problem.objective(x0).unsqueeze(0))


@pytest.mark.parametrize("optimizer", [ISTA(), FISTA(), FAST, Adam(), AdamHD()], ids=lambda o: type(o).__name__)
def test_default_start_is_zero_and_the_result_repeats(optimizer):
    problem = random_problem("logistic")
    first, again = sp.solve(problem, optimizer, max_iter=30), sp.solve(problem, optimizer, torch.zeros(12).double(), 30)
    assert torch.equal(first.x, again.x)


# --- finished instances -----------------------------------------------------------------------------------------------


class Watched(FISTA):
    """FISTA that notes how many instances each of its steps works on."""

    def __init__(self) -> None:
        super().__init__(restart=True)
        self.rows: list[int] = []

    def step(self, problem, state):
        self.rows.append(problem.batch)
        return super().step(problem, state)


class CountedLeastSquares(LeastSquares):
    """LeastSquares that notes the batch size of every gradient; copies share the list."""

    def __init__(self, A: Tensor, b: Tensor) -> None:
        super().__init__(A, b)
        self.rows: list[int] = []

    def grad(self, x):
        self.rows.append(len(x))
        return super().grad(x)


@pytest.mark.parametrize("shared", [False, True])
def test_finished_instances_cost_no_more_work(shared):
    A = normal(20, 40) if shared else normal(8, 20, 40)
    f = CountedLeastSquares(A, normal(8, 20, seed=1))
    lam = torch.tensor([2.0] * 7 + [0.01], dtype=F64)
    problem = sp.Problem(f, L1(lam * f.grad(torch.zeros(8, 40, dtype=F64)).abs().amax(1)))
    f.rows.clear()
    watched = Watched()
    solution = sp.solve(problem, watched, max_iter=400, tol=1e-8)
    assert solution.iterations[:7].tolist() == [0] * 7
    assert solution.iterations[7] >= 50
    assert set(watched.rows) == {1}
    assert f.rows[-1] == 1
    assert sum(rows == 8 for rows in f.rows) <= 6  # only before the first step


def test_work_shrinks_as_instances_finish():
    A, b = normal(8, 20, 30), normal(8, 20, seed=1)
    ratios = torch.tensor([0.8, 0.7, 0.6, 0.5, 0.1, 0.05, 0.02, 0.005], dtype=F64)
    watched = Watched()
    problem = with_ratio("lasso", A, b, ratios)
    solution = sp.solve(problem, watched, max_iter=2000, tol=1e-8, check_every=5)
    rows = watched.rows
    assert rows[0] == 8
    assert rows[-1] <= 2
    assert sorted(rows, reverse=True) == rows
    unfinished = [int((solution.iterations > k).sum()) for k in range(len(rows))]
    assert all(alive <= count < 2 * alive or count == alive for alive, count in zip(unfinished, rows, strict=True))


def test_stopping_of_neighbours_does_not_change_an_answer():
    A, b = normal(6, 20, 30), normal(6, 20, seed=1)
    problem = with_ratio("lasso", A, b, torch.tensor([0.8, 0.7, 0.6, 0.5, 0.1, 0.01], dtype=F64))
    together = sp.solve(problem, FAST, max_iter=300, tol=1e-6)
    for i in range(6):
        alone = sp.solve(problem.select(torch.tensor([i])), FAST, max_iter=300, tol=1e-6)
        assert relative_error(alone.x[0], together.x[i]) <= 1e-12
        assert alone.iterations[0] == together.iterations[i]


# --- history ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@KINDS
def test_history_describes_the_point_that_would_be_returned(kind, dtype):
    problem = random_problem(kind, batch=4, m=20, n=8, ratio=0.3).to(dtype=dtype)
    x0 = normal(4, 8, seed=5, dtype=dtype)
    names = ("objective", "gap", "kkt", "step_norm")
    solution = sp.solve(problem, FISTA(), x0, max_iter=40, tol=1e-3, certify=False, record=names)
    exact = problem.to(dtype=F64)
    steps = int(solution.iterations.max())
    state, points = FISTA().init(problem, x0), [x0]
    for _ in range(steps):
        state = FISTA().step(problem, state)
        points.append(torch.where((solution.iterations >= state.k).unsqueeze(1), state.x, points[-1]))
    points = torch.stack(points).double()
    assert torch.equal(points[-1], solution.x.double()) or relative_error(points[-1], solution.x.double()) <= 1e-6
    for name in names:
        assert solution.history[name].shape == (steps + 1, 4)
        assert solution.history[name].dtype == F64
    rtol = 1e-12 if dtype == F64 else 1e-5
    for k in range(steps + 1):
        for name, method in (("objective", "objective"), ("gap", "duality_gap"), ("kkt", "kkt_residual")):
            expected = getattr(exact, method)(points[k])
            torch.testing.assert_close(solution.history[name][k], expected, rtol=rtol, atol=rtol)
    moves = (points[1:] - points[:-1]).norm(dim=2)
    torch.testing.assert_close(solution.history["step_norm"][1:], moves, rtol=rtol, atol=rtol)
    assert solution.history["step_norm"][0].tolist() == [0.0] * 4
    assert torch.equal(solution.history["objective"][-1], solution.objective)
    assert len(set(solution.iterations.tolist())) > 1


def test_history_row_k_is_the_solution_with_k_iterations():
    problem = random_problem("lasso", ratio=0.01)
    history = sp.solve(problem, FISTA(), max_iter=25, tol=1e-12, record=("objective",)).history["objective"]
    assert history.shape == (26, 3)
    for k in (0, 1, 2, 11, 25):
        stopped = sp.solve(problem, FISTA(), max_iter=k, tol=1e-12)
        torch.testing.assert_close(stopped.objective, history[k], rtol=1e-13, atol=0)


def test_history_is_empty_unless_asked_for():
    assert sp.solve(random_problem("lasso"), ISTA(), max_iter=3).history == {}


def test_callback_sees_the_progress():
    problem = random_problem("lasso", batch=4, ratio=0.2)
    seen: list[sp.Progress] = []
    solution = sp.solve(problem, FAST, max_iter=95, tol=1e-10, callback=seen.append)
    assert [p.k for p in seen] == [min(10 * (i + 1), 95) for i in range(len(seen))]
    assert {p.max_iter for p in seen} == {95}
    for p in seen:
        assert p.unfinished == int(((solution.iterations > p.k) | ~solution.converged).sum())
    unfinished = solution.gap[~solution.converged]
    assert seen[-1].worst_gap == (float(unfinished.max()) if len(unfinished) else 0.0)
    assert seen[0].worst_gap > seen[-1].worst_gap


# --- divergence -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BombState(State):
    fuse: Tensor  # (B,) the step at which the instance is ruined


class Bomb(ISTA):
    """ISTA that returns a ruined point for instance i at step fuse[i]."""

    def __init__(self, fuses: list[int], value: float) -> None:
        self.fuses, self.value = torch.tensor(fuses), value

    def init(self, problem, x0, **options):
        state = super().init(problem, x0, **options)
        return BombState(x=state.x, k=0, step_size=state.step_size, fuse=self.fuses)

    def step(self, problem, state):
        state = super().step(problem, state)
        return replace(state, x=torch.where((state.fuse == state.k).unsqueeze(1), self.value, state.x))


@pytest.mark.parametrize("check_every", [1, 10, 1000])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e200])
def test_divergence_keeps_the_last_finite_point_and_spares_the_neighbours(value, check_every):
    problem = random_problem("lasso", batch=5, ratio=0.01)
    never = 10**9
    options = {"max_iter": 40, "tol": 1e-12, "certify": False}
    solution = sp.solve(problem, Bomb([7, never, 1, never, 23], value), check_every=check_every, **options)
    calm = sp.solve(problem, ISTA(), **options)
    path = walk(problem, ISTA(), torch.zeros(5, 12, dtype=F64), 40)
    assert [*solution.status] == [
        Status.DIVERGED,
        Status.ITERATION_LIMIT,
        Status.DIVERGED,
        Status.ITERATION_LIMIT,
        Status.DIVERGED,
    ]
    assert torch.isfinite(solution.x).all()
    assert torch.isfinite(solution.objective).all()
    for i, last in ((0, 6), (2, 0), (4, 22)):
        torch.testing.assert_close(solution.x[i], path[last, i], rtol=1e-12, atol=1e-14)
        assert solution.iterations[i] == last + 1
    torch.testing.assert_close(solution.objective, problem.objective(solution.x), rtol=1e-13, atol=0)
    for i in (1, 3):
        torch.testing.assert_close(solution.x[i], calm.x[i], rtol=1e-12, atol=1e-14)
        assert solution.iterations[i] == calm.iterations[i]


@pytest.mark.parametrize("start", [False, True])
def test_an_optimizer_that_writes_on_its_point_does_not_spoil_the_answer(start):
    problem = random_problem("lasso")
    x0 = normal(*problem.start().shape) if start else None
    kept = problem.start(x0).clone()
    solution = sp.solve(problem, ADVERSARIES["vandal"], x0, max_iter=12, certify=False)
    assert {str(status) for status in solution.status} == {"diverged"}
    assert torch.equal(solution.x, kept)
    assert x0 is None or torch.equal(x0, kept)
    torch.testing.assert_close(solution.objective, problem.objective(solution.x))


def test_history_of_a_diverged_instance_stays_finite():
    problem = random_problem("lasso", batch=2, ratio=0.01)
    bomb = Bomb([3, 10**9], float("nan"))
    options = {"max_iter": 8, "tol": 1e-12, "certify": False}
    history = sp.solve(problem, bomb, record=("objective", "step_norm"), **options).history
    assert history["objective"].shape == (9, 2)
    assert torch.isfinite(history["objective"]).all()
    assert (history["objective"][2:, 0] == history["objective"][2, 0]).all()
    assert (history["step_norm"][3:, 0] == 0).all()


def test_a_step_size_that_is_far_too_long_is_reported_as_divergence():
    problem = random_problem("lasso", batch=2, ratio=0.01)
    step = problem.step_size() * torch.tensor([1.0, 1e6], dtype=F64)
    solution = sp.solve(problem, ISTA(), max_iter=400, step_size=step, tol=1e-12, certify=False)
    assert solution.status[1] is Status.DIVERGED
    assert solution.status[0] is not Status.DIVERGED
    assert torch.isfinite(solution.x).all()
    first = problem.select(torch.tensor([0]))
    alone = sp.solve(first, ISTA(), max_iter=400, step_size=step[:1], tol=1e-12, certify=False)
    torch.testing.assert_close(alone.x[0], solution.x[0], rtol=1e-11, atol=1e-13)


# --- gradients --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [ISTA(), FISTA()], ids=["ista", "fista"])
def test_gradient_of_the_answer_with_respect_to_b(optimizer):
    A, b, w = normal(2, 8, 5), normal(2, 8, seed=1), normal(2, 5, seed=2)

    def answer(b: Tensor) -> Tensor:
        return (w * sp.solve(sp.lasso(A, b, 0.2), optimizer, max_iter=300, tol=1e-11, polish=False).x).sum()

    variable = b.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(answer(variable), variable)
    for i, j in ((0, 0), (0, 5), (1, 3)):
        h = torch.zeros_like(b)
        h[i, j] = 1e-5
        with torch.no_grad():
            difference = (answer(b + h) - answer(b - h)) / 2e-5
        assert float(gradient[i, j]) == pytest.approx(float(difference), rel=1e-4, abs=1e-7)
    assert gradient.abs().max() > 1e-2


def test_gradients_reach_x0_A_and_lam():
    A, b = normal(2, 8, 5).requires_grad_(), normal(2, 8, seed=1)
    lam, x0 = torch.tensor([0.2, 0.3], dtype=F64, requires_grad=True), normal(2, 5).requires_grad_()
    x = sp.solve(sp.lasso(A, b, lam), ISTA(), x0, max_iter=4).x
    for gradient in torch.autograd.grad(x.sum(), (A, lam, x0)):
        assert torch.isfinite(gradient).all()
        assert gradient.abs().sum() > 0


def test_no_graph_unless_wanted():
    A, b = normal(2, 8, 5), normal(2, 8, seed=1).requires_grad_()
    with torch.no_grad():
        assert not sp.solve(sp.lasso(A, b, 0.2), ISTA(), max_iter=5).x.requires_grad
    assert not sp.solve(sp.lasso(A, b, 0.2), ISTA(), max_iter=5, differentiable=False).x.requires_grad
    assert not sp.solve(sp.lasso(A, b.detach(), 0.2), ISTA(), max_iter=5).x.requires_grad
    solution = sp.solve(sp.lasso(A, b, 0.2), ISTA(), max_iter=5, record=("objective",))
    assert solution.x.requires_grad
    assert not solution.objective.requires_grad
    assert not solution.history["objective"].requires_grad


# --- degenerate problems ----------------------------------------------------------------------------------------------


def zero_column() -> sp.Problem:
    A = normal(2, 8, 5)
    A[:, :, 2] = 0
    return sp.lasso(A, normal(2, 8, seed=1), 0.1)


DEGENERATE = {
    "A = 0": lambda: sp.lasso(torch.zeros(2, 4, 3, dtype=F64), normal(2, 4), 0.1),
    "A = 0, logistic": lambda: sp.logistic(torch.zeros(2, 4, 3, dtype=F64), labels(2, 4), 0.1),
    "A = 0, lam = 0": lambda: sp.lasso(torch.zeros(2, 4, 3, dtype=F64), normal(2, 4), 0.0),
    "A = 0 for one instance": lambda: sp.lasso(
        normal(2, 4, 3) * torch.tensor([0.0, 1.0], dtype=F64).view(2, 1, 1), normal(2, 4), 0.1
    ),
    "b = 0": lambda: sp.lasso(normal(2, 4, 3), torch.zeros(2, 4, dtype=F64), 0.1),
    "b = 0, lam = 0": lambda: sp.lasso(normal(2, 4, 3), torch.zeros(2, 4, dtype=F64), 0.0),
    "zero column": zero_column,
    "lam = 0, tall": lambda: sp.lasso(normal(2, 8, 3), normal(2, 8, seed=1), 0.0),
    "lam = 0, wide": lambda: sp.lasso(normal(2, 3, 8), normal(2, 3, seed=1), 0.0),
    "lam = 0 for one instance": lambda: sp.lasso(normal(2, 8, 3), normal(2, 8, seed=1), [0.0, 0.1]),
    "wide": lambda: sp.lasso(normal(2, 4, 9), normal(2, 4, seed=1), 0.1),
    "tall": lambda: sp.lasso(normal(2, 9, 4), normal(2, 9, seed=1), 0.1),
    "B = 1": lambda: sp.logistic(normal(1, 9, 4), labels(1, 9), 0.05),
    "n = 1": lambda: sp.lasso(normal(2, 9, 1), normal(2, 9, seed=1), 0.1),
    "m = 1": lambda: sp.lasso(normal(2, 1, 5), normal(2, 1, seed=1), 0.1),
    "m = 1, logistic": lambda: sp.logistic(normal(2, 1, 5), torch.tensor([[0.0], [1.0]], dtype=F64), 0.1),
    "m = n = B = 1": lambda: sp.lasso(normal(1, 1, 1), normal(1, 1, seed=1), 0.1),
    "one label only": lambda: sp.logistic(normal(2, 9, 4), torch.ones(2, 9, dtype=F64), 0.05),
    "shared A, b (m,)": lambda: sp.lasso(normal(9, 4), normal(9, seed=1), 0.1),
    "no penalty": lambda: sp.Problem(LeastSquares(normal(2, 9, 4), normal(2, 9, seed=1)), Zero()),
    "tiny data": lambda: sp.lasso(1e-8 * normal(2, 9, 4), 1e-8 * normal(2, 9, seed=1), 1e-18),
    "huge data": lambda: sp.lasso(1e8 * normal(2, 9, 4), 1e8 * normal(2, 9, seed=1), 1e15),
    "shifted": lambda: sp.lasso(normal(2, 9, 4), normal(2, 9, seed=1), 0.1).shifted(100.0),
}


@pytest.mark.parametrize("start", ["zero", "far"])
@pytest.mark.parametrize("case", DEGENERATE)
def test_degenerate_problems_are_solved(case, start):
    problem = DEGENERATE[case]()
    x0 = None if start == "zero" else 3 * normal(problem.batch, problem.n, seed=11)
    solution = sp.solve(problem, FAST, x0, max_iter=5000, tol=1e-6)
    assert solution.converged.all(), solution.status
    assert torch.isfinite(solution.x).all()
    best = sp.reference(problem)
    value, gradient = problem.scale()
    close = solution.objective - best.objective <= 1e-6 * torch.maximum(best.objective, 1e-6 * value)
    at_start = problem.grad(problem.start(x0)).abs().amax(1)
    stationary = solution.kkt <= 1e-6 * torch.where(gradient > 0, gradient, at_start)
    penalised = getattr(problem.r, "lam", torch.zeros(problem.batch)) > 0  # else the rule is about the gradient
    assert torch.where(penalised, close, stationary).all()


@pytest.mark.parametrize("x0", [None, 3 * normal(3, 12)], ids=["from zero", "from afar"])
@KINDS
def test_lam_above_lam_max_gives_exactly_zero(kind, x0):
    problem = random_problem(kind, ratio=1.001)
    solution = sp.solve(problem, FAST, x0, max_iter=5000)
    assert solution.converged.all()
    if x0 is None:
        assert solution.iterations.tolist() == [0, 0, 0]
        assert not solution.x.any()
    assert not sp.solve(random_problem(kind, ratio=3.0), FAST, x0, max_iter=5000, tol=1e-12).x.any()


def test_shared_matrix_with_one_right_hand_side_is_a_batch_of_one():
    A, b = normal(9, 4), normal(9, seed=1)
    one = sp.solve(sp.lasso(A, b, 0.1), FAST, tol=1e-10)
    assert one.x.shape == (1, 4)
    assert one.status.shape == (1,)
    full = sp.solve(sp.lasso(A.expand(1, 9, 4), b.expand(1, 9), 0.1), FAST, tol=1e-10)
    torch.testing.assert_close(one.x, full.x, rtol=1e-10, atol=1e-12)


@KINDS
def test_float32_converges_and_is_measured_in_float64(kind):
    problem = random_problem(kind, batch=4, m=20, n=10)
    solution = sp.solve(problem.to(dtype=torch.float32), FAST, max_iter=3000, tol=1e-5)
    assert solution.x.dtype == torch.float32
    assert {solution.objective.dtype, solution.gap.dtype, solution.kkt.dtype} == {F64}
    assert solution.converged.all()
    best = sp.reference(problem.to(dtype=torch.float32).to(dtype=F64))
    assert (solution.objective - best.objective <= 1e-5 * best.objective).all()


# --- bad arguments ----------------------------------------------------------------------------------------------------

PROBLEM = random_problem("lasso")
ARGUMENTS = {
    "max_iter negative": ({"max_iter": -1}, "max_iter is -1", "whole number >= 0"),
    "max_iter a fraction": ({"max_iter": 2.5}, "max_iter is 2.5", "whole number >= 0"),
    "max_iter a boolean": ({"max_iter": True}, "max_iter is True", "whole number >= 0"),
    "max_iter beyond 64 bits": ({"max_iter": 2**70}, f"max_iter is {2**70}", "at most 9223372036854775807"),
    "floor negative": ({"floor": -1.0}, "floor is -1.0", "number >= 0, or None"),
    "floor nan": ({"floor": float("nan")}, "floor is nan", "number >= 0, or None"),
    "floor infinite": ({"floor": float("inf")}, "floor is inf", "number >= 0, or None"),
    "floor text": ({"floor": "tol"}, "floor is 'tol'", "number >= 0, or None"),
    "tol zero": ({"tol": 0.0}, "tol is 0.0", "number > 0"),
    "tol negative": ({"tol": -1e-6}, "tol is -1e-06", "number > 0"),
    "tol nan": ({"tol": float("nan")}, "tol is nan", "number > 0"),
    "tol infinite": ({"tol": float("inf")}, "tol is inf", "number > 0"),
    "tol text": ({"tol": "small"}, "tol is 'small'", "number > 0"),
    "unknown record": ({"record": ("objectiv",)}, "record has 'objectiv'", "objective, gap, kkt, step_norm"),
    "record a string": ({"record": "objective"}, "record is 'objective'", "pass a tuple of names"),
    "record nothing": ({"record": None}, "record is None", "pass a tuple of names"),
    "check_every zero": ({"check_every": 0}, "check_every is 0", "whole number >= 1"),
    "certify": ({"certify": "fast"}, "certify is 'fast'", "pass 'auto', True, 'audit', 'cheap' or False"),
    "certify a number": ({"certify": 1}, "certify is 1", "pass 'auto', True, 'audit', 'cheap' or False"),
    "certify a list": ({"certify": [True]}, "certify is [True]", "pass 'auto', True, 'audit', 'cheap' or False"),
    "tol a boolean": ({"tol": True}, "tol is True", "number > 0"),
    "floor a boolean": ({"floor": True}, "floor is True", "number >= 0, or None"),
    "generator a seed": ({"generator": 3}, "generator is a int", "pass a torch.Generator, or None"),
    "callback a name": ({"callback": "print"}, "callback is a str", "pass a function of one argument, or None"),
    "differentiable text": ({"differentiable": "no"}, "differentiable is 'no'", "pass True, False, None or 'implicit'"),
    "polish a number": ({"polish": 3}, "polish is 3", "pass True, False or None"),
}


@pytest.mark.parametrize("case", ARGUMENTS.values(), ids=ARGUMENTS)
def test_bad_arguments_are_refused(case):
    options, *parts = case
    refused(lambda: sp.solve(PROBLEM, ISTA(), **options), *parts)


def test_certify_is_refused_whatever_was_solved_before():
    """1 == True, also for a cache of plans."""
    sp.solve(PROBLEM, max_iter=1)
    refused(lambda: sp.solve(PROBLEM, certify=1, max_iter=1), "certify is 1")


def test_wrong_objects_are_refused():
    refused(lambda: sp.solve(normal(2, 3, 4), ISTA()), "problem is a Tensor", "sureprox.lasso")
    refused(lambda: sp.solve(None, "go-math-l2o/lasso"), "problem is a NoneType", "sureprox.lasso")
    refused(lambda: sp.solve(PROBLEM, ISTA), "optimizer is the class ISTA", "sureprox.optimizers", "FISTA()")
    refused(lambda: sp.solve(PROBLEM, 3), "optimizer is a int", "sureprox.optimizers")


def test_iterate_and_prepare_refuse_what_they_cannot_use():
    state = ISTA().init(PROBLEM, PROBLEM.start())
    for steps in (-1, 1.5, "3", None, True):
        refused(lambda steps=steps: list(sp.iterate(PROBLEM, ISTA(), state, steps)), f"steps is {steps!r}")
    refused(lambda: list(sp.iterate(PROBLEM, ISTA(), None, 3)), "state is a NoneType", "optimizer.init(problem, x0)")
    refused(lambda: list(sp.iterate(PROBLEM, "sure/lasso", state, 3)), "optimizer is a str", "FISTA()")
    refused(lambda: list(sp.iterate(3, ISTA(), state, 3)), "problem is a int", "sureprox.lasso")
    refused(lambda: sp.prepare(3), "problem is a int", "sureprox.lasso")
    refused(lambda: sp.prepare(PROBLEM, 3), "optimizer is a int", "sureprox.optimizers")


def test_numpy_numbers_are_numbers():
    solution = sp.solve(PROBLEM, ISTA(), max_iter=np.int64(3), tol=np.float32(1e-6), check_every=np.int32(2))
    assert solution.iterations.tolist() == [3, 3, 3]


def test_floor_judges_the_gap_against_the_objective_at_the_origin():
    """At a small lam F* is far below F_0, and a gap of tol F_0 comes sooner than one of tol F*."""
    problem = random_problem("lasso", m=8, n=20, ratio=1e-3)
    at_origin = problem.objective(problem.start())
    options = {"tol": 1e-4, "max_iter": 20_000, "polish": False}
    loose, tight = (sp.solve(problem, FISTA(restart=True), floor=floor, **options) for floor in (1.0, None))
    assert loose.converged.all()
    assert (loose.gap <= 1e-4 * at_origin).all()
    assert (tight.gap <= 1e-4 * tight.objective).all()
    assert (loose.iterations < tight.iterations).all()


# --- threads ----------------------------------------------------------------------------------------------------------


def test_the_track_of_what_never_ran_is_its_start():
    problem = random_problem("lasso")
    x0 = sp.reference(problem).x
    for certify in (True, "cheap", False):
        assert {*sp.solve(problem, FISTA(), x0, certify=certify).track} == {Track.START}
        assert {*sp.solve(problem, FISTA(), max_iter=0, certify=certify).track} == {Track.START}
        assert Track.START not in {*sp.solve(problem, FISTA(), max_iter=30, certify=certify).track}
