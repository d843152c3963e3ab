"""Promises: the bound of Clopper and Pearson against SciPy's, counts against a plain loop, and the command."""

import json

import pytest
import torch
from scipy.stats import beta, binom

import sureprox as sp
from sureprox.evaluation.battery import SEEDS
from sureprox.evaluation.battery_kinds import Kind, LassoDesign
from sureprox.evaluation.promise import CONFIDENCE, LEVEL, Promise, at_least, gradients, lower_bound, promised, within
from sureprox.optimizers import load

SMALL = Kind("small", "lasso", True, LassoDesign(m=20, n=40, nonzeros=4))


@pytest.mark.parametrize(("reached", "instances"), [(0, 5), (1, 7), (30, 60), (1997, 2000), (2000, 2000)])
@pytest.mark.parametrize("confidence", [0.9, CONFIDENCE])
def test_the_bound_is_that_of_clopper_and_pearson(reached: int, instances: int, confidence: float) -> None:
    exact = beta.ppf(1 - confidence, reached, instances - reached + 1) if reached else 0.0
    assert lower_bound(reached, instances, confidence) == pytest.approx(exact, rel=1e-8)
    if reached == instances:
        assert lower_bound(reached, instances, confidence) == pytest.approx((1 - confidence) ** (1 / instances))


def test_the_tail_of_the_binomial() -> None:
    for p in (0.0, 1e-3, 0.5, 0.999, 1.0):
        for reached in (0, 1, 50, 100):
            assert at_least(reached, 100, p) == pytest.approx(binom.sf(reached - 1, 100, p), rel=1e-9)


def test_a_share_that_is_too_low_is_promised_as_rarely_as_the_confidence_says() -> None:
    """At confidence 0.9 the bound is above the true share in at most a tenth of all draws, counted exactly."""
    for p in (0.5, 0.9, 0.99):
        wrong = sum(binom.pmf(k, 50, p) for k in range(51) if lower_bound(k, 50, 0.9) > p)
        assert wrong <= 0.1 + 1e-12
        assert wrong > 0.01 or p == 0.99  # where no draw of 50 can promise as much


def test_counts_are_those_of_a_plain_loop() -> None:
    optimizer = load("sure/lasso")
    found = list(gradients(optimizer, SMALL, 6, 3, 60))
    drawn = SMALL.sample(6, torch.Generator().manual_seed(SEEDS + 3))
    problem = drawn.problem.to(dtype=torch.float32)
    best = sp.reference(problem.to(dtype=torch.float64), tol=1e-12).objective
    expected = [None] * 6
    with torch.no_grad():
        state = optimizer.init(problem, drawn.start.float())
        for k in range(1, 61):
            state = optimizer.step(problem, state)
            gap = problem.to(dtype=torch.float64).objective(state.x.double()) / best - 1
            expected = [e if e is not None or gap[i] > LEVEL else k for i, e in enumerate(expected)]
    assert found == expected
    assert None not in found
    assert within(optimizer, SMALL, 6, 3, max(found)) == 6
    assert within(optimizer, SMALL, 6, 3, max(found) - 1) < 6


def test_a_promise_says_what_was_counted() -> None:
    made = promised("sure/lasso", SMALL, pilot=5, instances=10)
    assert isinstance(made, Promise)
    assert made.share == lower_bound(made.reached, 10, CONFIDENCE) <= (1e-5) ** 0.1 + 1e-12
    assert made.reached == within(load("sure/lasso"), SMALL, 10, 20_000_000, made.gradients)
    assert str(made).startswith(
        f"with confidence 1 - 1e-05 at least {100 * made.share:.2f} % of problems of the kind small"
    )


def test_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    from sureprox.cli.promise import promise

    promise("sure/lasso", "lasso-64x128", pilot=2, instances=4, fresh=2, seed=1, json=True)
    told = json.loads(capsys.readouterr().out)
    assert told["instances"] == 4
    assert 0 <= told["fresh_reached"] <= 2
    promise("sure/lasso", "lasso-64x128", pilot=2, instances=4, fresh=2, seed=1, json=False)
    assert f"within {told['gradients']} gradients" in capsys.readouterr().out
