"""Relative gaps and their summary: divergence counts, zero optima are kept."""

import math

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from sureprox.evaluation.metrics import gap_scale, relative_gap, summarise

INF = math.inf


def tensor(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_zero_optima_are_measured_against_the_others() -> None:
    best = tensor(2.0, 0.0, 4.0)
    scale, zero = gap_scale(best)
    assert zero.tolist() == [False, True, False]
    assert scale.tolist() == [2.0, 3.0, 4.0]
    assert relative_gap(tensor(3.0, 6.0, 4.0), best, scale).tolist() == [0.5, 2.0, 0.0]


def test_only_zero_optima_leave_the_gap_absolute() -> None:
    scale, zero = gap_scale(tensor(0.0, 0.0))
    assert zero.all()
    assert scale.tolist() == [1.0, 1.0]


def test_a_small_optimum_is_not_zero() -> None:
    scale, zero = gap_scale(tensor(1e-6, 1.0))
    assert not zero.any()
    assert scale.tolist() == [1e-6, 1.0]


def test_what_is_not_finite_is_infinitely_far() -> None:
    gap = relative_gap(tensor(math.nan, INF, 2.0), tensor(1.0, 1.0, 1.0), tensor(1.0, 1.0, 1.0))
    assert gap.tolist() == [INF, INF, 1.0]


def test_one_diverged_instance_of_ten() -> None:
    seen = summarise(tensor(*range(1, 10), INF))
    assert (seen.mean, seen.median, seen.q10, seen.q90, seen.nonfinite) == (INF, 5.0, 1.0, 9.0, 1)


def test_two_diverged_instances_of_ten_reach_the_upper_quantile() -> None:
    seen = summarise(tensor(*range(1, 9), INF, INF))
    assert (seen.mean, seen.median, seen.q90, seen.nonfinite) == (INF, 5.0, INF, 2)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_finite_gaps_against_numpy(values: list[float]) -> None:
    seen = summarise(tensor(*values))
    assert math.isclose(seen.mean, np.mean(values), rel_tol=1e-12, abs_tol=1e-300)
    for name, share in (("q10", 0.1), ("median", 0.5), ("q90", 0.9)):
        assert getattr(seen, name) == np.quantile(values, share, method="inverted_cdf")
    assert seen.nonfinite == 0
