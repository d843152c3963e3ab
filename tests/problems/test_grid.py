"""Many responses and many weights of the penalty: which problems a call makes, and where their answers stand."""

import itertools

import numpy as np
import pytest
import torch

import sureprox as sp
from helpers import F64, normal, refused

R, K, M, N = 3, 4, 15, 8
A, Y = normal(M, N), normal(R, M, seed=1) + 0.5
LAM = torch.tensor([0.2, 0.7, 1.5, 4.0], dtype=F64)


def one_by_one(make, numbers) -> torch.Tensor:
    """(R, K, n): the problems solved alone; `numbers(r, k)` are those of the penalty."""
    solved = [sp.solve(make(A, Y[r], *numbers(r, k)), tol=1e-10).x[0] for r, k in itertools.product(range(R), range(K))]
    return torch.stack(solved).reshape(R, K, N)


@pytest.mark.parametrize(
    "lam",
    [LAM, LAM.tolist(), LAM.numpy(), LAM.unsqueeze(0), LAM.expand(R, K)],
    ids=["(K,)", "list", "array", "(1, K)", "(R, K)"],
)
def test_every_response_meets_every_weight(lam):
    problem = sp.lasso(A, Y, lam)
    solution = sp.solve(problem, tol=1e-10)
    assert (problem.grid, problem.batch, solution.grid) == ((R, K), R * K, (R, K))
    torch.testing.assert_close(solution.unflatten(solution.x), one_by_one(sp.lasso, lambda r, k: (LAM[k].item(),)))
    assert solution.unflatten(solution.status).shape == (R, K)
    assert "(3 x 4)" in repr(solution)
    assert "batch=3 x 4" in repr(problem)


def test_a_grid_may_differ_from_response_to_response():
    each = LAM * torch.tensor([[1.0], [0.5], [0.1]], dtype=F64)
    solution = sp.solve(sp.lasso(A, Y, each), tol=1e-10)
    expected = one_by_one(sp.lasso, lambda r, k: (each[r, k].item(),))
    torch.testing.assert_close(solution.unflatten(solution.x), expected)


def test_as_many_weights_as_responses_are_one_for_each():
    three = LAM[:R]
    for lam in (three, three.tolist()):
        problem = sp.lasso(A, Y, lam)
        assert (problem.batch, problem.grid) == (R, (R,))
        assert torch.equal(problem.r.l1.flatten(), three)
    assert sp.lasso(A, Y, three.unsqueeze(0)).grid == (R, R)
    assert sp.lasso(A, Y, three.unsqueeze(1)).grid == (R, 1)


def test_one_response_is_a_path_and_one_weight_is_a_number():
    assert sp.lasso(A, Y[0], LAM).grid == (K,)
    assert sp.lasso(A, Y[0], LAM.unsqueeze(0)).grid == (1, K)
    assert sp.lasso(A, Y, 0.5).grid == (R,)
    solution = sp.solve(sp.lasso(A, Y[0], LAM))
    assert solution.unflatten(solution.gap) is not None
    assert solution.unflatten(solution.gap).shape == (K,)


def test_two_numbers_of_a_penalty_share_the_grid():
    l2 = [0.1, 0.2, 0.3]  # one for each response
    solution = sp.solve(sp.elastic_net(A, Y, LAM, l2), tol=1e-10)
    expected = one_by_one(sp.elastic_net, lambda r, k: (LAM[k].item(), l2[r]))
    torch.testing.assert_close(solution.unflatten(solution.x), expected)
    assert sp.elastic_net(A, Y, LAM, LAM / 2).grid == (R, K)
    refused(lambda: sp.elastic_net(A, Y, LAM, [0.1, 0.2]), "l2 has shape (2,)", "3 right-hand sides", "(3, K)")


def test_the_other_problems_take_grids_too():
    labels, groups = Y > 0.5, [0, 0, 1, 1, 2, 2, 3, 3]
    for problem in (
        sp.logistic(A, labels, LAM / 100),
        sp.nonnegative(A, Y, LAM),
        sp.group_lasso(A, Y, groups, LAM),
    ):
        assert problem.grid == (R, K)
        assert sp.solve(problem).converged.all()
    last = sp.logistic(A, labels, LAM / 100).select(torch.tensor([R * K - 1]))
    alone = sp.logistic(A, labels[-1], LAM[-1].item() / 100)
    torch.testing.assert_close(sp.solve(last, tol=1e-10).x, sp.solve(alone, tol=1e-10).x)


def test_moving_a_problem_keeps_the_grid_and_a_part_of_it_has_none():
    problem = sp.lasso(A, Y, LAM)
    assert problem.to(dtype=torch.float32).grid == problem.shifted(1.0).grid == (R, K)
    part = problem.select(torch.arange(5))
    assert part.grid == (5,)
    refused(lambda: sp.solve(part).unflatten(np.zeros(6)), "values has length 6", "each of 5")


def test_numbers_that_fit_nothing_are_refused():
    own = A.expand(R, M, N).contiguous()
    refused(lambda: sp.lasso(own, Y, LAM), "lam has shape (4,)", "a number or shape (3,)")
    refused(lambda: sp.lasso(A, Y, LAM.expand(2, K)), "lam has shape (2, 4)", "3 right-hand sides")
    refused(lambda: sp.lasso(A, Y, LAM.expand(1, 1, K)), "lam has shape (1, 1, 4)")
    refused(lambda: sp.lasso(A, Y, -LAM), "lam is -4", ">= 0")
