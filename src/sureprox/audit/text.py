"""The audit in words: tables, what the numbers mean, and the same as data."""

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from sureprox.audit.models import FEATURES, FLOOR, HISTORY, POINTS, Growth, ModelAudit
from sureprox.audit.report import AuditReport
from sureprox.audit.result import SIDES, TOLERANCE, Check, violated
from sureprox.audit.statements import STATEMENTS, Statement
from sureprox.base.machine import circumstances


def statement_row(report: AuditReport, statement: Statement) -> tuple[str, ...]:
    """Statement, verdict as printed, worst slack as printed, worst slack as corrected, inequalities tried."""
    tally = report.tallies[statement.name]
    return (
        statement.name,
        statement.verdict.value,
        slack_text(tally.worst_of("printed")),
        slack_text(tally.worst_of("corrected")),
        f"{tally.counts[0]:,}",
    )


def slack_text(slack: float) -> str:
    """A slack for a table; within rounding it is zero."""
    if math.isnan(slack):
        return "-"
    if abs(slack) <= TOLERANCE:
        return "0"
    return f"{slack:.1e}" if abs(slack) < 1e-2 else f"{slack:.2f}"


def model_row(found: ModelAudit, name: str) -> tuple[str, ...]:
    """Statement, assumptions met?, worst slack of the assumption-free form, what it proves."""
    check = found.checks[name]
    return name, assumption_text(found, name), slack_text(check.worst("free")), proof_text(found, name)


def assumption_text(found: ModelAudit, name: str) -> str:
    """How far the run is from what the printed statement assumes."""
    check = found.checks[name]
    if name in ("Lemma 3", "Lemma 6"):
        met = int((~check.slack("printed").isnan())[found.unsolved].sum())
        return f"in {met:,} of {int(found.unsolved.sum()):,} steps"
    residuals = check.worst_hypotheses()
    wanted = {key: value for key, value in residuals.items() if key in ("L N1(z) = 1", "N2(z) = 0", "N3(z) = 0")}
    broken = [f"{key} off by {value:.2g}" for key, value in wanted.items() if value > TOLERANCE]
    if broken:
        return "no: " + ", ".join(broken)
    if "the step is (proximal) gradient descent" in residuals and math.isnan(check.worst("printed")):
        return "no: not proximal gradient descent"
    return "yes"


def proof_text(found: ModelAudit, name: str) -> str:
    """What the assumption-free bound says about this run."""
    check = found.checks[name]
    if check.lhs.ndim == 2 and not name.startswith("Lemma 2") and not name.startswith("Lemma 5"):
        proved, fell, total = counted(found, check)
        return f"proves a decrease in {proved:,} of {total:,} steps; F fell in {fell:,}"
    if check.lhs.ndim == 1:
        start = found.gap[0]
        useful = int((check.free.value < start).sum())
        solved = bool((check.lhs < FLOOR * start).any())
        ratio = (check.free.value / check.lhs.clamp(min=1e-300)).median()
        beside = "the truth is 0 up to rounding" if solved else f"{ratio:.1e} times the truth"
        if not useful:
            return f"vacuous, above the gap at the start; {beside}"
        return f"below the gap at the start in {useful} of {len(start)} runs; {beside}"
    return "holds between every two points"


def counted(found: ModelAudit, check: Check) -> tuple[int, int, int]:
    """Steps in which the bound proves a decrease, in which F fell, and all; only while the gap is not rounding."""
    there = found.unsolved
    return int((check.free.value < 0)[there].sum()), int((check.lhs < 0)[there].sum()), int(there.sum())


def gap_text(found: ModelAudit) -> str:
    best = found.checks["Theorem 9"].lhs
    return "0 up to rounding" if bool((best < FLOOR * found.gap[0]).all()) else f"{float(best.median()):.1e}"


def words(found: ModelAudit) -> Iterator[str]:
    """Plain sentences about one model in one scenario."""
    step, norms = found.step, found.step_norms
    if found.diverged:
        yield f"The run leaves every bounded set; it was audited for the {found.steps} steps before that."
    residuals = step.worst_hypotheses()
    yield (
        f"N1(z) is not 1/L (largest L N1 - 1: {residuals['L N1(z) = 1']:.2g}) and the history is not switched off "
        f"(largest N3: {residuals['N3(z) = 0']:.2g}): the paper's assumption does not hold for this model, so its "
        "printed bounds say nothing about it. The assumption-free forms do."
    )
    worst = min(check.worst("free") for check in found.checks.values())
    held = "all hold" if not violated(worst) else "FAIL"
    yield f"The assumption-free inequalities {held}: the smallest slack is {worst:.1e} of its scale."
    proved, fell, total = counted(found, step)
    solved = step.lhs.numel() - total
    left_out = f" ({solved} more, after the gap had reached rounding, are not counted)" if solved else ""
    yield (
        f"F fell in {fell} of {total} steps{left_out}. The one-step bound proves it in {proved} of them"
        + ("; elsewhere it is positive, that is vacuous." if proved < total else ".")
    )
    if proved == 0 or proved < fell / 10:
        charges = {
            label: float((value / found.gap[:-1])[found.unsolved].median())
            for label, value in list(step.terms.items())[1:]
        }
        label = max(charges, key=lambda name: charges[name])
        yield (
            "Why: it charges (L/2)|d - G/L|² for leaving the step of length 1/L, and this model leaves it on purpose. "
            f"The largest part of the charge is {label}, {charges[label]:.2g} times the gap in the median step. The "
            "bound cannot see whether leaving helps."
        )
    if float(found.shift.max()) == 0:
        yield "Both runs are the same here, so s' = 0 and everything in the bound is the residual of the assumption."
    else:
        small = counted(found, norms)[0]
        yield f"In norms, with the sharpest possible constants (secants), it proves {small} of {total} steps."
    for at in [*found.constants[:1], *found.constants[1:][-1:]]:
        yield (
            f"At k = {at.k}, |s'| = {at.shift:.3g}. C1, C3 from the secant: {at.secant[0]:.1e}, {at.secant[1]:.1e}; "
            f"largest of 32 samples of the segment (a lower estimate of the supremum): {at.sampled[0]:.1e}, "
            f"{at.sampled[1]:.1e}; product of the norms of the weights (true everywhere): {at.product[0]:.1e}, "
            f"{at.product[1]:.1e}. The one-step bounds they give, beside a gap of "
            f"{float(found.gap[at.k - 1].max()):.1e} before the step: "
            + ", ".join(f"{way} {max(values):.1e}" for way, values in at.bounds.items())
            + ". A bound above zero proves nothing about this step."
        )
    rate = found.checks["Theorem 9"]
    yield (
        f"After {found.steps} steps the best gap is {gap_text(found)} (median); Theorem 9 allows "
        f"{float(rate.free.value.median()):.1e}, from a gap of {float(found.gap[0].median()):.1e} at the start"
        + ("." if bool((rate.free.value < found.gap[0]).all()) else ": vacuous.")
    )


def growth_words(found: Growth) -> str:
    """How much further from distribution the network gets when the start does."""
    near, far = 1, len(found.s) - 1  # s = 1 and the largest s

    def ratio(label: str) -> float:
        values = found.terms[label]
        return values[far] / max(values[near], 1e-300)

    return (
        f"{found.model}: from s = {found.s[near]:g} to s = {found.s[far]:g} the distance of the points |s| grows "
        f"{ratio(POINTS):.2g} times in the first steps, the distance |s'| of what the network reads "
        f"{ratio(FEATURES):.2g} times, and the history term of the bound, over the gap, {ratio(HISTORY):.2g} times."
    )


def markdown(report: AuditReport, figures: Sequence[str] = ()) -> str:
    """The whole report."""
    lines = [
        "# Theory audit",
        "",
        "A slack is (right side - left side) / scale, the scale being the sum of the magnitudes of all terms: negative",
        f"means violated, and down to -{TOLERANCE:.0e} is rounding, shown as 0. All in float64.",
        "",
        "## The statements on random runs",
        "",
        "Networks that satisfy the paper's assumptions exactly (affine, and tanh networks that are switched off in",
        "distribution), quadratic and logistic f', l1 with shifts, seed " + f"{report.seed}. A statement that is false",
        "as printed has a negative slack in the third column; what is true instead is in [the errata](errata.md).",
        "",
        *table(
            ("statement", "as printed", "worst slack, printed", "worst slack, corrected", "inequalities"),
            [statement_row(report, statement) for statement in STATEMENTS],
        ),
        "",
    ]
    for found in report.models:
        lines += [f"## {found.model}, {found.scenario.name}", ""]
        lines += [sentence + "\n" for sentence in words(found)]
        lines += table(
            ("statement", "assumptions met", "worst slack, assumption-free", "what it says here"),
            [model_row(found, name) for name in found.checks],
        )
        lines += [""]
    lines += [
        "Not evaluated on these models: Lemma 1, Corollaries 1-3, Theorems 1-2 (they need r = 0); Theorems 7-8 and",
        "Corollaries 8-9 (their history is N4 times one difference; these models average). Their assumption-free form",
        "is that of Theorem 6 and Corollary 5.",
        "",
    ]
    lines += ["## Growth with s", "", *(growth_words(found) + "\n" for found in report.growths)]
    lines += [f"![{name}]({name})\n" for name in figures]
    lines += [f"- {note}" for note in report.notes]
    return "\n".join(lines).rstrip() + "\n"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A Markdown table."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), line(["---"] * len(head)), *(line(row) for row in rows)]


def data(report: AuditReport) -> str:
    """The numbers of the report as JSON, for the HTML report."""
    content: dict[str, Any] = {
        **circumstances(torch.device("cpu")),
        "seed": report.seed,
        "instances": report.instances,
        "steps": report.steps,
        "notes": list(report.notes),
        "statements": [
            {
                "name": s.name,
                "line": s.line,
                "claim": s.claim,
                "verdict": s.verdict.value,
                "remark": s.remark,
                "runs": report.tallies[s.name].runs,
                "inequalities": dict(zip(SIDES, report.tallies[s.name].counts, strict=True)),
                "worst_slack": {side: _number(report.tallies[s.name].worst_of(side)) for side in SIDES},
            }
            for s in STATEMENTS
        ],
        "models": [
            {
                "model": m.model,
                "scenario": m.scenario.name,
                "steps": m.steps,
                "diverged": m.diverged,
                "words": list(words(m)),
                "worst_slack": {name: _number(check.worst("free")) for name, check in m.checks.items()},
                "gain": m.step.lhs.T.tolist(),
                "bound": m.step.free.value.T.tolist(),
                "bound_in_norms": m.step_norms.free.value.T.tolist(),
                "gap": m.gap.T.tolist(),
            }
            for m in report.models
        ],
        "counterexamples": [asdict(example) for example in report.counterexamples.values()],
        "growth": [{"model": g.model, "s": list(g.s), "terms": dict(g.terms)} for g in report.growths],
    }
    return json.dumps(content, indent=1) + "\n"


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None
