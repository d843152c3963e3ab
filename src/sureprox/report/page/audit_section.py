"""The theory audit: every statement, what the bounds say about trained optimizers, and how their terms grow with s."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sureprox.audit.models import FLOOR
from sureprox.audit.text import slack_text
from sureprox.base.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY
from sureprox.evaluation.records import reading
from sureprox.report.page.charts import Axis, Chart, Panel, Series, decades
from sureprox.report.page.gather import AuditFile, Found
from sureprox.report.page.markup import Cell, Html, details, element, join, nothing, number, source, table
from sureprox.report.page.section import Section, place
from sureprox.report.style import DASHED, LONG, SOLID, Style

HEADS = ("statement", "it says", "as printed", "worst slack, printed", "corrected", "inequalities", "remark")
GAINS = {
    "gain": ("measured", Style(BLACK, SOLID, "o", 2.0)),
    "bound": ("Theorem 6, assumption-free", Style(BLUE, LONG, "s")),
    "bound_in_norms": ("in norms, secant constants", Style(RED, DASHED, "^")),
}
TERMS = [
    Style(BLACK, SOLID, "o"), Style(BLUE, SOLID, "s"), Style(GREEN, SOLID, "^"), Style(RED, SOLID, "D"),
    Style(PURPLE, DASHED, "v"), Style(SKY, DASHED, "P"), Style(ORANGE, DASHED, "X"),
]  # fmt: skip


def audit_section(found: Found) -> Section:
    if not found.audits:
        text = f"No records of an audit below {found.places}. sureprox audit makes one."
        return Section("audit", "Theory audit", nothing(text), "no records")
    charts: list[Chart] = []
    parts: list[Html] = []
    glances = []
    for file in found.audits:
        with reading(file.path, "an audit"):
            statements = file.content["statements"]
            false = sum(statement["verdict"] == "false" for statement in statements)
            glances.append(f"{false} of {len(statements)} statements false as printed")
            parts.append(_file(file, charts))
    return Section("audit", "Theory audit", join(parts), "; ".join(glances), charts)


def _file(file: AuditFile, charts: list[Chart]) -> Html:
    content = file.content
    parts: list[Html | None] = [element("h3", str(file.path.parent)), _source(file), _statements(file.path, content)]
    models = content["models"]
    if models:
        charts.append(gains_chart(models))
        parts += [
            element("h4", "What a step gains, and what the bounds allow"),
            element("p", GAINS_TEXT),
            place(),
            _source(file),
        ]
        parts += [_model(model, file.path) for model in models]
    if content["growth"]:
        charts.append(growth_chart(content["growth"]))
        parts += [
            element("h4", "How the terms of the one-step bound grow with s"),
            element("p", GROWTH_TEXT),
            place(),
            _source(file),
        ]
    if content["counterexamples"]:
        parts.append(details("Smallest counterexamples", _counterexamples(content["counterexamples"], file.path)))
    return element("section", *parts, class_="audit")


GROWTH_TEXT = "s is added to every coordinate of the start; medians of the first 10 steps. 0 is not on a log axis."
GAINS_TEXT = (
    "Change of F in a step over the gap before it, median of the instances. Above 0 a bound proves nothing. Lines end "
    "where the gap is rounding."
)


def _source(file: AuditFile) -> Html:
    c = file.content
    device, date = c.get("device"), c.get("date")
    size = f"seed {c['seed']}, {c['instances']} problems for each model, {c['steps']} iterations"
    return source(str(file.path), device or "machine not on record", date or "date not on record", size)


def _statements(path: Path, content: dict[str, Any]) -> Html:
    rows = []
    for s in content["statements"]:
        good = s["verdict"] == "holds"
        badge = element("span", f"{'✓' if good else '✗'} {s['verdict']}", class_=f"verdict {'good' if good else 'bad'}")
        slacks = [_slack(s["worst_slack"][side]) for side in ("printed", "corrected")]
        count = s["inequalities"]["printed"]
        rows.append([s["name"], s["claim"], badge, *slacks, number(count, ",d"), s["remark"]])
    caption = (
        "Statements of the paper on random runs. A slack is (right side - left side) / scale: negative means violated, "
        f"0 is within rounding. From {path}"
    )
    return table(HEADS, rows, caption)


def _slack(value: float | None) -> Cell:
    return Cell(slack_text(math.nan if value is None else value), value)


def _model(model: dict[str, Any], path: Path) -> Html:
    rows = [[name, _slack(slack)] for name, slack in model["worst_slack"].items()]
    return details(
        f"{model['model']}, {model['scenario']}",
        element("ul", *(element("li", sentence) for sentence in model["words"])),
        table(("statement", "worst slack"), rows, f"Assumption-free inequalities on this run, from {path}"),
    )


def _counterexamples(examples: Sequence[dict[str, Any]], path: Path) -> Html:
    rows = [
        [
            example["statement"],
            example["instance"],
            *(number(example[side], ".4g") for side in ("lhs", "printed", "corrected")),
        ]
        for example in examples
    ]
    heads = ("statement", "instance", "left side", "right side as printed", "corrected")
    return table(heads, rows, f"Left side <= right side is claimed and false. From {path}")


def gains_chart(models: Sequence[dict[str, Any]]) -> Chart:
    panels, values = [], []
    for model in models:
        series = []
        for key, (label, style) in GAINS.items():
            line = relative(model[key], model["gap"])
            values += [value for value in line if value is not None]
            steps = list(range(1, len(line) + 1))
            series.append(Series(label, label, style, steps, {"median": line}, gaps=True))
        panels.append(Panel(f"{model['model']}, {model['scenario']}", series))
    last = max(len(model["gap"][0]) for model in models) - 1
    columns = len(dict.fromkeys(model["scenario"] for model in models))
    scales = {"symlog": (min([-1.5, *values]), 2 * max([10.0, *values])), "linear": (-1.5, 1.5)}
    return Chart(
        title="What a step gains, and what the bounds allow",
        x=Axis("iteration k", {"linear": (0, last), "log": (1, max(last, 2))}),
        y=Axis("change of F over the gap", scales),
        panels=panels,
        columns=columns,
    )


def relative(rows: Sequence[Sequence[float]], gaps: Sequence[Sequence[float]]) -> list[float | None]:
    """(K,): median over the instances of value / gap before the step; None once the gap is rounding."""
    line: list[float | None] = []
    for k in range(len(rows[0])):
        ratios = [row[k] / gap[k] for row, gap in zip(rows, gaps, strict=True) if gap[k] > FLOOR * gap[0]]
        line.append(float(f"{statistics.median_low(ratios):.4g}") if ratios else None)
    return line


def growth_chart(growths: Sequence[dict[str, Any]]) -> Chart:
    panels, values, largest = [], [], 1.0
    for growth in growths:
        series = []
        for i, (label, terms) in enumerate(growth["terms"].items()):
            shown = [value if value > 0 else None for value in terms]  # 0 has no place on a log axis
            values += [value for value in shown if value is not None]
            series.append(Series(label, label, TERMS[i % len(TERMS)], growth["s"], {"median": shown}, gaps=True))
        largest = max(largest, *growth["s"])
        panels.append(Panel(growth["model"], series))
    low, high = (min(values), max(values)) if values else (1.0, 10.0)
    return Chart(
        title="How the terms of the one-step bound grow with s",
        x=Axis("s", {"symlog": (0, largest), "linear": (0, largest)}),
        y=Axis("term over the gap, or distance", {"log": decades(low, high), "linear": (0, 1.05 * high)}),
        panels=panels,
        columns=len(panels),
        unit="s",
    )
