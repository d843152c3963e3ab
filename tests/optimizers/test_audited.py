"""Audited: the bound at every k, whatever the optimizer does; turns, proofs and costs."""

from unittest import mock

import numpy as np
import pytest
import torch
from torch import Tensor

import form_cases
import sureprox as sp
from certified_cases import (
    ADVERSARIES,
    PROBLEMS,
    Adversary,
    Ball,
    Ridge,
    constant,
    make_problem,
    target_of,
    untrained,
    watched,
)
from helpers import F64, normal, random_problem
from sureprox.guarantee import Audited, Track, audited
from sureprox.guarantee.audited import FISTA as FISTA_TURN
from sureprox.guarantee.audited import OPTIMIZER, RESTARTED
from sureprox.guarantee.lower_model import lower_model
from sureprox.optimizers import FISTA, ISTA, Adam, LocalFISTA
from sureprox.problems.operators import Dense
from sureprox.problems.stacked import Stacked

BATCH, STEPS = 6, 70  # past audits at 16, 32 and 64, and FISTA's turns that end at 24 and 48
GARBAGE = ADVERSARIES | untrained()
SOME = [GARBAGE[name] for name in ("NaN", "slow drift", "a wrong point", "works, then breaks", "vandal")]


@pytest.fixture(scope="module")
def problems() -> dict[str, tuple[sp.Problem, Tensor, Tensor]]:
    """name: problem, start, solution."""
    made = {}
    for seed, name in enumerate(PROBLEMS):
        problem = make_problem(name, BATCH, seed)
        made[name] = problem, normal(problem.batch, problem.n, seed=9), target_of(problem)
    return made


@torch.no_grad()
def walked(problem: sp.Problem, optimizer, x0: Tensor, steps: int) -> list:
    first = optimizer.init(problem, x0)
    return [first, *sp.iterate(problem, optimizer, first, steps, engine="plain")]


# --- the bound --------------------------------------------------------------------------------------------------------


def assert_sound(verdict) -> None:
    assert verdict.above_bound == verdict.not_monotone == verdict.not_finite == 0, verdict
    assert verdict.ratio <= 1


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_and_monotone_whatever_the_optimizer_does(problems, name):
    problem, x0, target = problems[name]
    third = list(PROBLEMS).index(name) % 3  # every optimizer meets two or three of the seven kinds of problems
    for optimizer in list(GARBAGE.values())[third::3]:
        verdict = watched(problem, Audited(optimizer), x0, target, STEPS)
        assert_sound(verdict)
        assert verdict.rejected == 0


@pytest.mark.parametrize("name", ["lasso", "logistic", "separable"])
def test_bound_in_float32_up_to_rounding(problems, name):
    problem, x0, target = problems[name]
    for optimizer in (*SOME, sp.load("sure/lasso")):
        assert_sound(watched(problem.to(dtype=torch.float32), Audited(optimizer), x0.float(), target, STEPS))


@pytest.mark.parametrize("long", [1.5, 1e6])
def test_bound_where_L_is_too_small(problems, long):
    for name in ("lasso", "logistic", "scaled lasso"):
        problem, x0, target = problems[name]
        for optimizer in (SOME[0], SOME[3]):
            verdict = watched(problem, Audited(optimizer), x0, target, STEPS, long)
            assert_sound(verdict)
            assert long < 2 or 0 < verdict.rejected <= 20 * verdict.runs  # 2^20 > 10^6


@pytest.mark.parametrize("shift", [None, 3.0])
def test_bound_of_an_own_problem_from_a_start_outside_the_domain(shift):
    w, c = normal(3, 7).abs() + 0.01, 3 * normal(3, 7, seed=1)
    problem, exact = sp.Problem(Ridge(w, c), Ball()), c.clamp(-1, 1)
    if shift is not None:
        problem, exact = problem.shifted(shift), exact - shift
    x0 = 5 + normal(3, 7, seed=2)
    for optimizer in (ADVERSARIES["ascent"], LocalFISTA(), SOME[0]):
        *_, state = walked(problem, Audited(optimizer), x0, 300)
        torch.testing.assert_close(state.x, exact, rtol=0, atol=1e-6)


# --- what an audit proves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("loss", "penalty"), form_cases.PAIRS[::2])
def test_the_margin_is_a_proof_at_any_point_of_any_form(loss, penalty):
    """F(x) - F* <= (R^2 - c) / 2A and c <= R^2, F* and x* from elsewhere; x is one point, the gradient is at another."""
    problem = form_cases.problem(loss, penalty, "own")
    best = torch.from_numpy(form_cases.lowest(loss, penalty, False))
    found = sp.solve(problem, max_iter=5000, tol=1e-12, polish=False)
    ones = torch.ones(problem.batch, problem.n, dtype=F64)
    start = problem.prox(0.02 * ones, 1e-9 * ones)  # inside the domain
    square = (found.x - start).square().sum(1)
    proved = 0
    for seed, near in enumerate((0.0, 0.9, 0.999, 1.0)):
        u = torch.lerp(start + 0.1 * normal(*start.shape, seed=seed).abs(), found.x, near)
        stack = Stacked(problem, 1)
        (z0, _), (z, g) = stack.look(start.unsqueeze(1)), stack.look(u.unsqueeze(1))
        for A in (1e-3, 0.1, 10.0, 1e3):
            weight = torch.full_like(square, A)
            model = lower_model(start, z0[:, 0]).extended(problem, u, z[:, 0], g[:, 0], weight, weight)
            fallen = problem.objective(start) - problem.objective(found.x)
            c = model.margin(problem, fallen)
            slack = 1e-7 * best.abs().clamp(min=1e-3)  # of the minimum that is known
            assert (found.objective - best <= (square - c) / (2 * A) + slack).all()
            assert (c <= square * (1 + 1e-3) + 2 * A * slack).all()
            proved += int((c > -square).sum())
    assert proved > 0


def test_what_is_proved_is_nothing_where_nothing_is_finite():
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)
    *_, state = walked(problem, Audited(constant(float("nan"))), x0, 16)
    assert torch.equal(state.weight, torch.zeros(3, dtype=F64))
    assert (state.radius > 0).all()  # the gradient at the start says this much
    assert (state.turn == FISTA_TURN).all()


# --- turns ------------------------------------------------------------------------------------------------------------


def test_an_optimizer_that_works_walks_as_it_does_alone():
    family, generator = sp.problems.LassoFamily(), torch.Generator().manual_seed(3)
    problem, x0 = family.sample(3, generator, F64), family.start(3, generator, F64)
    for optimizer in (sp.load("sure/lasso"), FISTA(restart=True), LocalFISTA()):
        alone, together = (walked(problem, one, x0, 70) for one in (optimizer, Audited(optimizer)))
        for free, state in zip(alone, together, strict=True):
            torch.testing.assert_close(state.inner.x, free.x, rtol=1e-9, atol=1e-11)
            assert state.inner.k == free.k
        assert state.pull_backs.tolist() == [0, 0, 0]
        assert (state.track == OPTIMIZER).all()
        assert torch.equal(state.x, together[64].inner.x)
        with torch.no_grad():
            counts = [sp.solve(problem, optimizer, x0, certify=c, polish=False).iterations for c in ("audit", False)]
        assert torch.equal(*counts)


def test_after_a_failed_audit_fista_has_its_turn_and_restarted_fista_succeeds():
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)
    states = walked(problem, Audited(constant(float("nan"))), x0, 60)
    turns = [int(state.turn[0]) for state in states]
    assert turns[:16] == [OPTIMIZER] * 16
    assert turns[16:24] == [FISTA_TURN] * 8
    assert turns[24:32] == [RESTARTED] * 8
    fista = walked(problem, FISTA(), x0, 8)
    torch.testing.assert_close(states[24].fista.x[:, 0], fista[8].x)
    assert torch.equal(states[15].x, states[0].x)
    assert states[24].pull_backs.tolist() == [1, 1, 1]
    torch.testing.assert_close(states[25].fista.x, states[24].fista.x, rtol=0, atol=0)
    restarted = walked(problem, FISTA(restart=True), states[24].x, 5)
    torch.testing.assert_close(states[29].successor.x[:, 0], restarted[5].x)


def test_an_optimizer_that_is_ahead_of_fista_goes_on_though_nothing_is_proved():
    """Where every audit fails, FISTA gets half of the iterations, and the optimizer waits meanwhile."""
    family, generator = sp.problems.LassoFamily(), torch.Generator().manual_seed(3)
    problem, x0 = family.sample(2, generator, F64), family.start(2, generator, F64)
    optimizer = sp.load("go-math-l2o/lasso")
    nothing = lambda problem, model, fallen, asked, radius: (torch.zeros_like(asked), radius)  # noqa: E731
    with mock.patch.object(audited, "_proved", nothing):
        states = walked(problem, Audited(optimizer), x0, 30)
    assert [int(state.turn[0]) for state in states] == [OPTIMIZER] * 16 + [FISTA_TURN] * 8 + [OPTIMIZER] * 7
    assert states[-1].pull_backs.tolist() == [0, 0]
    assert states[-1].track.tolist() == [OPTIMIZER, OPTIMIZER]
    torch.testing.assert_close(states[30].inner.x, walked(problem, optimizer, x0, 22)[22].x, rtol=1e-9, atol=1e-11)


def _mixed(k: int, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
    """By the first coordinate: steps that work, that break after 20 iterations, NaN."""
    return torch.where(x[:, :1] > 1, torch.nan, x - 0.9 * step * g if k < 20 else torch.where(x > 0, x, -x))


@pytest.mark.parametrize("optimizer", [Adversary(_mixed), Adam(), LocalFISTA()], ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("name", ["lasso", "logistic", "shared A", "scaled lasso"])
def test_neighbours_do_not_matter_whatever_turns_they_have(problems, name, optimizer):
    problem, x0, _ = problems[name]
    x0 = x0 + torch.linspace(-1, 2, BATCH, dtype=F64).unsqueeze(1)
    wrapped = Audited(optimizer)
    together = walked(problem, wrapped, x0, STEPS)
    for i in range(0, BATCH, 2):
        *_, alone = walked(problem.select(torch.tensor([i])), wrapped, x0[i : i + 1], STEPS)
        torch.testing.assert_close(alone.x[0], together[-1].x[i], rtol=1e-9, atol=1e-12)
        for field in ("turn", "track", "pull_backs", "rejected"):
            assert getattr(alone, field)[0] == getattr(together[-1], field)[i], field
        torch.testing.assert_close(alone.weight[0], together[-1].weight[i], rtol=1e-6, atol=0)
        part = together[30].select(torch.tensor([i]))  # a batch may also be cut on the way
        with torch.no_grad():
            *_, cut = sp.iterate(problem.select(torch.tensor([i])), wrapped, part, STEPS - 30, engine="plain")
        torch.testing.assert_close(cut.x[0], alone.x[0], rtol=1e-9, atol=1e-12)


def test_a_batch_has_instances_in_different_turns(problems):
    problem, _, target = problems["lasso"]
    x0 = target + torch.linspace(0, 3, BATCH, dtype=F64).unsqueeze(1) * normal(BATCH, problem.n, seed=4)

    def move(k: int, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
        return torch.where((torch.arange(len(x)) % 2 == 0).unsqueeze(1), x - 0.9 * step * g, torch.nan)

    seen = {tuple(state.turn.tolist()) for state in walked(problem, Audited(Adversary(move)), x0, STEPS)}
    assert any(len(set(turns)) > 1 for turns in seen)


# --- cost -------------------------------------------------------------------------------------------------------------


def test_products_of_a_run_whose_audits_pass():
    """Two for each iteration, and one gradient more at each audit; that at the start serves the first step."""
    family, generator = sp.problems.LassoFamily(), torch.Generator().manual_seed(3)
    problem, x0 = family.sample(2, generator, F64), family.start(2, generator, F64)
    step_size, sizes = problem.step_size(), []

    def counting(name: str):
        method = getattr(Dense, name)
        return mock.patch.object(Dense, name, lambda self, x, *rest: (sizes.append(len(x)), method(self, x, *rest))[1])

    for optimizer, start in ((sp.load("sure/lasso"), 0), (LocalFISTA(), 1)):  # which keeps images of its own
        state = Audited(optimizer).init(problem, x0, step_size=step_size)
        sizes.clear()
        with torch.no_grad(), counting("forward"), counting("residual"), counting("adjoint"):
            *_, state = sp.iterate(problem, Audited(optimizer), state, 40, engine="plain")
        assert state.pull_backs.tolist() == [0, 0]
        assert len(sizes) == 2 * (40 + 2) - (1 - start)
        assert set(sizes) == {2}


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_garbage_costs_at_most_three_times_what_fista_needs(kind):
    problem, x0 = random_problem(kind, batch=4, m=30, n=40), normal(4, 40, seed=1)
    options = {"x0": x0, "max_iter": 20000, "check_every": 1, "polish": False}
    needed = sp.solve(problem, FISTA(), certify=False, **options)
    assert needed.converged.all()
    for optimizer in (SOME[0], SOME[2], SOME[4]):
        solution = sp.solve(problem, optimizer, certify="audit", **options)
        assert solution.converged.all()
        assert (solution.iterations + 10 <= 3 * needed.iterations).all()  # 10: the audits


# --- in a solve -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("matrix", form_cases.MATRICES)
def test_every_form_is_solved(matrix):
    for number, (loss, penalty) in enumerate(form_cases.PAIRS):
        if number % 4 != form_cases.MATRICES.index(matrix):
            continue
        best = form_cases.lowest(loss, penalty, matrix != "own")
        for optimizer in (FISTA(restart=True), SOME[3]):
            problem = form_cases.problem(loss, penalty, matrix)
            solution = sp.solve(problem, optimizer, certify="audit", max_iter=5000, tol=1e-8, polish=False)
            assert solution.guarantee == "audit"
            assert solution.converged.all(), (loss, penalty)
            np.testing.assert_allclose(solution.objective.numpy(), best, rtol=1e-6, atol=1e-9)


def test_the_best_point_of_an_audit_is_the_answer_of_a_run_that_ends_in_ruins():
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)
    ruined = Adversary(lambda k, x, g, step: x - 0.5 * step * g if k < 16 else torch.full_like(x, 1e3))
    best = walked(problem, Audited(ruined), x0, 16)[-1].x
    for options in ({"check_every": 18}, {"check_every": 5}, {"record": ("objective", "step_norm")}):
        solution = sp.solve(problem, ruined, x0, 18, certify="audit", polish=False, tol=1e-12, **options)
        assert (solution.objective <= problem.objective(best) * (1 + 1e-12)).all()
        assert (solution.status == sp.Status.ITERATION_LIMIT).all()
        assert (solution.track == Track.OPTIMIZER).all()
    assert (solution.history["objective"].diff(dim=0) <= 0).all()
    assert solution.history["step_norm"].shape == (19, 3)


def test_bound_track_and_pull_backs_of_a_solution():
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)
    exact = sp.reference(problem).x
    radius = (x0 - exact).norm(dim=1)
    for steps, track in ((10, Track.START), (24, Track.FISTA), (40, Track.RESTARTED)):
        solution = sp.solve(problem, SOME[0], x0, steps, certify="audit", polish=False, tol=1e-15, check_every=7)
        above = solution.objective - problem.objective(exact)
        assert (above <= solution.bound(radius)).all()
        assert (solution.track == track).all()
        assert solution.pull_backs.tolist() == [int(steps >= 24)] * 3
        assert torch.isinf(solution.rate).all() == (steps < 16)
    L, k = 1 / problem.step_size(), 40
    assert (solution.rate <= 2 * L / (k / 6) ** 2).all()


def test_float32_is_finished_in_float64():
    problem = random_problem("lasso", batch=3).to(dtype=torch.float32)
    for optimizer in (ISTA(), SOME[0], FISTA(restart=True)):
        solution = sp.solve(problem, optimizer, certify="audit", tol=1e-11, max_iter=20000, polish=False)
        assert solution.converged.all()
        assert solution.refined.all()
        assert solution.x.dtype == F64


def test_which_guarantee_stands_beside_the_optimizer():
    lasso, sparse = random_problem("lasso", batch=2), form_cases.problem("least squares", "l1", "sparse")
    restarted = FISTA(restart=True)
    for problem, options, ran in (
        (lasso, {}, "tracks"),
        (sparse, {}, "audit"),
        (form_cases.problem("softmax", "l1", "own"), {}, "audit"),
        (sparse, {"certify": True}, "tracks"),
        (lasso, {"certify": "audit"}, "audit"),
        (lasso, {"certify": "cheap", "optimizer": ISTA()}, "cheap"),
        (lasso, {"certify": False}, "none"),
        (lasso, {"certify": "audit", "optimizer": FISTA()}, "tracks"),  # it is its own guarantee
        (lasso, {"certify": "audit", "optimizer": restarted}, "audit"),
        (lasso, {"optimizer": Audited(restarted)}, "audit"),
    ):
        solution = sp.solve(problem, max_iter=3, x0=problem.start(), **options)
        assert solution.guarantee == ran
