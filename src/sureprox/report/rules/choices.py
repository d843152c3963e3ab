"""The sentences on figures 5 to 12: gradient maps, training settings, Q-shrinking."""

import math
from collections.abc import Sequence
from itertools import pairwise

from sureprox.evaluation.figures import MAPS, SHIFTS, SHRINKINGS, setting
from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import Records, beats, how, rank, reached, similar
from sureprox.report.rules.common import LASSO, LITTLE, SIGNED, Answer, span


def gradient_maps(records: Records, level: float) -> Answer:
    """LHNoR beats STD and LH in figure 5."""
    curves = {label: records.curve("fig5", name, LASSO) for name, label in MAPS.items()}
    text = ", ".join(f"{label} {how(curve, level)}" for label, curve in curves.items())
    ours = curves["LHNoR"]
    return Answer(all(beats(ours, curve, level) for curve in curves.values() if curve is not ours), text)


def _settings(records: Records, numbers: Sequence[int]) -> dict[int, CurveRecord]:
    return {n: records.curve(f"fig{6 + (n - 1) // 8}", setting(n), LASSO) for n in numbers}


def settings_matter_little(records: Records, level: float) -> Answer:
    """All 24 settings get there, the slowest with at most twice the iterations of the fastest."""
    found = _settings(records, range(1, 25))
    order = sorted(found, key=lambda n: rank(found[n], level))
    fast, slow = order[0], order[-1]
    text = f"fastest {fast}: {how(found[fast], level)}; slowest {slow}: {how(found[slow], level)}"
    return Answer(rank(found[slow], level)[0] <= LITTLE * rank(found[fast], level)[0] < math.inf, text)


def _best_settings(records: Records, level: float, first: int, expected: set[int]) -> Answer:
    found = _settings(records, range(first, first + 8))
    order = sorted(found, key=lambda n: rank(found[n], level))
    text = ", ".join(f"{n}: {how(found[n], level)}" for n in order[:3])
    return Answer(set(order[: len(expected)]) == expected, text)


def best_of_20(records: Records, level: float) -> Answer:
    """The two fastest of settings 1 to 8 are 7 and 8."""
    return _best_settings(records, level, 1, {7, 8})


def best_of_50(records: Records, level: float) -> Answer:
    """The two fastest of settings 9 to 16 are 14 and 16."""
    return _best_settings(records, level, 9, {14, 16})


def best_of_100(records: Records, level: float) -> Answer:
    """The fastest of settings 17 to 24 is 24."""
    return _best_settings(records, level, 17, {24})


def variants_fail(records: Records, level: float) -> Answer:
    """L2O-PA trained with back-propagation every 50 and every 100 iterations, and with a clipped gradient, does not get
    there from any start moved by s. (Beside the paper's curves in figure 3, by `reproduce --also`.)"""
    scenarios = [Scenario("lasso", Move.START, shift) for shift in SIGNED]
    found = {
        label: [records.curve("fig3", f"l2o-pa/lasso-{name}", scenario) for scenario in scenarios]
        for name, label in (("bp-50", "50/100"), ("bp-100", "100/100"), ("clipped", "clipped"))
    }
    text = ", ".join(f"{label} {span(curves, level)}" for label, curves in found.items())
    return Answer(all(reached(curve, level) is None for curves in found.values() for curve in curves), text)


def _shrunk(records: Records, figure: str, scenario: Scenario) -> dict[str, CurveRecord]:
    return {label: records.curve(figure, name, scenario) for name, label in SHRINKINGS.items()}


def shrinking_poor(records: Records, level: float) -> Answer:
    """Q/L and Q/L² need more than twice the iterations of Q, or do not get there."""
    found = _shrunk(records, "fig10", LASSO)
    text = ", ".join(f"{label} {how(curve, level)}" for label, curve in found.items() if label != "Q/√L")
    plain = rank(found["Q"], level)[0]
    return Answer(all(rank(found[label], level)[0] > LITTLE * plain for label in ("Q/L", "Q/L²")), text)


def shrinking_similar(records: Records, level: float) -> Answer:
    """The iterations of Q and Q/√L differ by a factor of at most 1.5."""
    found = _shrunk(records, "fig10", LASSO)
    text = f"Q {how(found['Q'], level)}, Q/√L {how(found['Q/√L'], level)}"
    return Answer(similar(found["Q"], found["Q/√L"], level), text)


def _roots(records: Records, figure: str, move: Move) -> list[tuple[CurveRecord, CurveRecord]]:
    """Q and Q/√L for each shift."""
    found = [_shrunk(records, figure, Scenario("lasso", move, shift)) for shift in SIGNED]
    return [(each["Q"], each["Q/√L"]) for each in found]


def shrinking_start(records: Records, level: float) -> Answer:
    """Q beats Q/√L for each of the eight shifts s."""
    pairs = _roots(records, "fig11", Move.START)
    won = [beats(q, root, level) for q, root in pairs]
    lost = [f"{shift:+g}" for shift, better in zip(SIGNED, won, strict=True) if not better]
    text = f"Q ahead in {sum(won)} of 8" + (f", not at s = {', '.join(lost)}" if lost else "")
    return Answer(all(won), text)


def shrinking_margin(records: Records, level: float) -> Answer:
    """The iterations of Q/√L over those of Q, averaged over both signs, grow with |s|."""
    ratios = [rank(root, level)[0] / rank(q, level)[0] for q, root in _roots(records, "fig11", Move.START)]
    means = [(ratios[2 * i] + ratios[2 * i + 1]) / 2 for i in range(len(SHIFTS))]
    text = ", ".join(f"{mean:.2f} at {size:g}" for mean, size in zip(means, SHIFTS, strict=True))
    return Answer(all(a < b for a, b in pairwise(means)), text)


def shrinking_objective(records: Records, level: float) -> Answer:
    """With the exact operator the iterations of Q and Q/√L differ by a factor of at most 1.5 for each shift t."""
    pairs = _roots(records, "fig12", Move.OBJECTIVE)
    alike = [similar(q, root, level) for q, root in pairs]
    q, root = zip(*pairs, strict=True)
    return Answer(all(alike), f"similar in {sum(alike)} of 8: Q {span(q, level)}, Q/√L {span(root, level)}")
