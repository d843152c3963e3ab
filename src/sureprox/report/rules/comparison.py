"""The sentences on figures 1 to 4: GO-Math-L2O against the other methods, in distribution and out of it."""

import math

from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import AbsentError, Records, how, plateau, rank, reached, speedup
from sureprox.report.rules.common import (
    EQUAL,
    LABELS,
    LASSO,
    PAPER_ITERATIONS,
    SIGNED,
    Answer,
    ahead,
    best,
    duels,
    field,
    span,
)


def fastest_in_distribution(records: Records, level: float) -> Answer:
    """GO-Math-L2O beats each of the other methods of figure 1."""
    return best(records, "fig1", LASSO, level)


def lowest_in_distribution(records: Records, level: float) -> Answer:
    """No method of figure 1 ends lower; below 1e-9, gaps count as equal (float32). The same at every level."""
    go, rest = field(records, "fig1", LASSO)
    lowest = min(rest, key=lambda curve: curve.mean[-1])
    text = f"ends at {go.mean[-1]:.1e}; {LABELS[lowest.optimizer]} at {lowest.mean[-1]:.1e}"
    return Answer(go.mean[-1] <= max(lowest.mean[-1], EQUAL), text)


def patches_converge(records: Records, level: float) -> Answer:
    """On the patches GO-Math-L2O needs at most 400 iterations."""
    go, _ = field(records, "fig2", Scenario("patches"))
    k = reached(go, level)
    return Answer(k is not None and k <= 400, how(go, level))


def patches_others(records: Records, level: float) -> Answer:
    """On the patches no other method of the paper gets there in 1,000 iterations."""
    go, rest = field(records, "fig2", Scenario("patches"))
    if go.iterations[-1] < PAPER_ITERATIONS:
        raise AbsentError(f"a run of 1,000 iterations (these are {go.iterations[-1]})")
    done = [curve for curve in rest if reached(curve, level) is not None]
    text = ", ".join(f"{LABELS[c.optimizer]} {how(c, level)}" for c in sorted(done, key=lambda c: rank(c, level)))
    return Answer(not done, text or "none")


def patches_best(records: Records, level: float) -> Answer:
    """On the patches GO-Math-L2O beats each other method of the paper."""
    return best(records, "fig2", Scenario("patches"), level)


def start_moved(records: Records, level: float) -> Answer:
    """GO-Math-L2O beats L2O-PA for each of the eight shifts s."""
    return ahead(duels(records, "fig3", "lasso", Move.START), level)


def start_moved_both(records: Records, level: float) -> Answer:
    """L2O-PA too gets there for each of the eight shifts s."""
    theirs = [pa for _, pa in duels(records, "fig3", "lasso", Move.START)]
    return Answer(all(reached(curve, level) is not None for curve in theirs), f"L2O-PA {span(theirs, level)}")


def objective_moved(records: Records, level: float) -> Answer:
    """With the exact proximal operator GO-Math-L2O beats L2O-PA for each of the eight shifts t."""
    return ahead(duels(records, "fig4", "lasso", Move.OBJECTIVE), level)


def _at_ten(records: Records, optimizer: str, move: Move) -> list[CurveRecord]:
    return [records.curve("fig4", optimizer, Scenario("lasso", move, t)) for t in (10.0, -10.0)]


def twenty_steps(records: Records, level: float) -> Answer:
    """With the exact operator GO-Math-L2O gets there in at most 30 iterations at t = ±10."""
    found = _at_ten(records, "go-math-l2o/lasso", Move.OBJECTIVE)
    counts = [reached(curve, level) for curve in found]
    return Answer(all(k is not None and k <= 30 for k in counts), span(found, level))


def fails_at_ten(records: Records, level: float) -> Answer:
    """With the exact operator L2O-PA does not get there at t = ±10."""
    found = _at_ten(records, "l2o-pa/lasso", Move.OBJECTIVE)
    return Answer(all(reached(c, level) is None for c in found), " and ".join(how(c, level) for c in found))


def _deteriorates(records: Records, move: Move) -> Answer:
    found = _at_ten(records, "go-math-l2o/lasso", move)
    text = " and ".join(f"{curve.mean[-1]:.1e} from iteration {plateau(curve)}" for curve in found)
    return Answer(all(math.isfinite(c.mean[-1]) and c.mean[-1] > 0.1 for c in found), f"ends at {text}")


def deteriorates(records: Records, level: float) -> Answer:
    """With the exact operator GO-Math-L2O ends above 0.1 at t = ±10. The same at every level."""
    return _deteriorates(records, Move.OBJECTIVE)


def deteriorates_with_the_formula(records: Records, level: float) -> Answer:
    """With the operator as printed in the paper it ends above 0.1 at t = ±10. The same at every level."""
    return _deteriorates(records, Move.PAPER_PROX)


def ten_times_faster(records: Records, level: float) -> Answer:
    """In some scenario out of distribution that both reach, L2O-PA needs 10 times the iterations or more; one that it
    does not reach in a run of 1,000 counts with the length of the run, one where it diverges does not count."""
    found = []
    for figure, family, scenario in out_of_distribution():
        go, pa = (records.curve(figure, f"{kind}/{family}", scenario) for kind in ("go-math-l2o", "l2o-pa"))
        ratio = speedup(go, pa, level)
        if ratio is not None and math.isfinite(ratio[0]):
            found.append((*ratio, scenario.name))
    if not found:
        return Answer(False, "no scenario that GO-Math-L2O reaches and where L2O-PA does not diverge")
    factor, bound, name = max(found)
    return Answer(factor >= 10, f"{'at least ' if bound else ''}{factor:.1f} times ({name})")


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
