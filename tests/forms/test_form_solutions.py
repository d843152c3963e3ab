"""Each loss x penalty x kind of A: the minimum is that of scipy, or of proximal steps in numpy."""

import numpy as np
import pytest

import sureprox as sp
from form_cases import MATRICES, PAIRS, B, lowest, objective, problem


@pytest.mark.parametrize("matrix", MATRICES)
@pytest.mark.parametrize(("loss", "penalty"), PAIRS)
def test_the_minimum_is_that_of_another_method(loss, penalty, matrix):
    solution = sp.solve(problem(loss, penalty, matrix), tol=1e-9, max_iter=20_000)
    truth = lowest(loss, penalty, matrix != "own")
    assert solution.converged.all()
    assert (truth > 1e-3).all()
    for i in range(B):
        x = solution.x[i].numpy()
        value = objective(loss, penalty, matrix != "own", i, x)
        assert value == pytest.approx(float(solution.objective[i]), rel=1e-12)
        assert value == pytest.approx(truth[i], rel=1e-7)
        assert value - truth[i] <= float(solution.gap[i]) + 1e-9 * truth[i]
        assert value < 0.999 * objective(loss, penalty, matrix != "own", i, np.zeros_like(x))
