"""How curves are compared: the measures that every claim is judged by."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sureprox.evaluation.records import CurveRecord, FigureRecord
from sureprox.evaluation.scenarios import Scenario

TARGET = 1e-6  # a mean relative gap at which a run counts as converged


class AbsentError(Exception):
    """A curve that a claim needs and that is not in the records."""


@dataclass(frozen=True)
class Records:
    """The figures on record, as the rules of the claims look at them."""

    figures: Mapping[str, FigureRecord]

    def curve(self, figure: str, optimizer: str, scenario: Scenario) -> CurveRecord:
        record = self.figures.get(figure)
        if record is None:
            raise AbsentError(figure)
        found = record.find(optimizer, scenario.name)
        if found is None:
            raise AbsentError(f"{optimizer} on {scenario.name}")
        return found

    def curves(self, figure: str, optimizers: Iterable[str], scenario: Scenario) -> tuple[list[CurveRecord], list[str]]:
        """Those of the curves that are there, and the names of the others."""
        found, absent = [], []
        for optimizer in optimizers:
            try:
                found.append(self.curve(figure, optimizer, scenario))
            except AbsentError as error:
                absent.append(str(error))
        return found, absent


def reached(curve: CurveRecord, level: float = TARGET) -> int | None:
    """The first recorded iteration whose mean relative gap is at most `level`."""
    pairs = zip(curve.iterations, curve.mean, strict=True)
    return next((k for k, value in pairs if value <= level), None)


def diverged(curve: CurveRecord) -> bool:
    """It ends more than ten times above where it started, or is not finite."""
    return not curve.mean[-1] <= 10 * curve.mean[0]


def rank(curve: CurveRecord) -> tuple[float, float]:
    """Smaller is better: iterations to `TARGET`, then the gap there, or at the end for curves that never get there."""
    k = reached(curve)
    return (math.inf, curve.mean[-1]) if k is None else (float(k), curve.mean[curve.iterations.index(k)])


def beats(ours: CurveRecord, theirs: CurveRecord) -> bool:
    """Reaches `TARGET` in fewer iterations, or lower at the same recorded one; if neither reaches it, ends lower."""
    return rank(ours) < rank(theirs)


def speedup(ours: CurveRecord, theirs: CurveRecord) -> tuple[float, bool] | None:
    """How many times fewer iterations ours needs to `TARGET`, and whether that is only a lower bound.

    Infinite where theirs diverges. Where theirs merely has not got there by the end of the run, its length counts.
    None where ours does not get there.
    """
    k, other = reached(ours), reached(theirs)
    if k is None:
        return None
    if other is not None:
        return other / max(k, 1), False
    if diverged(theirs):
        return math.inf, False
    return theirs.iterations[-1] / max(k, 1), True


def plateau(curve: CurveRecord, slack: float = 0.1) -> int:
    """The first recorded iteration from which the mean gap stays within `slack` of where it ends."""
    final = curve.mean[-1]
    settled = curve.iterations[-1]
    for k, value in zip(reversed(curve.iterations), reversed(curve.mean), strict=True):
        if not abs(value - final) <= slack * abs(final):
            break
        settled = k
    return settled


def how(curve: CurveRecord) -> str:
    """Where a curve gets, in words: "34", "not in 400 (ends at 2.1e-03)" or "diverges"."""
    k = reached(curve)
    if k is not None:
        return str(k)
    if diverged(curve):
        return "diverges"
    return f"not in {curve.iterations[-1]} (ends at {curve.mean[-1]:.1e})"
