"""Certified and its cheap mode: the bound at every k, monotone, whatever the optimizer does; and what it costs."""

from dataclasses import replace
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import sureprox as sp
from certified_cases import (
    ADVERSARIES,
    CLASSICAL,
    PROBLEMS,
    SHIFTS,
    Adversary,
    Ball,
    Ridge,
    constant,
    make_problem,
    random_weights,
    target_of,
    untrained,
    watched,
)
from helpers import F64, normal, random_problem
from sureprox.guarantee import Certified, CertifiedCheap, Track
from sureprox.guarantee.certified import NOW, ORIGIN
from sureprox.guarantee.guaranteed import TRACKS
from sureprox.optimizers import FISTA, ISTA, L2OPA, GoMathL2O
from sureprox.problems.operators import Dense

BATCH = 8
STEPS = 36  # past the checks at 16 and 32
GARBAGE = ADVERSARIES | untrained()
SOME = [GARBAGE[name] for name in ("NaN", "1e30 and back", "vandal", "l2o-pa, random weights x 1")]


@pytest.fixture(scope="module")
def problems() -> dict[str, tuple[sp.Problem, Tensor, Tensor]]:
    """name: problem, start, solution."""
    made = {}
    for seed, name in enumerate(PROBLEMS):
        problem = make_problem(name, BATCH, seed)
        made[name] = problem, normal(problem.batch, problem.n, seed=9), target_of(problem)
    return made


def assert_sound(verdict) -> None:
    assert verdict.above_bound == verdict.not_monotone == verdict.not_finite == verdict.gap_too_small == 0, verdict
    assert verdict.ratio <= 1


# --- the bound --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_and_monotone_whatever_the_optimizer_does(problems, name):
    problem, x0, target = problems[name]
    third = list(PROBLEMS).index(name) % 3  # every optimizer meets two or three of the seven kinds of problems
    for optimizer in list((GARBAGE | CLASSICAL).values())[third::3]:
        verdict = watched(problem, Certified(optimizer), x0, target, STEPS)
        assert_sound(verdict)
        assert verdict.rejected == 0


@pytest.mark.parametrize("shift", SHIFTS)
def test_bound_far_from_the_training_distribution(problems, shift):
    for name in ("lasso", "logistic"):
        problem, x0, target = problems[name]
        for optimizer in (sp.load("go-math-l2o/lasso"), sp.load("l2o-pa/logistic")):
            for moved, start, goal in ((problem, x0 + shift, target), (problem.shifted(shift), x0, target - shift)):
                verdict = watched(moved, Certified(optimizer), start, goal, STEPS)
                assert_sound(verdict)
                assert verdict.rejected == 0


@pytest.mark.parametrize("name", ["lasso", "logistic", "correlated 0.99", "separable"])
def test_bound_in_float32_up_to_rounding(problems, name):
    problem, x0, target = problems[name]
    low = problem.to(dtype=torch.float32)
    for optimizer in (*SOME, sp.load("go-math-l2o/lasso")):
        assert_sound(watched(low, Certified(optimizer), x0.float(), target, STEPS))


@pytest.mark.parametrize("long", [1.5, 30.0, 1e6])
@pytest.mark.parametrize("mode", [Certified, CertifiedCheap])
def test_bound_where_L_is_too_small(problems, mode, long):
    for name in ("lasso", "logistic", "scaled lasso"):
        problem, x0, target = problems[name]
        verdict = watched(problem, mode(constant(float("nan"))), x0, target, 2 * STEPS, long)
        assert_sound(verdict)
        if long > 2:
            assert 0 < verdict.rejected <= 20 * verdict.runs  # 2^20 > 10^6


@pytest.mark.parametrize("name", PROBLEMS)
def test_bound_of_the_cheap_mode(problems, name):
    problem, x0, target = problems[name]
    for optimizer in SOME:
        assert_sound(watched(problem, CertifiedCheap(optimizer), x0, target, 2 * STEPS))


def test_the_check_itself_finds_violations(problems):
    """The harness that all of the above rely on: wrong claims are reported."""
    problem, x0, target = problems["lasso"]

    class Liar(Certified):
        def step(self, problem, state):
            state = super().step(problem, state)
            return replace(state, weight=1e6 * state.weight, x=state.x + 0.01 * state.k)

    verdict = watched(problem, Liar(ISTA()), x0, target, STEPS)
    assert verdict.above_bound == verdict.not_monotone == BATCH


# --- nothing is lost --------------------------------------------------------------------------------------------------


@torch.no_grad()
def values(problem: sp.Problem, optimizer, x0: Tensor, steps: int) -> Tensor:
    state = optimizer.init(problem, x0)
    points = [state.x, *(s.x for s in sp.iterate(problem, optimizer, state, steps))]
    return torch.stack([problem.objective(x) for x in points])


@pytest.mark.parametrize("name", ["lasso", "logistic", "correlated 0.99", "shared A"])
def test_never_behind_fista_restarted_or_not(problems, name):
    problem, x0, _ = problems[name]
    certified = values(problem, Certified(random_weights(L2OPA, 0)), x0 + 10, 150)
    for restart in (False, True):
        best = values(problem, FISTA(restart=restart), x0 + 10, 150).cummin(0).values
        assert (certified <= best * (1 + 1e-12)).all()


@pytest.mark.parametrize("shift", [0.0, 100.0])
def test_never_behind_an_optimizer_that_works(shift):
    family, generator = sp.problems.LassoFamily(), torch.Generator().manual_seed(3)
    problem, x0 = family.sample(2, generator, F64), family.start(2, generator, F64) + shift
    plain = sp.load("go-math-l2o/lasso")
    best = values(problem, plain, x0, 70).cummin(0).values
    certified = Certified(plain)
    assert (values(problem, certified, x0, 70) <= best * (1 + 1e-12)).all()
    with torch.no_grad():
        *_, last = sp.iterate(problem, certified, certified.init(problem, x0), 70)
    assert last.pull_backs.tolist() == [0, 0]
    assert (last.track == TRACKS.index(Track.OPTIMIZER)).any()
    assert (values(problem, CertifiedCheap(plain), x0, 70) <= best * (1 + 1e-12)).all()


def test_plain_fista_is_its_own_guarantee(problems):
    problem, x0, _ = problems["lasso"]
    for restart, tracks in ((False, 1), (True, 2)):
        certified = Certified(FISTA(restart=restart))
        state = certified.init(problem, x0)
        assert state.inner is None
        assert state.tracks.x.shape == (BATCH, tracks, 40)
        best = values(problem, FISTA(restart=restart), x0, 60).cummin(0).values
        assert (values(problem, certified, x0, 60) <= best * (1 + 1e-13)).all()


# --- pulling back -----------------------------------------------------------------------------------------------------


class Fading(GoMathL2O):
    """GO-Math-L2O whose instance 1 is ruined in its fifth step and every one after, but not once it is started anew."""

    def step(self, problem, state):
        after = super().step(problem, state)
        ruined = (torch.arange(len(after.x)) == 1) & (state.k >= 4) & (state.k < 16)
        return replace(after, x=torch.where(ruined.unsqueeze(1), torch.nan, after.x))


def test_a_failed_optimizer_starts_anew_from_the_best_point_with_its_memory_reset():
    problem = random_problem("lasso", batch=3)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        optimizer = Fading(hidden=4, initial_state="random").double()
    certified = Certified(optimizer)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        state = first = certified.init(problem, normal(3, 12, seed=2), generator=generator)
        for _ in range(15):
            state = certified.advance(certified.stack(problem), state)
        before = certified.advance(certified.stack(problem), state)
        after = certified.step(problem, state)  # the sixteenth step ends with the judgement
    assert after.k == 16
    assert after.pull_backs[1] == 1
    assert torch.equal(after.inner.x[1], after.x[1])
    assert torch.equal(after.inner_z[1], after.z[1])
    rows = slice(12, 24)  # the memory of instance 1 is that of the beginning, the same draw
    assert torch.equal(after.inner.h[:, rows], first.inner.h[:, rows])
    assert torch.equal(after.inner.v[1], torch.zeros(12, dtype=F64))
    for i in (0, 2):
        if after.pull_backs[i] == 0:  # the others are left alone
            assert torch.equal(after.inner.x[i], before.inner.x[i])
            assert torch.equal(after.inner.c[:, 12 * i : 12 * i + 12], before.inner.c[:, 12 * i : 12 * i + 12])
    assert torch.equal(after.x, before.x)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
def test_a_point_that_is_not_finite_fails_by_itself(bad):
    """Whatever was noted about how high it lies: the check looks at the point."""
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)
    with torch.no_grad():
        certified, cheap = Certified(ISTA()), CertifiedCheap(ISTA())
        *_, state = sp.iterate(problem, certified, certified.init(problem, x0), 15)
        assert (state.above[:, NOW] <= state.above[:, ORIGIN]).all()
        lost = state.inner.x.clone()
        lost[1, 3] = bad
        after = certified.pull_back(problem, replace(state, inner=replace(state.inner, x=lost)))
        assert torch.isfinite(after.inner.x).all()
        assert torch.equal(after.inner.x[1], state.x[1])
        assert after.pull_backs.tolist() == [0, 1, 0]
        *_, turn = sp.iterate(problem, cheap, cheap.init(problem, x0), 15)
        turn = replace(turn, track=torch.ones_like(turn.track), gap=1e9 * torch.ones_like(turn.gap))  # it has done well
        assert cheap._judged(problem, turn).given_up.tolist() == [False] * 3
        lost = turn.inner.x.clone()
        lost[1, 3] = bad
        ruined = cheap._judged(problem, replace(turn, inner=replace(turn.inner, x=lost)))
        assert ruined.given_up.tolist() == [False, True, False]


@pytest.mark.parametrize("mode", [Certified, CertifiedCheap])
def test_a_ruined_neighbour_changes_nothing(mode):
    problem, x0 = random_problem("lasso", batch=3), normal(3, 12, seed=2)

    def move(k, x, g, step):
        bad = (x.shape[0] == 3) & (torch.arange(len(x)) == 1)
        return torch.where(bad.unsqueeze(1), torch.nan, x - 0.9 * step * g)

    optimizer = mode(Adversary(move))
    with torch.no_grad():
        *_, together = sp.iterate(problem, optimizer, optimizer.init(problem, x0), 70)
        for i in (0, 2):
            alone = problem.select(torch.tensor([i]))
            *_, state = sp.iterate(alone, optimizer, optimizer.init(alone, x0[i : i + 1]), 70)
            torch.testing.assert_close(state.x[0], together.x[i], rtol=1e-12, atol=1e-14)
            assert state.pull_backs[0] == together.pull_backs[i]
    assert together.pull_backs[1] > 0


def test_the_optimizer_is_pulled_back_seldom(problems):
    """At most once at each of 16, 32, 64, ...: log2(k/8) times."""
    problem, x0, _ = problems["lasso"]
    certified = Certified(constant(1e30))
    with torch.no_grad():
        *_, state = sp.iterate(problem, certified, certified.init(problem, x0), 300)
    assert (state.pull_backs <= 5).all()
    assert (state.pull_backs >= 1).all()


def test_the_cheap_mode_gives_up_once_and_goes_on_with_restarted_fista(problems):
    problem, x0, target = problems["lasso"]
    cheap = CertifiedCheap(constant(float("inf")))
    with torch.no_grad():
        *_, state = sp.iterate(problem, cheap, cheap.init(problem, x0), 400)
    assert state.pull_backs.tolist() == [1] * BATCH
    assert state.given_up.all()
    assert not state.any_on
    assert (problem.objective(state.x) <= problem.objective(target) * (1 + 1e-9)).all()
    assert (state.track == TRACKS.index(Track.RESTARTED)).all()


# --- cost -------------------------------------------------------------------------------------------------------------


def products(problem: sp.Problem, optimizer, steps: int) -> list[int]:
    """How many points each product with A or A' had, in `steps` steps after the first."""
    sizes: list[int] = []

    def counting(name: str):
        method = getattr(Dense, name)

        def wrapped(self, x, *rest):
            sizes.append(len(x))
            return method(self, x, *rest)

        return mock.patch.object(Dense, name, wrapped)

    with torch.no_grad():
        state = optimizer.step(problem, optimizer.init(problem, problem.start()))
        with counting("forward"), counting("residual"), counting("adjoint"):
            for _ in sp.iterate(problem, optimizer, state, steps):
                pass
    return sizes


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
@pytest.mark.parametrize("shared", [False, True])
def test_three_tracks_read_A_as_often_as_one(kind, shared):
    problem = random_problem(kind, batch=3, shared=shared)
    for optimizer in (ISTA(), random_weights(GoMathL2O, 0), random_weights(L2OPA, 0)):
        assert len(products(problem, optimizer, 10)) == 20
        assert products(problem, Certified(optimizer), 10) == [9] * 20
        assert products(problem, CertifiedCheap(optimizer), 10) == [3] * 22
    assert products(problem, Certified(FISTA(restart=True)), 10) == [6] * 20
    assert products(problem, Certified(FISTA()), 10) == [3] * 20


def test_an_iteration_waits_for_nothing():
    """On fake tensors, anything that needs a value (a transfer from the device) is an error."""
    problem = random_problem("lasso", batch=3)
    certified = Certified(random_weights(GoMathL2O, 0).double())
    state = certified.init(problem, normal(3, 12))
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True) as mode:
        after = certified.advance(certified.stack(problem), state._map(lambda value, layout: mode.from_tensor(value)))
    assert isinstance(after.x, FakeTensor)
    assert after.x.shape == (3, 12)


# --- own problems, odd starts -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [Certified, CertifiedCheap])
@pytest.mark.parametrize("shift", [None, 3.0])
def test_own_problem_from_a_start_outside_the_domain(mode, shift):
    w, c = normal(3, 7).abs() + 0.01, 3 * normal(3, 7, seed=1)
    problem = sp.Problem(Ridge(w, c), Ball())
    exact = c.clamp(-1, 1)
    if shift is not None:
        problem, exact = problem.shifted(shift), exact - shift
    x0 = 5 + normal(3, 7, seed=2)
    assert torch.isinf(problem.objective(x0)).all()
    for optimizer in (FISTA(restart=True), ADVERSARIES["ascent"]):
        certified = mode(optimizer)
        with torch.no_grad():
            first = certified.init(problem, x0)
            assert torch.isfinite(problem.objective(first.x)).all()
            *_, state = sp.iterate(problem, certified, first, 300)
        torch.testing.assert_close(state.x, exact, rtol=0, atol=1e-6)


def test_a_start_at_the_solution_stays_there():
    problem = random_problem("lasso")
    best = sp.reference(problem)
    for mode in (Certified, CertifiedCheap):
        optimizer = mode(ADVERSARIES["ascent"])
        with torch.no_grad():
            *_, state = sp.iterate(problem, optimizer, optimizer.init(problem, best.x), 40)
        assert (problem.objective(state.x) <= best.objective * (1 + 1e-14)).all()
