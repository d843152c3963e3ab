"""The paper's claims, judged from the figures of each directory."""

from collections.abc import Iterator, Sequence

from sureprox.evaluation.records import reading
from sureprox.report.claims import CLAIMS, Judgement, judge
from sureprox.report.compare import TARGET
from sureprox.report.page.charts import level_text
from sureprox.report.page.curves_section import figure_link, machines
from sureprox.report.page.gather import Found, Reproduction
from sureprox.report.page.markup import Html, details, element, join, nothing, source, table
from sureprox.report.page.section import Section
from sureprox.report.verdicts import Verdict

SIGNS = {Verdict.REPRODUCED: "✓", Verdict.NOT_REPRODUCED: "✗", Verdict.ARTEFACT: "≠", Verdict.UNKNOWN: "?"}
KINDS = {Verdict.REPRODUCED: "good", Verdict.NOT_REPRODUCED: "bad", Verdict.ARTEFACT: "odd", Verdict.UNKNOWN: "unknown"}
HEADS = ("", "the paper says", "measured", "verdict", "figures")


def claims_section(found: Found) -> Section:
    if not found.reproductions:
        text = f"No records of figures below {found.places}, so no claim can be judged."
        return Section("claims", "Claims of the paper", nothing(text), "no records")
    parts, glances = [], []
    for run in found.reproductions:
        with reading(run.directory / "fig*.json", "a figure"):
            judgements = judge(run.figures)
            parts.append(_judged(run, judgements))
        good = sum(entry.finding.verdict is Verdict.REPRODUCED for entry in judgements)
        unknown = sum(entry.finding.verdict is Verdict.UNKNOWN for entry in judgements)
        glances.append(f"{good} of {len(CLAIMS)} reproduced" + (f", {unknown} cannot be judged" if unknown else ""))
    said = element(
        "p",
        f"Each claim is judged from the records by a fixed rule. A run counts as converged at a mean relative gap of "
        f"{level_text(TARGET)}; numbers of iterations are to that level.",
    )
    rules = [element("li", f"({claim.letter}) {claim.criterion}") for claim in CLAIMS]
    body = join([said, *parts, details("How each verdict is reached", element("ul", *rules))])
    return Section("claims", "Claims of the paper", body, "; ".join(glances))


def _figures(run: Reproduction, names: Sequence[str]) -> Iterator[Html]:
    """Links to those that are on the page."""
    for place, name in enumerate(names):
        text = name.removeprefix("fig")
        yield join([", " if place else None, figure_link(run, name) if name in run.figures else text])


def _judged(run: Reproduction, judgements: list[Judgement]) -> Html:
    rows = []
    for entry in judgements:
        verdict = entry.finding.verdict
        badge = element("span", f"{SIGNS[verdict]} {verdict.value}", class_=f"verdict {KINDS[verdict]}")
        missing = element("small", f" missing: {entry.finding.missing}") if entry.finding.missing else None
        figures = join(_figures(run, entry.claim.figures))
        letter, judged = f"({entry.claim.letter})", join([badge, missing])
        rows.append([letter, entry.claim.says, entry.finding.measured, judged, figures])
    modes = " and ".join(sorted({record.mode for record in run.figures.values()}))
    curves = [curve for record in run.figures.values() for curve in record.curves]
    return element(
        "section",
        table(HEADS, rows, f"Judged from the {modes} run in {run.directory}"),
        source(f"{run.directory}/fig*.json", *machines(curves)),
        class_="claims",
    )
