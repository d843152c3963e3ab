"""Convergence curves: one chart for each figure on record, and all its curves as a table."""

import hashlib
import math
from collections.abc import Sequence

from sureprox.evaluation.figures import FigureSpec, Line
from sureprox.evaluation.records import CurveRecord, FigureRecord, reading
from sureprox.report.compare import TARGET, diverged, level_text, reached
from sureprox.report.figures import caption, title
from sureprox.report.page.charts import Axis, Chart, Panel, Series, finite
from sureprox.report.page.gather import Found, Reproduction
from sureprox.report.page.markup import Cell, Html, Row, details, element, join, nothing, number, source, table
from sureprox.report.page.section import Section, place
from sureprox.report.panels import curve_of, limits, seen_until
from sureprox.report.style import Style, styles

HEADS = (
    "optimizer", "scenario", f"k to {level_text(TARGET)}", "gap at the end", "iterations", "instances", "not finite",
    "seconds", "weights", "machine", "date",
)  # fmt: skip


def curves_section(found: Found) -> Section:
    charts: list[Chart] = []
    parts: list[Html] = []
    for run in found.reproductions:
        jump = join(figure_link(run, name) for name in run.figures)
        parts += [element("h3", str(run.directory)), element("p", "Figures ", jump, class_="jump")]
        for record in run.figures.values():
            with reading(run.path(record.figure), "a figure"):
                if record.curves:
                    charts.append(chart(record))
                parts.append(_figure(run, record))
    count = sum(len(record.curves) for run in found.reproductions for record in run.figures.values())
    if not parts:
        text = f"No records of figures below {found.places}. sureprox reproduce fig1 --quick makes some."
        return Section("curves", "Convergence curves", nothing(text), "no records")
    said = element("p", EXPLANATION)
    number = sum(len(run.figures) for run in found.reproductions)
    glance = f"{count} curves in {number} figures"
    return Section("curves", "Convergence curves", join([said, *parts]), glance, charts)


EXPLANATION = (
    "Mean relative gap (F - F*) / F* over the instances, against iterations. A curve that leaves through the top is "
    "marked ▲ and named below its panel; an instance whose F is not finite counts as infinite. Below 1e-12 F* is not "
    "known: curves leave there through the bottom, marked ▽. Legend buttons switch curves on and off; with the pointer "
    "over a panel, or the arrow keys once it has the focus, the values are read out."
)


def chart(record: FigureRecord) -> Chart:
    """The figure as it is in the paper, panel by panel."""
    spec = record.spec
    look = styles(list(dict.fromkeys(line.label for line in spec.lines)))
    panels = [
        Panel(panel.title, [s for line in panel.lines if (s := _series(record, line, look[line.label]))])
        for panel in spec.panels
    ]
    starts = [curve.mean[0] for curve in record.curves if math.isfinite(curve.mean[0])]
    bounds = limits(record.curves)
    last = max(seen_until(curve, bounds) for curve in record.curves)  # what is below the axis needs no room
    shifted = "s" if "s =" in spec.panels[0].title else "t" if len(spec.panels) > 1 else ""
    return Chart(
        title=_head(spec),
        x=Axis("iteration k", {"log": (1, max(last, 2)), "linear": (0, max(last, 1))}),
        y=Axis("relative gap", {"log": bounds, "linear": (0, 1.05 * max(starts, default=1.0) or 1.0)}),
        panels=panels,
        columns=spec.columns,
        band="10 % to 90 % of the instances",
        signs=(f"{shifted} > 0", f"{shifted} < 0") if shifted else (),
    )


def _series(record: FigureRecord, line: Line, style: Style) -> Series | None:
    curve = curve_of(record, line)
    if curve is None:
        return None
    shift = line.scenario.shift
    lost = f", {curve.lost} of {curve.instances} not finite" if curve.lost else ""
    if shift > 0:
        style = Style(style.colour, "solid", style.marker, style.width)  # dashes tell the signs apart
    return Series(
        label=line.label,
        name=f"{line.label} {shift:+g}" if shift else line.label,
        style=style,
        x=curve.iterations,
        values={"mean": curve.mean, "median": curve.median},
        band=(finite(curve.q10), finite(curve.q90)),
        open=shift < 0,
        end=f"diverges{lost}" if diverged(curve) else f"ends above the axis{lost}",
    )


def _figure(run: Reproduction, record: FigureRecord) -> Html:
    spec = record.spec
    _, _, size = title(spec, record).partition("\n")
    note = caption(record)
    return element(
        "section",
        element("h4", _head(spec)),
        element("p", size, class_="size"),
        place() if record.curves else nothing("No curve of this figure could be run."),
        element("p", note, class_="note") if note else None,
        source(str(run.path(record.figure)), *machines(record.curves)),
        details(f"The {len(record.curves)} curves as a table", _table(spec, record)) if record.curves else None,
        class_="figure",
        id=_address(run, record.figure),
    )


def figure_link(run: Reproduction, figure: str) -> Html:
    return element("a", figure.removeprefix("fig"), href=f"#{_address(run, figure)}")


def _address(run: Reproduction, figure: str) -> str:
    """One that no other directory on the page has."""
    return f"{figure}-{hashlib.sha256(str(run.directory).encode()).hexdigest()[:8]}"


def machines(curves: Sequence[CurveRecord]) -> list[str]:
    """Where and when they were made, each place and day once."""
    devices = ", ".join(dict.fromkeys(curve.device for curve in curves))
    dates = ", ".join(sorted({curve.date for curve in curves}))
    torch = ", ".join(sorted({f"torch {v}" for curve in curves if (v := curve.versions.get("torch"))}))
    seeds = ", ".join(sorted({f"seed {curve.seed}" for curve in curves}))
    return [devices, dates, torch, seeds]


def _table(spec: FigureSpec, record: FigureRecord) -> Html:
    labels = {(line.optimizer, line.scenario.name): line.label for line in spec.lines}
    rows: list[Row] = []
    for c in record.curves:
        k = reached(c)
        end = f"{c.mean[-1]:.2e}" if math.isfinite(c.mean[-1]) else "not finite"
        rows.append(
            [
                labels.get(c.key, c.optimizer),
                c.scenario,
                Cell("diverges" if diverged(c) else "never", math.inf) if k is None else number(k),
                Cell(end, c.mean[-1]),
                *(number(value) for value in (c.iterations[-1], c.instances, c.lost)),
                number(c.seconds, ".3g"),
                c.weights[:12] if c.weights else "",
                c.device,
                c.date,
            ]
        )
    return table(HEADS, rows, f"{_head(spec)}: every curve on record")


def _head(spec: FigureSpec) -> str:
    return f"Figure {spec.name.removeprefix('fig')}. {spec.title}"
