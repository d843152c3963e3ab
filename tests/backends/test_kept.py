"""When a copy of one problem can become that of another, and that nothing happens to it when it cannot."""

import pytest
import torch

import sureprox as sp
from sureprox.base.operations import PLAIN, Operations
from sureprox.guarantee import Certified
from sureprox.kernels.on_gpu import all_in_kernels, reads_the_problem
from sureprox.kernels.runtime.reuse import taken_over
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.sources import LassoFamily


def problem(seed: int, batch: int = 3, dtype: torch.dtype = torch.float32) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    return LassoFamily(m=6, n=10, nonzeros=2).sample(batch, generator).to(dtype=dtype)


def copy_of(given: Problem) -> Problem:
    f, r = given.f, given.r
    lam = r.lam.expand(given.batch).clone()
    return Problem(LeastSquares.trusted(A=f.A.clone(), b=f.b.clone()), L1.trusted(lam=lam))


def own_lam(given: Problem) -> Problem:
    return sp.lasso(given.f.A, given.f.b, given.r.lam.expand(given.batch).clone())


def test_a_problem_of_the_same_form_is_copied_over():
    mine, other = copy_of(problem(1)), own_lam(problem(2))
    places = [value.data_ptr() for value in mine.tensors()]
    assert taken_over(mine, other)
    assert [value.data_ptr() for value in mine.tensors()] == places
    for ours, theirs in zip(mine.tensors(), other.tensors(), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize(
    "other",
    [
        own_lam(problem(2, batch=4)),
        own_lam(problem(2, dtype=torch.float64)),
        own_lam(problem(2)).shifted(1.0),
        sp.lasso(problem(2).f.A[0], problem(2).f.b, torch.ones(3)),
        sp.logistic(problem(2).f.A, (problem(2).f.b > 0).float(), torch.ones(3)),
    ],
    ids=["batch", "precision", "shift", "shared matrix", "logistic"],
)
def test_other_problems_leave_it_alone(other):
    mine = copy_of(problem(1))
    before = [value.clone() for value in mine.tensors()]
    assert not taken_over(mine, other)
    assert all(torch.equal(*pair) for pair in zip(before, mine.tensors(), strict=True))


def test_a_copy_serves_only_steps_that_read_nothing_made_of_it():
    guarantee = Certified(FISTA(restart=True))
    of_copies = Operations(follow=print)  # products of b and lam, one for each track
    of_the_problem = Operations(follow=print, ahead=print)
    assert all_in_kernels(of_copies, guarantee)
    assert not reads_the_problem(of_copies, guarantee)
    assert reads_the_problem(of_the_problem, guarantee)
    assert not reads_the_problem(PLAIN, None)
