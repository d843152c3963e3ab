"""Bad input of the penalties: each case is refused with one line that says what, got, and what to do."""

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import F64, normal, refused
from sureprox.problems import LeastSquares, Problem
from sureprox.problems.penalties import (
    L1,
    Box,
    ElasticNet,
    GroupBall,
    GroupL2,
    NonNegative,
    Separable,
    SparseGroup,
    WeightedL1,
)

NAN, INF = float("nan"), float("inf")
B, M, N = 3, 8, 4
MASKED = np.ma.masked_equal(np.ones(N), 1)
COMPLEX = torch.ones(B, dtype=torch.complex128)
PAIRS = [[0, 1], [2]]


def problem(r, square: bool = False) -> Problem:
    batch = N if square else B
    return Problem(LeastSquares(normal(batch, M, N), normal(batch, M, seed=1)), r)


def test_a_penalty_stays_what_it_is_where_batch_and_n_come_to_be_equal():
    """One number for each instance: in another precision, and when instances are left out."""
    each = torch.arange(1.0, 7.0, dtype=F64)
    whole = Problem(LeastSquares(normal(6, M, N), normal(6, M, seed=1)), Separable(each, each, -each))
    part = whole.select(torch.tensor([5, 3, 1, 0]))
    assert part.batch == part.n
    x = normal(6, N, seed=2)
    expected = whole.objective(x)[[5, 3, 1, 0]]
    for same in (part, part.to(dtype=torch.float32).to(dtype=F64), Problem(part.f, part.r), part.shifted(0.0)):
        torch.testing.assert_close(same.objective(x[[5, 3, 1, 0]]), expected, rtol=1e-6, atol=0)
    assert sp.solve(whole, tol=1e-8).converged.all()
    square = normal(N, M, N), normal(N, M, seed=1)
    for made in (sp.elastic_net(*square, 0.1, 0.2), sp.nonnegative(*square), sp.nonnegative(*square, each[:N])):
        assert sp.solve(made.to(dtype=torch.float32)).converged.all()
    refused(lambda: Problem(LeastSquares(normal(2, M, N), normal(2, M)), part.r), "l1 has shape (4,)")


SIZES = {
    "l1": lambda value: Separable(l1=value),
    "l2": lambda value: Separable(l2=value),
    "ElasticNet": lambda value: ElasticNet(1.0, value),
    "NonNegative": NonNegative,
    "lam of L1": L1,
    "lam of groups": lambda value: GroupL2(PAIRS, value),
    "lam of sparse groups": lambda value: SparseGroup(PAIRS, 0.1, value),
    "l1 of sparse groups": lambda value: SparseGroup(PAIRS, value, 1.0),
    "radius": lambda value: GroupBall(PAIRS, value),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_bad_size_is_refused(name):
    def with_size(value):
        return lambda: problem(SIZES[name](value))

    refused(with_size(-1.0), "is -1 somewhere", ">= 0")
    refused(with_size(NAN), "is nan somewhere", "finite")
    refused(with_size(INF), "is inf somewhere", "finite")
    refused(with_size(torch.tensor([1.0, -2.0, 1.0])), "is -2 somewhere")
    refused(with_size("one"), "cannot read as numbers")
    refused(with_size(1j), "cannot read as numbers")
    refused(with_size(COMPLEX), "has dtype torch.complex128", "real")
    refused(with_size(MASKED), "4 masked entries")
    refused(with_size(torch.ones(B, N).to_sparse()), "layout torch.sparse_coo", "to_dense()")
    refused(with_size(torch.ones(B + 2)), "has shape (5,)")
    refused(with_size(torch.ones(1, B, N)), "has shape (1, 3, 4)")


@pytest.mark.parametrize("name", ["low", "high"])
def test_a_bad_bound_is_refused(name):
    def with_bound(value):
        return lambda: problem(Separable(**{name: value}))

    wrong = INF if name == "low" else -INF
    refused(with_bound(NAN), f"{name} is nan somewhere")
    refused(with_bound(torch.tensor([0.0, NAN, 0.0, 0.0])), f"{name} is nan somewhere")
    refused(with_bound(wrong), f"{name} is {wrong:g} somewhere")
    refused(with_bound(torch.full((N,), wrong)), f"{name} is {wrong:g} somewhere")
    refused(with_bound("zero"), "cannot read as numbers")
    refused(with_bound(COMPLEX), "has dtype torch.complex128", "real")
    refused(with_bound(MASKED), "4 masked entries")
    refused(with_bound(torch.ones(B, N).to_sparse()), "layout torch.sparse_coo", "to_dense()")
    refused(with_bound(torch.ones(B + 2)), f"{name} has shape (5,)", "(3,), (4,) or (3, 4)")
    refused(with_bound(torch.ones(2, N)), f"{name} has shape (2, 4)")


def test_low_above_high_is_refused_whatever_their_shapes():
    refused(lambda: Box(1.0, 0.0), "low is 1 and high is 0", "must not be above")
    refused(lambda: Box(torch.tensor([0.0, 1.0, 0.0]), torch.tensor([1.0, 0.5, 1.0])), "low is 1 and high is 0.5")
    # a bound for each instance and one for each coordinate meet only in the problem
    refused(lambda: problem(Box(torch.tensor([0.0, 2.0, 0.0]), torch.ones(N))), "low is 2 and high is 1")
    assert problem(Box(0.5, 0.5)).objective(torch.full((B, N), 0.5, dtype=F64)).isfinite().all()


@pytest.mark.parametrize("name", ["l1", "l2", "low", "high"])
def test_one_dimension_is_refused_where_batch_and_n_are_equal(name):
    value = torch.arange(N, dtype=F64) * (-1 if name == "low" else 1)
    refused(lambda: problem(Separable(**{name: value}), square=True), f"{name} has shape (4,)", "(1, 4) or (4, 1)")
    rows = problem(Separable(**{name: value.unsqueeze(0)}), square=True)
    columns = problem(Separable(**{name: value.unsqueeze(1)}), square=True)
    v = 3 * normal(N, N, seed=2)
    one = torch.ones(N, 1, dtype=F64)
    assert not torch.allclose(rows.prox(v, one), columns.prox(v, one))
    torch.testing.assert_close(rows.prox(v, one), columns.prox(v.T.contiguous(), one).T)


GROUPINGS = {
    "an empty one": ([[0], []], "group 1 is empty"),
    "overlapping": ([[0, 1], [1, 2]], "coordinate 1 is in two groups", "must not overlap"),
    "twice": ([[0, 0]], "coordinate 0 is in two groups"),
    "beyond n": ([[0, N]], "name 5 coordinates", "has 4"),
    "far beyond n": ([[10**12]], "coordinate 1000000000000"),
    "beyond all integers": ([[0], [10**19]], "coordinate 10000000000000000000"),
    "negative": ([[0, -1]], "group 0 is [0, -1]", "whole numbers from 0"),
    "halves": ([[0.5]], "group 0 is [0.5]"),
    "words": ([["a"]], "group 0 is ['a']"),
    "truths": ([[True, False]], "group 0 is [True, False]"),
    "nested": ([[[0, 1]]], "group 0 is [[0, 1]]"),
    "a number among lists": ([[0], 1], "group 1 is 1"),
    "masked lists": ([np.ma.masked_equal([0, 1], 1)], "1 masked entries"),
    "masked labels": (np.ma.masked_equal([0, 0, 1, 1], 1), "2 masked entries"),
    "no groups": ([], "groups has shape (0,)"),
    "nothing": (None, "groups cannot be read"),
    "a word": ("abc", "groups cannot be read"),
    "too few labels": ([0, 0, 1], "name 3 coordinates", "has 4"),
    "too many labels": ([0, 0, 1, 1, 1], "name 5 coordinates"),
    "a gap": ([0, 0, 2, 2], "group 1 is empty", "without gaps"),
    "a label beyond memory": ([0, 0, 0, 10**12], "group 1 is empty"),
    "a label below -1": ([0, 0, -2, 1], "groups holds -2"),
    "no group at all": ([-1] * N, "group 0 is empty"),
    "floats": ([0.0, 0.0, 1.0, 1.0], "type torch.float32"),
    "complex labels": (torch.zeros(N, dtype=torch.complex128), "type torch.complex128"),
    "true or false": (torch.zeros(N, dtype=torch.bool), "type torch.bool"),
    "two dimensions": (torch.zeros(2, 2, dtype=torch.int64), "shape (2, 2)"),
}


@pytest.mark.parametrize("kind", [GroupL2, SparseGroup, GroupBall])
@pytest.mark.parametrize("case", GROUPINGS)
def test_bad_groups_are_refused(case, kind):
    groups, *parts = GROUPINGS[case]
    sizes = (0.1, 1.0) if kind is SparseGroup else (1.0,)
    refused(lambda: problem(kind(groups, *sizes)), *parts)


@pytest.mark.parametrize("kind", [GroupL2, SparseGroup, GroupBall])
def test_bad_weights_of_groups_are_refused(kind):
    sizes = (0.1, 1.0) if kind is SparseGroup else (1.0,)

    def weighted(weights):
        return lambda: kind(PAIRS, *sizes, weights=weights)

    refused(weighted([1.0]), "weights has shape (1,)", "2 groups")
    refused(weighted([[1.0, 1.0]]), "weights has shape (1, 2)")
    refused(weighted([1.0, -1.0]), "weights is -1 somewhere")
    refused(weighted([1.0, NAN]), "weights is nan somewhere")
    refused(weighted(torch.ones(2, dtype=torch.complex128)), "weights has dtype torch.complex128")
    refused(weighted(np.ma.masked_equal(np.ones(2), 1)), "weights has 2 masked entries")


def test_bad_weights_of_an_l1_penalty_are_refused():
    refused(lambda: WeightedL1(1.0), "weights has shape ()")
    refused(lambda: WeightedL1(-torch.ones(N)), "weights is -1 somewhere")
    refused(lambda: WeightedL1(torch.full((N,), NAN)), "4 entries that are NaN")
    refused(lambda: WeightedL1(torch.ones(N, dtype=torch.complex128)), "dtype torch.complex128")
    refused(lambda: problem(WeightedL1(torch.ones(N + 1))), "weights has shape (5,)", "(4,) or (3, 4)")


def test_groups_as_labels_and_as_lists_are_the_same():
    x = normal(B, N, seed=3)
    lists = problem(GroupL2(PAIRS, 0.7))
    labels = problem(GroupL2([0, 0, 1, -1], 0.7))
    arrays = problem(GroupL2([np.array([0, 1]), torch.tensor([2])], 0.7))
    assert torch.equal(lists.objective(x), labels.objective(x))
    assert torch.equal(lists.objective(x), arrays.objective(x))
