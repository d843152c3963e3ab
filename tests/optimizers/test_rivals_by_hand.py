"""PANOC, SpaRSA, OptISTA and FISTA with a local L, step by step as their formulas say for one instance."""

import numpy as np
import pytest
import torch

import naive_rivals as by_hand
import sureprox as sp
from helpers import F64, autoregressive, normal, random_problem, walk, with_ratio
from sureprox.optimizers import FISTA, PANOC, LocalFISTA, OptISTA, SpaRSA
from sureprox.problems import Problem

both_kinds = pytest.mark.parametrize("kind", ["lasso", "logistic"])


def problems(kind: str, ratio: float = 0.02) -> Problem:
    """Two instances with correlated columns, so that line searches and restarts have something to do."""
    A = 3 * autoregressive(2, 30, 20, 0.8)
    rhs = normal(2, 30, seed=1) if kind == "lasso" else (normal(2, 30, seed=1) > 0).to(F64)
    return with_ratio(kind, A, rhs, ratio)


def instances(problem: Problem, kind: str) -> list[by_hand.One]:
    rhs, step = getattr(problem.f, problem.f.batched[1]), problem.step_size()
    make = getattr(by_hand, kind)
    return [
        make(problem.f.A[i].numpy(), rhs[i].numpy(), float(problem.r.lam[i]), 1 / float(step[i]))
        for i in range(problem.batch)
    ]


def same(ours: torch.Tensor, theirs: list[np.ndarray], tolerance: float) -> None:
    theirs = np.stack(theirs)
    assert ours.shape == theirs.shape
    assert np.abs(ours.numpy() - theirs).max() <= tolerance * np.abs(theirs).max()


@pytest.mark.parametrize("restart", [False, True])
@both_kinds
def test_local_fista(kind, restart):
    problem, x0 = problems(kind, 0.5 if kind == "lasso" else 0.3), 3 * normal(2, 20, seed=3)
    path = walk(problem, LocalFISTA(restart), x0, 50)
    count = 0
    for i, one in enumerate(instances(problem, kind)):
        theirs, rejected, restarts = by_hand.local_fista(one, x0[i].numpy(), 50, restart)
        same(path[:, i], theirs, 1e-8)
        assert rejected > 2
        count += restarts
    assert (count > 0) == restart


@both_kinds
def test_sparsa(kind):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    path = walk(problem, SpaRSA(), x0, 40)
    counts = np.zeros(2, dtype=int)
    for i, one in enumerate(instances(problem, kind)):
        theirs, *found = by_hand.sparsa(one, x0[i].numpy(), 40)
        same(path[:, i], theirs, 1e-8)
        counts += found
    assert counts[1] > 0  # F has risen: five values are compared with, not one
    assert kind == "lasso" or counts[0] > 0


@pytest.mark.parametrize("memory", [3, 10])
@both_kinds
def test_panoc(kind, memory):
    problem, x0 = problems(kind), 3 * normal(2, 20, seed=3)
    path = walk(problem, PANOC(memory), x0, 40)
    for i, one in enumerate(instances(problem, kind)):
        theirs, rejected, dropped = by_hand.panoc(one, x0[i].numpy(), 40, memory)
        same(path[:, i], theirs, 1e-7)
        assert kind == "lasso" or rejected > 0
        assert dropped > 5


@pytest.mark.parametrize("N", [1, 2, 7, 30])
@both_kinds
def test_optista(kind, N):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    path = walk(problem, OptISTA(N), x0, N)
    for i, one in enumerate(instances(problem, kind)):
        same(path[:, i], by_hand.optista(one, x0[i].numpy(), N), 1e-12)


@both_kinds
def test_optista_begins_anew_after_its_last_step(kind):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    path = walk(problem, OptISTA(5), x0, 10)
    assert torch.equal(path[5:], walk(problem, OptISTA(5), path[5], 5))


@pytest.mark.parametrize("N", [1, 3, 10, 40])
@both_kinds
def test_the_bound_of_optista(kind, N):
    """F(y_N) - F* <= L |x_0 - x*|^2 / (2 (theta_N^2 - 1)) <= L |x_0 - x*|^2 / (N + 1)^2."""
    problem, x0 = random_problem(kind), 3 * normal(3, 12, seed=3)
    best = sp.reference(problem)
    square = problem.lipschitz() * (x0 - best.x).square().sum(1)
    reached = problem.objective(walk(problem, OptISTA(N), x0, N)[-1]) - best.objective
    assert (reached <= OptISTA(N).rate() * square + 1e-13).all()
    assert OptISTA(N).rate() <= 1 / (N + 1) ** 2


@pytest.mark.parametrize("N", [1, 4, 20])
def test_the_bound_of_optista_is_met_where_it_is_sharp(N):
    """f = 0 and r(x) = c |x| with c = 2 rate: x_N is c sum_i gamma_i away, F has fallen by c times that."""
    rate = OptISTA(N).rate()
    problem = sp.lasso(torch.zeros(1, 1, 1, dtype=F64), torch.zeros(1, 1, dtype=F64), 2 * rate)
    x0 = torch.ones(1, 1, dtype=F64)
    last = walk(problem, OptISTA(N), x0, N, step_size=torch.ones(1, dtype=F64))[-1]
    assert float(problem.objective(last)) == pytest.approx(rate, rel=1e-12)
    plain = walk(problem, FISTA(), x0, N, step_size=torch.ones(1, dtype=F64))[-1]
    assert N == 1 or float(problem.objective(plain)) > 0


def test_the_bound_of_local_fista_without_restart():
    """F(x) - F* <= L |x_0 - x*|^2 / (2 (t^2 - t)), whatever L has done."""
    problem, optimizer = problems("logistic"), LocalFISTA(restart=False)
    best, x0 = sp.reference(problem), 3 * normal(2, 20, seed=3)
    square = (x0 - best.x).square().sum(1)
    tighter = 0
    for state in sp.iterate(problem, optimizer, optimizer.init(problem, x0), 150):
        moved = state.t > 1
        bound = state.L * square / (2 * (state.t.square() - state.t))
        assert (problem.objective(state.x) - best.objective <= bound + 1e-13)[moved].all()
        tighter += int((bound < 2 * problem.lipschitz() * square / (state.k + 1) ** 2).sum())
    assert tighter > 50  # mostly a better bound than that of FISTA with the global L
