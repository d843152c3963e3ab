"""How curves are compared: the measures that every claim is judged by."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from sureprox.evaluation.records import CurveRecord, FigureRecord
from sureprox.evaluation.scenarios import Scenario

LEVELS = (1e-4, 1e-6, 1e-7)  # mean relative gaps at which a run counts as converged; 1e-7 is where the paper's end
TARGET = 1e-6  # the one that is used where there is room for one


SIMILAR = 1.5  # methods whose iterations differ by less than this factor are "similar"


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


def level_text(level: float) -> str:
    """1e-6, not 1e-06."""
    mantissa, _, exponent = f"{level:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def rank(curve: CurveRecord, level: float = TARGET) -> tuple[float, float]:
    """Smaller is better: iterations to `level`, then the gap there, or at the end for curves that never get there."""
    k = reached(curve, level)
    return (math.inf, curve.mean[-1]) if k is None else (float(k), curve.mean[curve.iterations.index(k)])


def beats(ours: CurveRecord, theirs: CurveRecord, level: float = TARGET) -> bool:
    """Reaches `level` in fewer iterations, or lower at the same recorded one; if neither reaches it, ends lower."""
    return rank(ours, level) < rank(theirs, level)


def similar(one: CurveRecord, other: CurveRecord, level: float = TARGET) -> bool:
    """Both reach `level`, with iterations within a factor of `SIMILAR`; or neither does, and both end within 10."""
    counts = [reached(one, level), reached(other, level)]
    if None not in counts:
        low, high = sorted(k for k in counts if k is not None)
        return high <= SIMILAR * low
    finals = sorted((one.mean[-1], other.mean[-1]))
    return counts == [None, None] and finals[1] <= 10 * finals[0]


def speedup(ours: CurveRecord, theirs: CurveRecord, level: float = TARGET) -> tuple[float, bool] | None:
    """How many times fewer iterations ours needs to `level`, and whether that is only a lower bound.

    Infinite where theirs diverges. Where theirs merely has not got there by the end of the run, its length counts.
    None where ours does not get there.
    """
    k, other = reached(ours, level), reached(theirs, level)
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


def how(curve: CurveRecord, level: float = TARGET) -> str:
    """Where a curve gets, in words: "34", "not in 400 (ends at 2.1e-03)" or "diverges"."""
    k = reached(curve, level)
    if k is not None:
        return str(k)
    if diverged(curve):
        return "diverges"
    return f"not in {curve.iterations[-1]} (ends at {curve.mean[-1]:.1e})"
