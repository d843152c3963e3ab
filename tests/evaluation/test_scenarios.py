"""Scenarios: names there and back, and what each of them moves."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import sureprox as sp
from evaluation_cases import SMALL, small_dataset
from helpers import refused
from sureprox.evaluation.experiment import trace
from sureprox.evaluation.paper_prox import PaperProxProblem
from sureprox.evaluation.scenarios import FAMILY, Move, Scenario
from sureprox.optimizers import FISTA, ISTA

shifts = st.floats(allow_nan=False, allow_infinity=False).filter(lambda shift: shift != 0)


@given(st.sampled_from(sorted(FAMILY)), st.sampled_from([move for move in Move if move is not Move.NONE]), shifts)
def test_names_lead_back_to_the_scenario(source: str, move: Move, shift: float) -> None:
    scenario = Scenario(source, move, shift)
    assert Scenario.parse(scenario.name) == scenario
    assert Scenario.parse(source) == Scenario(source)


@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        (Scenario("lasso"), "lasso"),
        (Scenario("lasso", Move.START, 10.0), "lasso/start+10"),
        (Scenario("logistic", Move.OBJECTIVE, -50.0), "logistic/objective-50"),
        (Scenario("lasso", Move.PAPER_PROX, -0.5), "lasso/objective-0.5/paper-prox"),
    ],
)
def test_names_are_readable(scenario: Scenario, name: str) -> None:
    assert scenario.name == name


@pytest.mark.parametrize(
    "name", ["", "nothing", "lasso/start", "lasso/start10", "lasso/start+ten", "lasso/start+10/paper-prox", "lasso/x+1"]
)
def test_other_names_are_refused(name: str) -> None:
    refused(lambda: Scenario.parse(name), name)


def test_a_move_needs_a_shift() -> None:
    refused(lambda: Scenario("lasso", Move.START), "'start' by 0")
    refused(lambda: Scenario("lasso", Move.NONE, 1.0), "'none' by 1")
    refused(lambda: Scenario("lasso", Move.OBJECTIVE, float("nan")), "nan")


def test_what_each_scenario_moves(generator: torch.Generator) -> None:
    base, x0 = SMALL.sample(2, generator), SMALL.start(2, generator)
    start, objective = Scenario("lasso", Move.START, 3.0), Scenario("lasso", Move.OBJECTIVE, 3.0)
    paper = Scenario("lasso", Move.PAPER_PROX, 3.0)
    assert start.problem(base) is base
    torch.testing.assert_close(start.start(x0), x0 + 3)
    torch.testing.assert_close(objective.start(x0), x0)
    torch.testing.assert_close(paper.start(x0), x0)
    for moved in (objective, paper):
        torch.testing.assert_close(moved.problem(base).objective(x0), base.objective(x0 + 3))
    assert isinstance(paper.problem(base), PaperProxProblem)
    assert not isinstance(objective.problem(base), PaperProxProblem)


@pytest.mark.parametrize("t", [10.0, -100.0])
def test_moving_the_objective_is_moving_the_start(t: float) -> None:
    """x'_k = x_k - t for every optimizer whose features hold no x; here to rounding in float64."""
    generator = torch.Generator().manual_seed(1)
    base, x0 = SMALL.sample(3, generator, torch.float64), SMALL.start(3, generator, torch.float64)
    start, objective = Scenario("lasso", Move.START, t), Scenario("lasso", Move.OBJECTIVE, t)
    for optimizer in (ISTA(), FISTA(), FISTA(restart=True), sp.load("go-math-l2o/lasso")):
        with torch.no_grad():
            one = optimizer.init(start.problem(base), start.start(x0))
            other = optimizer.init(objective.problem(base), objective.start(x0))
            for _ in range(30):
                one = optimizer.step(start.problem(base), one)
                other = optimizer.step(objective.problem(base), other)
                torch.testing.assert_close(other.x + t, one.x, rtol=0, atol=1e-10 * abs(t))


def test_the_two_triggers_give_one_curve_in_float32(tmp_path) -> None:
    """GO-Math-L2O, s = t = ±10: the mean gaps agree to float32 accuracy as long as they are above its noise."""
    data = small_dataset(tmp_path)
    for t in (10.0, -10.0):
        curves = [
            trace(sp.load("go-math-l2o/lasso"), data, Scenario("lasso", move, t), 60).gaps.mean(1)
            for move in (Move.START, Move.OBJECTIVE)
        ]
        above = curves[0] > 1e-5
        assert int(above.sum()) > 15
        torch.testing.assert_close(curves[1][above], curves[0][above], rtol=1e-3, atol=0)
