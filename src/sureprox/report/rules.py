"""One rule for each claim of the paper. Its docstring is printed below the table and says how it decides.

Throughout, "converged" and "iterations" refer to the first recorded iteration with a mean relative gap of at most 1e-6,
and "beats" means fewer such iterations, or, if neither gets there, a lower final gap. FISTA with restart, which the
paper does not compare with, decides no claim; where it matters it is reported.
"""

import math

from sureprox.evaluation.figures import MAPS, SHRINKINGS, setting
from sureprox.evaluation.records import CurveRecord
from sureprox.evaluation.scenarios import Move, Scenario
from sureprox.report.compare import AbsentError, Records, beats, how, plateau, rank, reached, speedup
from sureprox.report.duels import (
    best,
    counts,
    duels,
    finals,
    others,
    out_of_distribution,
    reproduced,
    restart,
    similar,
    span,
    unless_absent,
)
from sureprox.report.verdicts import Finding, Verdict

LASSO = Scenario("lasso")
PAPER_ITERATIONS = 1000
LITTLE = 2.0  # settings that differ by less than this factor "matter little"


def best_in_distribution(records: Records) -> Finding:
    """Reproduced if GO-Math-L2O beats each of the eight other methods of the paper on the LASSO problems."""
    return best(records, "fig1", "lasso", LASSO)


def patches(records: Records) -> Finding:
    """Reproduced if GO-Math-L2O converges within 400 iterations and none of the paper's other methods within 1,000."""
    scenario = Scenario("patches")
    go = records.curve("fig2", "go-math-l2o/lasso", scenario)
    rest, absent = records.curves("fig2", others("lasso"), scenario)
    text = counts([go, *rest]) + restart(records, "fig2", scenario)
    k, length = reached(go), go.iterations[-1]
    late = length >= 400 if k is None else k > 400
    if late or any(reached(curve) is not None for curve in rest):
        return Finding(Verdict.NOT_REPRODUCED, text)
    if length < PAPER_ITERATIONS:
        return Finding(Verdict.UNKNOWN, text, f"iterations ({length} were run, the claim is about 1,000)")
    return unless_absent(Verdict.REPRODUCED, text, absent)


def start_moved(records: Records) -> Finding:
    """Reproduced if GO-Math-L2O beats L2O-PA for each of the eight shifts s of the start."""
    won, text = duels(records, "fig3", "lasso", Move.START)
    return Finding(reproduced(won), text)


def objective_moved(records: Records) -> Finding:
    """Reproduced if, with the exact proximal operator, GO-Math-L2O beats L2O-PA for each of the eight shifts t, and at
    t = ±10 it has settled (stays within 10 % of its final gap) by iteration 30 while L2O-PA does not converge. If not,
    an artefact if the picture of the paper appears with its own formula alone: at t = ±10 GO-Math-L2O and FISTA both
    settle at a gap above 0.1, and with the exact operator GO-Math-L2O ends more than 1,000 times lower."""
    won, text = duels(records, "fig4", "lasso", Move.OBJECTIVE)
    _, text_paper = duels(records, "fig4", "lasso", Move.PAPER_PROX)
    near = [(move, t) for move in (Move.OBJECTIVE, Move.PAPER_PROX) for t in (10.0, -10.0)]
    go = {(m, t): records.curve("fig4", "go-math-l2o/lasso", Scenario("lasso", m, t)) for m, t in near}
    pa = [records.curve("fig4", "l2o-pa/lasso", Scenario("lasso", Move.OBJECTIVE, t)) for t in (10.0, -10.0)]
    fista = [records.curve("fig4", "fista", Scenario("lasso", Move.PAPER_PROX, t)) for t in (10.0, -10.0)]
    exact = [curve for (move, _), curve in go.items() if move is Move.OBJECTIVE]
    paper = [curve for (move, _), curve in go.items() if move is Move.PAPER_PROX]
    text = (
        f"exact prox: {text}; at t = ±10 GO-Math-L2O ends at {finals(exact)}. Paper's formula: {text_paper}; at "
        f"t = ±10 GO-Math-L2O stalls at {finals(paper)} from iteration {span([plateau(c) for c in paper])} and "
        f"FISTA at {finals(fista)}"
    )
    settled = all(plateau(curve) <= 30 for curve in exact) and all(reached(curve) is None for curve in pa)
    if all(won) and settled:
        return Finding(Verdict.REPRODUCED, text)
    stalls = all(math.isfinite(c.mean[-1]) and c.mean[-1] > 0.1 for c in (*paper, *fista))
    if stalls and all(e.mean[-1] < 1e-3 * p.mean[-1] for e, p in zip(exact, paper, strict=True)):
        return Finding(Verdict.ARTEFACT, text)
    return Finding(Verdict.NOT_REPRODUCED, text)


def gradient_maps(records: Records) -> Finding:
    """Reproduced if LHNoR beats both STD and LH on the LASSO problems."""
    curves = [records.curve("fig5", name, LASSO) for name in MAPS]
    text = ", ".join(f"{label} {how(curve)}" for label, curve in zip(MAPS.values(), curves, strict=True))
    lhnor = records.curve("fig5", "go-math-l2o/lasso", LASSO)
    return Finding(reproduced([beats(lhnor, curve) for curve in curves if curve is not lhnor]), text)


def training_settings(records: Records) -> Finding:
    """Reproduced if all 24 settings converge and the slowest needs at most twice the iterations of the fastest."""
    found: dict[int, CurveRecord] = {}
    absent = []
    for number in range(1, 25):
        try:
            found[number] = records.curve(f"fig{6 + (number - 1) // 8}", setting(number), LASSO)
        except AbsentError:
            absent.append(f"setting {number}")
    if not found:
        raise AbsentError("all settings")
    slow, fast = max(found, key=lambda n: rank(found[n])), min(found, key=lambda n: rank(found[n]))
    text = f"fastest: setting {fast}, {how(found[fast])}; slowest: setting {slow}, {how(found[slow])}"
    if not rank(found[slow])[0] <= LITTLE * rank(found[fast])[0] < math.inf:
        return Finding(Verdict.NOT_REPRODUCED, text)
    return unless_absent(Verdict.REPRODUCED, text, absent)


def shrinking(records: Records) -> Finding:
    """Reproduced if Q and Q/√L both converge, neither with more than twice the iterations of the other, and Q/L and
    Q/L² need more than twice the iterations of Q or do not converge."""
    curves = {label: records.curve("fig10", name, LASSO) for name, label in SHRINKINGS.items()}
    text = ", ".join(f"{label} {how(curve)}" for label, curve in curves.items())
    plain, root, once, twice = (rank(curve)[0] for curve in curves.values())
    fine = max(plain, root) <= LITTLE * min(plain, root) < math.inf
    return Finding(reproduced([fine, once > LITTLE * plain, twice > LITTLE * plain]), text)


def logistic(records: Records) -> Finding:
    """Three parts. In distribution GO-Math-L2O and L2O-PA both converge and differ by a factor of at most 1.5 in
    iterations, or both end within a factor of 10; on Ionosphere and on Spambase GO-Math-L2O beats each other method of
    the paper; it beats L2O-PA for each of the eight shifts t with the exact proximal operator. Reproduced if all three
    hold; an artefact if only the third fails, and holds with the paper's formula."""
    scenario = Scenario("logistic")
    go, pa = (records.curve("fig13", f"{kind}/logistic", scenario) for kind in ("go-math-l2o", "l2o-pa"))
    real = [
        best(records, figure, "logistic", Scenario(source))
        for figure, source in (("fig14", "ionosphere"), ("fig15", "spambase"))
    ]
    won, text = duels(records, "fig17", "logistic", Move.OBJECTIVE)
    won_paper, text_paper = duels(records, "fig17", "logistic", Move.PAPER_PROX)
    words = (
        f"in distribution GO-Math-L2O {how(go)}, L2O-PA {how(pa)}; Ionosphere: {real[0].measured}; "
        f"Spambase: {real[1].measured}; t: {text} (paper's formula: {text_paper})"
    )
    verdicts = [finding.verdict for finding in real]
    holds = similar(go, pa) and Verdict.NOT_REPRODUCED not in verdicts
    if holds and Verdict.UNKNOWN in verdicts:
        return Finding(Verdict.UNKNOWN, words, ", ".join(finding.missing for finding in real if finding.missing))
    if holds and not all(won) and all(won_paper):
        return Finding(Verdict.ARTEFACT, words)
    return Finding(reproduced([holds, *won]), words)


def ten_times_faster(records: Records) -> Finding:
    """Reproduced if, in some scenario out of distribution (real data, s, t with the exact proximal operator; LASSO or
    logistic), L2O-PA needs at least 10 times the iterations of GO-Math-L2O. Where L2O-PA diverges the ratio is
    infinite; where it has not converged by the end of the run, the length of the run stands for its iterations, which
    decides against the claim only in runs of 1,000 iterations."""
    found, absent, length = [], [], 0
    for figure, family, scenario in out_of_distribution():
        curves, lost = records.curves(figure, (f"go-math-l2o/{family}", f"l2o-pa/{family}"), scenario)
        absent += lost
        length = max([length, *(curve.iterations[-1] for curve in curves)])
        if len(curves) == 2 and (ratio := speedup(curves[0], curves[1])) is not None:
            found.append((*ratio, scenario.name))
    finite = [entry for entry in found if math.isfinite(entry[0])]
    parts = []
    if finite:
        factor, bound, name = max(finite)
        parts.append(f"largest finite ratio {'at least ' if bound else ''}{factor:.1f} ({name})")
    infinite = [name for factor, _, name in found if factor == math.inf]
    if infinite:
        parts.append(f"L2O-PA diverges and GO-Math-L2O converges in {len(infinite)} scenarios (first: {infinite[0]})")
    text = "; ".join([*parts, f"GO-Math-L2O converges in {len(found)} scenarios"])
    if any(factor >= 10 for factor, _, _ in found):
        return Finding(Verdict.REPRODUCED, text)
    if not absent and length < PAPER_ITERATIONS and any(bound for _, bound, _ in found):
        return Finding(Verdict.UNKNOWN, text, f"iterations ({length} were run)")
    return unless_absent(Verdict.NOT_REPRODUCED, text, list(dict.fromkeys(absent)))
