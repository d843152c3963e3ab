"""The paper's claims, sentence by sentence, judged from the figures of each directory."""

from collections.abc import Iterator, Sequence

from sureprox.evaluation.records import reading
from sureprox.report.claims import SENTENCES, Judgement, Verdict, count_text, judge
from sureprox.report.compare import LEVELS, level_text
from sureprox.report.page.curves_section import figure_link, machines
from sureprox.report.page.gather import Found, Reproduction
from sureprox.report.page.markup import Html, details, element, join, nothing, source, table
from sureprox.report.page.section import Section

SIGNS = {Verdict.HOLDS: "✓", Verdict.FAILS: "✗", Verdict.DEPENDS: "≠", Verdict.UNKNOWN: "?"}
STYLES = {Verdict.HOLDS: "good", Verdict.FAILS: "bad", Verdict.DEPENDS: "odd", Verdict.UNKNOWN: "unknown"}
HEADS = ("", "the paper says", *(level_text(level) for level in LEVELS), "measured", "figures")


def claims_section(found: Found) -> Section:
    if not found.reproductions:
        text = f"No records of figures below {found.places}, so no claim can be judged."
        return Section("claims", "Claims of the paper", nothing(text), "no records")
    parts, glances = [], []
    for run in found.reproductions:
        with reading(run.directory / "fig*.json", "a figure"):
            judgements = judge([run.figures])
            parts.append(_judged(run, judgements))
        glances.append(count_text(judgements))
    levels = ", ".join(level_text(level) for level in LEVELS)
    said = element(
        "p",
        f"Each sentence is judged from the records by a fixed rule, with {levels} as the mean relative gap at which a "
        "run counts as converged; numbers of iterations are to that level.",
    )
    rules = [element("li", f"({sentence.name}) {sentence.criterion}") for sentence in SENTENCES]
    body = join([said, *parts, details("When a sentence holds", element("ul", *rules))])
    return Section("claims", "Claims of the paper", body, "; ".join(glances))


def _figures(run: Reproduction, names: Sequence[str]) -> Iterator[Html]:
    """Links to those that are on the page."""
    for place, name in enumerate(names):
        text = name.removeprefix("fig")
        yield join([", " if place else None, figure_link(run, name) if name in run.figures else text])


def _badge(verdict: Verdict) -> Html:
    return element("span", f"{SIGNS[verdict]} {verdict.value}", class_=f"verdict {STYLES[verdict]}")


def _judged(run: Reproduction, judgements: list[Judgement]) -> Html:
    rows = []
    for entry in judgements:
        measured = element("small", f"missing: {entry.missing}") if entry.missing else entry.measured
        figures = join(_figures(run, entry.sentence.figures))
        badges = [_badge(verdict) for verdict in entry.verdicts]
        rows.append([f"({entry.sentence.name})", entry.sentence.says, *badges, measured, figures])
    modes = " and ".join(sorted({record.mode for record in run.figures.values()}))
    curves = [curve for record in run.figures.values() for curve in record.curves]
    return element(
        "section",
        table(HEADS, rows, f"Judged from the {modes} run in {run.directory}"),
        source(f"{run.directory}/fig*.json", *machines(curves)),
        class_="claims",
    )
