"""What several rules ask of the records: who is best, who wins at which shift, and how to say it."""

from collections.abc import Sequence

from sureprox.evaluation.figures import HAND_MADE, SHIFTS, learned
from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import AbsentError, Records, beats, diverged, how, rank, reached
from sureprox.report.verdicts import Finding, Verdict

SIGNED = tuple(sign * size for size in SHIFTS for sign in (1, -1))
SIMILAR = 1.5  # methods that differ by less than this factor are "similar"


def others(family: str) -> list[str]:
    return [name for name in (HAND_MADE | learned(family)) if not name.startswith("go-math-l2o")]


def best(records: Records, figure: str, family: str, scenario: Scenario) -> Finding:
    """Whether GO-Math-L2O beats every other method of the paper in a figure."""
    go = records.curve(figure, f"go-math-l2o/{family}", scenario)
    rest, absent = records.curves(figure, others(family), scenario)
    text = counts([go, *rest]) + restart(records, figure, scenario)
    if not all(beats(go, other) for other in rest):
        return Finding(Verdict.NOT_REPRODUCED, text)
    return unless_absent(Verdict.REPRODUCED, text, absent)


def duels(records: Records, figure: str, family: str, move: Move) -> tuple[list[bool], str]:
    """GO-Math-L2O against L2O-PA for each shift: who wins, and in words."""
    won, ours, theirs = [], [], []
    for shift in SIGNED:
        scenario = Scenario(family, move, shift)
        go = records.curve(figure, f"go-math-l2o/{family}", scenario)
        pa = records.curve(figure, f"l2o-pa/{family}", scenario)
        won.append(beats(go, pa))
        ours.append(go)
        theirs.append(pa)
    return won, f"GO-Math-L2O ahead in {sum(won)} of {len(won)} shifts ({tally(ours)}; L2O-PA {tally(theirs)})"


def tally(curves: Sequence[CurveRecord]) -> str:
    done = [k for curve in curves if (k := reached(curve)) is not None]
    lost = sum(diverged(curve) for curve in curves)
    parts = [f"converges in {len(done)}" + (f", after {span(done)} iterations" if done else "")]
    return ", ".join(parts + ([f"diverges in {lost}"] if lost else []))


def similar(one: CurveRecord, other: CurveRecord) -> bool:
    counts = [reached(one), reached(other)]
    if None not in counts:
        low, high = sorted(k for k in counts if k is not None)
        return high <= SIMILAR * low
    finals = sorted((one.mean[-1], other.mean[-1]))
    return counts == [None, None] and finals[1] <= 10 * finals[0]


def unless_absent(verdict: Verdict, text: str, absent: Sequence[str]) -> Finding:
    return Finding(Verdict.UNKNOWN, text, ", ".join(absent)) if absent else Finding(verdict, text)


def reproduced(conditions: Sequence[bool]) -> Verdict:
    return Verdict.REPRODUCED if all(conditions) else Verdict.NOT_REPRODUCED


def counts(curves: Sequence[CurveRecord]) -> str:
    labels = HAND_MADE | learned("lasso") | learned("logistic")
    return "iterations: " + ", ".join(f"{labels[c.optimizer]} {how(c)}" for c in sorted(curves, key=rank))


def restart(records: Records, figure: str, scenario: Scenario) -> str:
    try:
        return f"; not in the paper: FISTA with restart {how(records.curve(figure, 'fista-restart', scenario))}"
    except AbsentError:
        return ""


def finals(curves: Sequence[CurveRecord]) -> str:
    return " and ".join(f"{curve.mean[-1]:.2g}" for curve in curves)


def span(values: Sequence[int]) -> str:
    return str(values[0]) if min(values) == max(values) else f"{min(values)} to {max(values)}"


def out_of_distribution() -> list[tuple[str, str, Scenario]]:
    cases = [("fig2", "lasso", Scenario("patches"))]
    cases += [(f"fig{n}", "logistic", Scenario(name)) for n, name in ((14, "ionosphere"), (15, "spambase"))]
    for figure, family, move in (
        ("fig3", "lasso", Move.START),
        ("fig4", "lasso", Move.OBJECTIVE),
        ("fig16", "logistic", Move.START),
        ("fig17", "logistic", Move.OBJECTIVE),
    ):
        cases += [(figure, family, Scenario(family, move, shift)) for shift in SIGNED]
    return cases
