"""Silver steps and schedules of one's own: their formulas, what follows them, and that they can be learned."""

import numpy as np
import pytest
import torch

import naive_rivals as by_hand
import sureprox as sp
from helpers import F64, normal, refused, walk
from optimizers.test_rivals_by_hand import both_kinds, instances, problems, same
from sureprox.optimizers import FISTA, ISTA, Silver, StepSchedule

LENGTHS, MOMENTA = [1.7, 0.6, 2.5, 1.1], [0.2, 0.7, 0.1, 0.5]


@pytest.mark.parametrize("momenta", [None, MOMENTA], ids=["alone", "momenta"])
@both_kinds
def test_a_schedule_and_what_follows_it(kind, momenta):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    path = walk(problem, StepSchedule(LENGTHS, momenta, last=1.3), x0, 12)
    for i, one in enumerate(instances(problem, kind)):
        same(path[:, i], by_hand.schedule(one, x0[i].numpy(), 12, LENGTHS, momenta, 1.3), 1e-12)


@both_kinds
def test_silver_steps_are_those_of_the_recursion(kind):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    lengths = by_hand.silver_lengths(5)
    path = walk(problem, Silver(), x0, len(lengths))
    for i, one in enumerate(instances(problem, kind)):
        same(path[:, i], by_hand.schedule(one, x0[i].numpy(), len(lengths), lengths, None, 1.0), 1e-10)


def test_lengths_of_silver_steps():
    """With f(x) = x^2/2, L = 1 a step multiplies x by 1 - a_k; the sum of 2^m - 1 steps is rho^m - 1."""
    one = torch.ones(1, 1, 1, dtype=F64)
    problem = sp.Problem(sp.losses.LeastSquares(one, one[0]), sp.penalties.Zero())  # the solution is 1
    path = walk(problem, Silver(), 3 * one[0], 15, step_size=one[0, 0])[:, 0, 0] - 1
    lengths = 1 - path[1:] / path[:-1]
    np.testing.assert_allclose(lengths, by_hand.silver_lengths(4), rtol=1e-9)
    assert float(lengths.sum()) == pytest.approx((1 + 2**0.5) ** 4 - 1, rel=1e-9)


@pytest.mark.parametrize("levels", [1, 3, 5])
@both_kinds
def test_the_bound_of_silver_steps(kind, levels):
    """f smooth, r = 0: f(x_n) - f* <= L |x_0 - x*|^2 / (1 + sqrt(4 rho^2m - 3)), n = 2^m - 1."""
    problem = sp.Problem(problems(kind).f, sp.penalties.Zero())
    x0, best = 0.1 * normal(2, 20, seed=3), sp.reference(problem)
    n, rho = 2**levels - 1, 1 + 2**0.5
    bound = problem.lipschitz() * (x0 - best.x).square().sum(1) / (1 + np.sqrt(4 * rho ** (2 * levels) - 3))
    assert (problem.objective(walk(problem, Silver(), x0, n)[-1]) - best.objective <= bound).all()


@both_kinds
def test_schedules_that_are_known_methods(kind):
    problem, x0 = problems(kind), normal(2, 20, seed=3)
    fista, ista = walk(problem, FISTA(), x0, 9), walk(problem, ISTA(), x0, 9)
    assert torch.equal(walk(problem, StepSchedule([1.0], [0.0]), x0, 9), fista)
    assert torch.equal(walk(problem, StepSchedule([1.0]), x0, 9), ista)


def test_gradients_reach_the_schedule():
    problem, x0 = problems("lasso"), normal(2, 20, seed=3)
    steps, momenta = (torch.tensor(v, dtype=F64, requires_grad=True) for v in (LENGTHS, MOMENTA))

    def reached(steps, momenta):
        optimizer = StepSchedule(steps, momenta)
        state = optimizer.init(problem, x0)
        for _ in range(5):
            state = optimizer.step(problem, state)
        return problem.objective(state.x)

    assert torch.autograd.gradcheck(reached, (steps, momenta))


def test_what_a_schedule_refuses():
    refused(lambda: StepSchedule([]), "one number a step")
    refused(lambda: StepSchedule([1.0, -1.0]), "steps[1] is -1", "> 0")
    refused(lambda: StepSchedule([1.0, float("nan")]), "steps[1] is nan")
    refused(lambda: StepSchedule([1.0], [0.1, 0.2]), "momenta has 2 numbers; 1 steps")
    refused(lambda: StepSchedule([1.0], last=2.0), "last is 2")
