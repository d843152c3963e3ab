"""What several rules ask of the records: who is ahead, by how much, and how to say it."""

from collections.abc import Sequence
from dataclasses import dataclass

from sureprox.evaluation.figures import HAND_MADE, SHIFTS, learned
from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import AbsentError, Records, beats, how, rank, reached

LASSO = Scenario("lasso")
SIGNED = tuple(sign * size for size in SHIFTS for sign in (1, -1))
PAPER_ITERATIONS = 1000
LITTLE = 2.0  # what differs by less than this factor "matters little"; what is faster by it, is so "significantly"
EQUAL = 1e-9  # in float32, final gaps below this are equal
LABELS = HAND_MADE | learned("lasso") | learned("logistic")


@dataclass(frozen=True)
class Answer:
    """Whether a sentence holds for one seed at one level, and the numbers."""

    holds: bool
    measured: str


def others(family: str) -> list[str]:
    return [name for name in (HAND_MADE | learned(family)) if not name.startswith("go-math-l2o")]


def field(records: Records, figure: str, scenario: Scenario) -> tuple[CurveRecord, list[CurveRecord]]:
    """GO-Math-L2O and every other method of the paper; Ada-LISTA is left out where it cannot be run."""
    family = scenario.family
    go = records.curve(figure, f"go-math-l2o/{family}", scenario)
    rest, absent = records.curves(figure, others(family), scenario)
    if absent := [name for name in absent if not name.startswith("ada-lista")]:
        raise AbsentError(", ".join(absent))
    return go, rest


def best(records: Records, figure: str, scenario: Scenario, level: float, without: str = "") -> Answer:
    go, rest = field(records, figure, scenario)
    rivals = [curve for curve in rest if not (without and curve.optimizer.startswith(without))]
    next_best = min(rivals, key=lambda curve: rank(curve, level))
    text = f"GO-Math-L2O {how(go, level)}, {LABELS[next_best.optimizer]} {how(next_best, level)}"
    return Answer(all(beats(go, other, level) for other in rivals), text)


def duels(records: Records, figure: str, family: str, move: Move) -> list[tuple[CurveRecord, CurveRecord]]:
    """GO-Math-L2O and L2O-PA for each shift."""
    scenarios = [Scenario(family, move, shift) for shift in SIGNED]
    return [
        (
            records.curve(figure, f"go-math-l2o/{family}", scenario),
            records.curve(figure, f"l2o-pa/{family}", scenario),
        )
        for scenario in scenarios
    ]


def span(curves: Sequence[CurveRecord], level: float) -> str:
    done = [k for curve in curves if (k := reached(curve, level)) is not None]
    if not done:
        return f"0 of {len(curves)}"
    numbers = str(done[0]) if min(done) == max(done) else f"{min(done)} to {max(done)}"
    return numbers + ("" if len(done) == len(curves) else f" in {len(done)} of {len(curves)}")


def ahead(pairs: Sequence[tuple[CurveRecord, CurveRecord]], level: float) -> Answer:
    won = [beats(go, pa, level) for go, pa in pairs]
    ours, theirs = zip(*pairs, strict=True)
    text = f"ahead in {sum(won)} of {len(won)}: GO-Math-L2O {span(ours, level)}, L2O-PA {span(theirs, level)}"
    return Answer(all(won), text)
