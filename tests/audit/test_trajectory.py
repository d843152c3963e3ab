"""Steps are taken apart exactly, runs are aligned, and s' is the distance of all that the networks read."""

from itertools import pairwise

import pytest
import torch

import sureprox as sp
from helpers import F64, normal, random_problem, refused
from sureprox.audit import Pair, aligned, secant_constants, theorem6, theorem9
from sureprox.optimizers import FISTA, ISTA, L2OPA, GoMathL2O
from sureprox.solve.reference import reference

PROBLEM = random_problem("lasso", batch=3)
START = normal(3, 12, seed=5)
TARGET = reference(PROBLEM).x


def both(optimizer, s: float = 2.0, steps: int = 8, problem=PROBLEM, t: float = 0.0) -> Pair:
    moved = problem.shifted(t) if t else problem
    return aligned(optimizer, problem, START, moved, START + s, TARGET - t, steps)


def made(kind: type, **arguments):
    torch.manual_seed(1)
    return kind(hidden=4, initial_state="random", **arguments)


MODELS = {
    "lhnor": lambda: made(GoMathL2O),
    "std": lambda: made(GoMathL2O, gradient_map="std"),
    "lh": lambda: made(GoMathL2O, gradient_map="lh", q_shrink="1/L"),
    "biases": lambda: made(GoMathL2O, biases=True),
    "l2o-pa": lambda: made(L2OPA),
    "ista": ISTA,
}


@pytest.mark.parametrize("name", list(MODELS))
def test_parts_make_the_step(name: str) -> None:
    pair = both(MODELS[name]())
    run = pair.ood
    rebuilt = run.x[:-1] - run.N1 * (run.grad + run.gam) - run.N2 - run.N3 * run.P
    assert float((rebuilt - run.x[1:]).abs().max()) < 1e-9 * float(run.x.abs().max())
    for k in range(run.steps):
        low, high = PROBLEM.subdiff(run.x[k + 1])
        assert bool(((low <= run.gam[k]) & (run.gam[k] <= high)).all())
        assert torch.equal(run.grad[k], PROBLEM.grad(run.x[k]))
    assert float(run.membership.max()) < 1e-9 * float(run.x.abs().max() / run.N1.min())


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("s", [0.0, 1.0, 30.0])
def test_assumption_free_bounds_hold_for_any_network(name: str, s: float) -> None:
    pair = both(MODELS[name](), s)
    for check in (theorem6(pair), theorem9(pair)):
        assert check.worst("free") >= -1e-9


def test_runs_share_their_memory_and_their_step_size() -> None:
    pair = both(made(GoMathL2O), s=1.0)
    width = pair.ood.z.shape[-1] // 12
    first, moved = (run.z[0].reshape(3, 12, width)[..., 3:] for run in (pair.ind, pair.ood))
    assert torch.equal(first, moved)
    assert float(first.abs().max()) > 0.5
    assert torch.equal(pair.L, 1 / PROBLEM.step_size())


def test_shift_counts_normalised_features_and_memory() -> None:
    optimizer = made(GoMathL2O)
    pair = both(optimizer, s=1.5, steps=3)
    states = []
    optimizer.requires_grad_(False)
    for x0 in (START, START + 1.5):
        state = optimizer.init(PROBLEM, x0, generator=torch.Generator().manual_seed(0))
        run = [state, *sp.iterate(PROBLEM, optimizer, state, 3)]
        states.append([(after.features, before.h, before.c) for before, after in pairwise(run)])
    for k in range(3):
        for i in range(3):
            rows = slice(12 * i, 12 * i + 12)
            total = sum(
                float((theirs[i] - ours[i]).square().sum())
                if theirs.shape[0] == 3
                else float((theirs[:, rows] - ours[:, rows]).square().sum())
                for ours, theirs in zip(states[0][k], states[1][k], strict=True)
            )
            assert float(pair.shift[k, i]) == pytest.approx(total**0.5, rel=1e-12)


def test_nothing_moves_where_the_runs_are_the_same() -> None:
    pair = both(made(L2OPA), s=0.0)
    assert float(pair.shift.max()) == 0
    assert float(secant_constants(pair).C1.max()) == 0


def test_moving_the_objective_is_moving_the_start_for_go_math() -> None:
    optimizer = made(GoMathL2O)
    by_start, by_objective = both(optimizer, s=3.0), both(optimizer, s=0.0, t=3.0)
    assert float((by_start.ood.x - 3 - by_objective.ood.x).abs().max()) < 1e-10
    assert torch.allclose(theorem6(by_start).free.value, theorem6(by_objective).free.value, rtol=1e-8)
    other = made(L2OPA)
    assert float((both(other, s=3.0).ood.x - 3 - both(other, s=0.0, t=3.0).ood.x).abs().max()) > 1e-3


def test_a_neighbour_changes_nothing() -> None:
    optimizer = made(GoMathL2O)
    pair = both(optimizer)
    alone = aligned(
        optimizer, PROBLEM.select(torch.tensor([1])), START[1:2], PROBLEM.select(torch.tensor([1])), START[1:2] + 2.0,
        TARGET[1:2], 8,
    )  # fmt: skip
    assert torch.allclose(theorem6(alone).free.value[:, 0], theorem6(pair).free.value[:, 1], rtol=1e-9)


def test_other_optimizers_are_refused() -> None:
    refused(lambda: both(FISTA()), "FISTA cannot be audited", "GoMathL2O")


def test_ista_satisfies_the_assumption() -> None:
    pair = both(ISTA())
    found = pair.hypotheses(history=True)
    assert float(found["L N1(z) = 1"].max()) < 1e-12
    assert pair.ood.x.dtype == F64
