"""How many functions of this package an iteration calls: what Python costs beside the kernels, counted, not timed."""

import sys
from pathlib import Path

import pytest

import sureprox as sp
from helpers import random_problem

PACKAGE = str(Path(sp.__file__).parent)
STEPS = 40


def calls(problem, optimizer, **options) -> int:
    count = 0

    def seen(frame, event, argument):
        nonlocal count
        count += event == "call" and frame.f_code.co_filename.startswith(PACKAGE)

    sys.setprofile(seen)
    try:
        sp.solve(problem, optimizer, tol=1e-30, polish=False, engine="kernels", **options)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.filterwarnings("ignore::sureprox.base.errors.ConvergenceWarning")
@pytest.mark.parametrize(
    ("optimizer", "certify", "most"), [("fista", False, 24), ("fista", True, 28), ("sure/lasso", True, 55)]
)
def test_an_iteration_calls_few_functions(optimizer, certify, most):
    problem = random_problem("lasso", batch=4, m=50, n=100)
    options = {"optimizer": optimizer, "certify": certify}
    calls(problem, max_iter=2, **options)  # what is made once is made now
    few, many = (calls(problem, max_iter=steps, **options) for steps in (STEPS, 2 * STEPS))
    assert 0 < (many - few) / STEPS <= most
