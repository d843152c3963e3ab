"""Proximal operators against brute force, subdifferentials, and where the paper's shifted formula is wrong."""

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import sureprox as sp
from helpers import F64, normal, refused
from sureprox.problems import L1, LeastSquares, Zero

finite = st.floats(-50, 50, allow_subnormal=False)
positive = st.floats(1e-3, 20)
# multiples of 1/8 below 2^5 are exact in floats, so ties such as |v + t| = lam p really are ties
eighths = st.integers(-200, 200).map(lambda k: k / 8)
positive_eighths = st.integers(1, 40).map(lambda k: k / 8)


def one_dimensional(lam: float, t: float) -> sp.Problem:
    nothing = LeastSquares(torch.zeros(1, 1, 1, dtype=F64), torch.zeros(1, 1, dtype=F64))
    problem = sp.Problem(nothing, L1(lam))
    return problem.shifted(t) if t else problem


def prox(lam: float, t: float, v: float, p: float) -> float:
    return float(one_dimensional(lam, t).prox(torch.tensor([[v]], dtype=F64), torch.tensor([[p]], dtype=F64)))


def prox_objective(x, lam: float, t: float, v: float, p: float):
    return lam * np.abs(x + t) + (x - v) ** 2 / (2 * p)


def brute_force(lam: float, t: float, v: float, p: float) -> float:
    """The minimiser by bounded scalar search on each side of the kink, and the kink itself."""
    reach = abs(v) + abs(t) + lam * p + 1
    ends = ((-reach - t, -t), (-t, reach - t))
    found = [
        minimize_scalar(prox_objective, bounds=side, args=(lam, t, v, p), method="bounded", options={"xatol": 1e-12}).x
        for side in ends
    ]
    return min([*found, -t], key=lambda x: prox_objective(x, lam, t, v, p))


@given(lam=positive, t=st.one_of(st.just(0.0), finite), v=finite, p=positive)
@example(lam=0.5, t=0.0, v=0.0, p=1.0)
@example(lam=0.5, t=3.0, v=0.0, p=1.0)
@example(lam=0.5, t=3.0, v=-3.0, p=1.0)  # v = -t
@example(lam=0.5, t=3.0, v=-2.5, p=1.0)  # v + t = lam p
@example(lam=0.5, t=3.0, v=-3.5, p=1.0)  # v + t = -lam p
@example(lam=0.5, t=-10.0, v=1.0, p=2.0)  # v and v + t of different sign
def test_prox_is_the_minimiser(lam, t, v, p):
    ours, theirs = prox(lam, t, v, p), brute_force(lam, t, v, p)
    # no point found by search, nor any on a dense grid, is better; and the search lands where we do
    value = prox_objective(ours, lam, t, v, p)
    grid = np.concatenate([np.linspace(v - 5, v + 5, 2001), np.linspace(-t - 5, -t + 5, 2001), [v, -t, theirs]])
    assert value <= prox_objective(grid, lam, t, v, p).min() + 1e-12 * (1 + abs(value))
    assert ours == pytest.approx(theirs, abs=1e-5 * (1 + p))  # a search sees sqrt(machine epsilon) of x, times p


@given(lam=positive_eighths, t=eighths, v=eighths, p=st.sampled_from([0.5, 1.0, 2.0]))
@example(lam=1.0, t=2.0, v=-1.0, p=1.0)  # |v + t| = lam p
@example(lam=1.0, t=2.0, v=-2.0, p=1.0)  # v = -t
@example(lam=1.0, t=2.0, v=0.0, p=1.0)  # v = 0
def test_prox_satisfies_its_optimality_condition_exactly(lam, t, v, p):
    """(v - x)/p is a subgradient of lam |. + t| at x; on eighths nothing is rounded, so the test is an equality."""
    x = prox(lam, t, v, p)
    slope = (v - x) / p
    if x + t == 0:
        assert abs(slope) <= lam
    else:
        assert slope == lam * np.sign(x + t)


def test_prox_in_a_diagonal_metric_is_coordinate_by_coordinate():
    lam, v, step = normal(3).abs(), normal(3, 7, seed=1), normal(3, 7, seed=2).abs() + 0.1
    result = L1(lam).prox(v, step)
    for i in range(3):
        for j in range(7):
            assert float(result[i, j]) == pytest.approx(prox(float(lam[i]), 0.0, float(v[i, j]), float(step[i, j])))


def paper_prox(lam: float, t: float, v: float, p: float) -> float:
    """-t + sign(v) max(0, |v| - lam p + sign(v) t), as printed in the paper."""
    return -t + np.sign(v) * max(0.0, abs(v) - lam * p + np.sign(v) * t)


@given(lam=positive_eighths, t=eighths, v=eighths, p=st.sampled_from([0.5, 1.0, 2.0]))
@example(lam=1.0, t=-10.0, v=1.0, p=1.0)
@example(lam=1.0, t=-1.5, v=1.0, p=1.0)
@example(lam=1.0, t=5.0, v=0.0, p=1.0)
def test_the_printed_shifted_prox_is_wrong_exactly_where_the_sign_changes(lam, t, v, p):
    wrong = paper_prox(lam, t, v, p) != prox(lam, t, v, p)
    assert wrong == (np.sign(v) != np.sign(v + t) and abs(v + t) > lam * p)


@given(seed=st.integers(0, 2**20))
def test_l1_subdifferential_is_the_box_between_the_one_sided_slopes(seed):
    lam = normal(2, seed=seed).abs().unsqueeze(1)
    x = (normal(2, 5, seed=seed) + torch.sign(normal(2, 5, seed=seed))) * (normal(2, 5, seed=seed + 1) > 0)
    low, high = L1(lam[:, 0]).subdiff(x)
    width = 0.5  # every nonzero |x_j| is above 1, so that no kink lies within
    torch.testing.assert_close(low, lam * (x.abs() - (x - width).abs()) / width, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(high, lam * ((x + width).abs() - x.abs()) / width, rtol=1e-12, atol=1e-14)


def test_value_and_numbers_per_instance():
    x = torch.tensor([[1.0, -2.0, 0.0], [0.5, 0.5, -4.0]], dtype=F64)
    assert L1(torch.tensor([0.5, 2.0], dtype=F64)).value(x).tolist() == [1.5, 10.0]
    assert L1(2).value(x).tolist() == [6.0, 10.0]
    assert L1(torch.tensor(2.0, dtype=F64)).select(torch.tensor([1])).value(x[1:]).tolist() == [10.0]


def test_a_plain_number_keeps_all_its_digits():
    """0.1 must not pass through float32 on its way to a float64 problem."""
    f = LeastSquares(normal(2, 3, 4), normal(2, 3))
    assert float(sp.Problem(f, L1(0.1)).r.lam) == 0.1
    assert sp.Problem(f.to(dtype=torch.float32), L1(0.1)).r.lam.dtype == torch.float32


def test_zero_penalty():
    penalty, x = Zero(), normal(2, 5)
    assert penalty.value(x).tolist() == [0.0, 0.0]
    assert torch.equal(penalty.prox(x, torch.ones(2, 1, dtype=F64)), x)
    low, high = penalty.subdiff(x)
    assert not low.any()
    assert not high.any()
    low, high = penalty.dual_range(torch.stack([torch.zeros(5, dtype=F64), x[0]]))
    assert low.tolist() == [-torch.inf, 0.0]
    assert high.tolist() == [torch.inf, 0.0]


def test_l1_refuses_bad_weights():
    refused(lambda: L1(-0.1), "lam is -0.1", "finite and >= 0")
    refused(lambda: L1(torch.tensor([0.1, float("inf")])), "lam is inf", "finite and >= 0")
    refused(lambda: L1(float("nan")), "lam is nan")
    refused(lambda: L1("much"), "lam is a str", "pass a number")
    refused(lambda: L1(torch.ones(2, 2)), "lam has shape (2, 2)", "pass a number or shape (B,)")
