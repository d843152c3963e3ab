"""Every instance alone: what ran before, its neighbours and the number of threads change no answer, in any form."""

import pytest
import torch

import sureprox as sp
from drawn_forms import FORMS, OTHERS, drawn

F64 = torch.float64


@pytest.mark.parametrize("name", [*FORMS, *OTHERS])
def test_neither_history_nor_neighbours_matter(name):
    small, large = drawn(name, 1, F64), drawn(name, 3, F64)
    assert small.n != large.n
    first = sp.solve(small)
    sp.solve(large, max_iter=20)
    again = sp.solve(small)
    assert (again.engine, again.status.tolist()) == (first.engine, first.status.tolist())
    for part in ("x", "gap", "iterations"):
        assert torch.equal(getattr(again, part), getattr(first, part))
    for i in range(small.batch):
        alone = sp.solve(small.select(torch.tensor([i])))
        assert alone.status[0] == first.status[i]
        if name == "logistic shared":  # one product with A for all, which BLAS rounds by their number
            apart = float((alone.objective[0] - first.objective[i]).abs())
            assert apart <= float(torch.maximum(alone.gap[0], first.gap[i])) + 1e-14 * float(first.objective[i])
        else:
            assert float((alone.x[0] - first.x[i]).abs().max()) <= 1e-12 * float(first.x[i].abs().max())


@pytest.mark.parametrize("name", ["lasso", "logistic shared", "huber", "softmax", "nonnegative", "groups"])
def test_two_threads_give_the_answer_of_one_up_to_rounding(name):
    problem = drawn(name, 2, F64)
    alone = sp.solve(problem, tol=1e-8)
    torch.set_num_threads(2)
    try:
        together = sp.solve(problem, tol=1e-8)
    finally:
        torch.set_num_threads(1)
    assert together.engine == alone.engine
    assert together.status.tolist() == alone.status.tolist()
    assert float((together.x - alone.x).abs().max()) <= 1e-9 * float(alone.x.abs().max())
