"""The sentences on figures 13 to 17: logistic regression."""

import math
from collections.abc import Sequence

from sureprox.evaluation.figures import SHIFTS
from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import Records, how, rank, reached, similar, speedup
from sureprox.report.rules.common import LITTLE, SIGNED, Answer, best, duels, span

LOGISTIC = Scenario("logistic")


def logistic_similar(records: Records, level: float) -> Answer:
    """In distribution the iterations of GO-Math-L2O and L2O-PA differ by a factor of at most 1.5."""
    go, pa = (records.curve("fig13", f"{kind}/logistic", LOGISTIC) for kind in ("go-math-l2o", "l2o-pa"))
    return Answer(similar(go, pa, level), f"GO-Math-L2O {how(go, level)}, L2O-PA {how(pa, level)}")


def logistic_others(records: Records, level: float) -> Answer:
    """In distribution GO-Math-L2O beats every other method of the paper but L2O-PA; Ada-LISTA is not in the records."""
    return best(records, "fig13", LOGISTIC, level, without="l2o-pa")


def ionosphere(records: Records, level: float) -> Answer:
    """GO-Math-L2O beats each other method of the paper on Ionosphere."""
    return best(records, "fig14", Scenario("ionosphere"), level)


def spambase(records: Records, level: float) -> Answer:
    """GO-Math-L2O beats each other method of the paper on Spambase."""
    return best(records, "fig15", Scenario("spambase"), level)


def logistic_start(records: Records, level: float) -> Answer:
    """For each shift s the iterations of GO-Math-L2O and L2O-PA differ by a factor of at most 1.5."""
    pairs = duels(records, "fig16", "logistic", Move.START)
    alike = [similar(go, pa, level) for go, pa in pairs]
    ratios = [rank(go, level)[0] / rank(pa, level)[0] for go, pa in pairs if reached(pa, level)]
    known = [ratio for ratio in ratios if math.isfinite(ratio)]
    more = f": GO-Math-L2O takes {min(known):.2g} to {max(known):.2g} times as many" if known else ""
    return Answer(all(alike), f"similar in {sum(alike)} of 8{more}")


def _moved(records: Records, sizes: Sequence[float]) -> list[tuple[CurveRecord, CurveRecord]]:
    pairs = zip(SIGNED, duels(records, "fig17", "logistic", Move.OBJECTIVE), strict=True)
    return [pair for shift, pair in pairs if abs(shift) in sizes]


def logistic_near(records: Records, level: float) -> Answer:
    """At t = ±10 and ±20 (exact operator) GO-Math-L2O needs at most half of L2O-PA's iterations, or is alone there."""
    pairs = _moved(records, (10.0, 20.0))
    ratios = [speedup(go, pa, level) for go, pa in pairs]
    ours, theirs = zip(*pairs, strict=True)
    text = f"GO-Math-L2O {span(ours, level)}, L2O-PA {span(theirs, level)}"
    return Answer(all(ratio is not None and ratio[0] >= LITTLE for ratio in ratios), text)


def logistic_far(records: Records, level: float) -> Answer:
    """At t = ±50 and ±100 (exact operator) GO-Math-L2O ends lower than L2O-PA. The same at every level."""
    pairs = _moved(records, (50.0, 100.0))
    text = f"GO-Math-L2O ends at up to {max(go.mean[-1] for go, _ in pairs):.1e}, "
    text += f"L2O-PA at {min(pa.mean[-1] for _, pa in pairs):.1e} or more"
    return Answer(all(go.mean[-1] < pa.mean[-1] for go, pa in pairs), text)


def logistic_fails(records: Records, level: float) -> Answer:
    """L2O-PA does not get there for any shift t (exact operator)."""
    theirs = [pa for _, pa in _moved(records, SHIFTS)]
    return Answer(all(reached(pa, level) is None for pa in theirs), f"L2O-PA {span(theirs, level)}")
