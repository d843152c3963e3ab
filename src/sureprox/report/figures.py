"""The figures, drawn from records: mean relative gap against iterations, both on a log scale, as in the paper."""

import math
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureprox.base.drawing import save_figure
from sureprox.evaluation.figures import FigureSpec
from sureprox.evaluation.records import FigureRecord
from sureprox.optimizers import pretrained, read_card
from sureprox.optimizers.weights import chosen_by_validation
from sureprox.report.panels import curve_of, draw_panel, limits, seen_until
from sureprox.report.style import DASHED, SOLID, styles

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LEGEND: dict[str, Any] = {"frameon": False, "fontsize": 8.5, "handlelength": 3.5}


def draw_figure(record: FigureRecord, directory: Path, *, spread: bool = False) -> list[Path]:
    """Write NAME.png and NAME.svg and return their paths. The same record gives the same bytes.

    `spread`: with bands from q10 to q90, which in a record of several training seeds (`merged`) are their range.
    """
    import matplotlib
    from matplotlib.figure import Figure

    spec = record.spec
    rows = math.ceil(len(spec.panels) / spec.columns)
    size = (7.6, 4.6) if len(spec.panels) == 1 else (3.2 * spec.columns + 0.4, 2.7 * rows + 1.4)
    paths = [directory / f"{record.figure}.png", directory / f"{record.figure}.svg"]
    with matplotlib.rc_context({"svg.hashsalt": record.figure}):
        drawing = Figure(figsize=size, dpi=150, layout="constrained")
        _fill(drawing, spec, record, rows, spread)
        for path, date in zip(paths, ({"Software": None}, {"Date": None}), strict=True):
            save_figure(drawing, path, metadata=date)
    return paths


def _fill(drawing: "Figure", spec: FigureSpec, record: FigureRecord, rows: int, spread: bool) -> None:
    look = styles(list(dict.fromkeys(line.label for line in spec.lines)))
    axes = drawing.subplots(rows, spec.columns, squeeze=False, sharex=True, sharey="row")
    handles: dict[str, Any] = {}
    last = 2
    for row in range(rows):  # each has its own heights: with the paper's prox no curve comes far down
        panels = spec.panels[row * spec.columns : (row + 1) * spec.columns]
        curves = [curve for panel in panels for line in panel.lines if (curve := curve_of(record, line)) is not None]
        bounds = limits(curves)
        last = max([last, *(seen_until(curve, bounds) for curve in curves)])
        axes[row, 0].set_yscale("log")
        axes[row, 0].set_ylim(*bounds)
        for axis, panel in zip(axes[row], panels, strict=True):
            handles |= draw_panel(axis, panel, record, look, bounds, spread)
    axes[0, 0].set_xscale("log")
    axes[0, 0].set_xlim(1, last)
    for axis in axes[:, 0]:
        axis.set_ylabel("mean relative gap  (F − F*) / F*", fontsize=9)  # noqa: RUF001
    for axis in axes[-1]:
        axis.set_xlabel("iteration", fontsize=9)
    text = caption(record)
    if len(spec.panels) == 1:
        drawing.legend(list(handles.values()), list(handles), loc="outside right center", **LEGEND)
        drawing.supxlabel(textwrap.fill(text, 110), fontsize=7, color="0.25")
    else:  # a caption below a legend that is below the panels would overlap it
        handles |= _signs(spec)
        below: dict[str, Any] = {"loc": "outside lower center", "ncols": len(handles), "title_fontsize": 7}
        drawing.legend(list(handles.values()), list(handles), title=textwrap.fill(text, 220), **below, **LEGEND)
    drawing.suptitle(title(spec, record), fontsize=10)


def _signs(spec: FigureSpec) -> dict[str, Any]:
    """Legend handles that say how the signs of the shifts are told apart."""
    from matplotlib.lines import Line2D

    letter = "s" if "s =" in spec.panels[0].title else "t"
    like: dict[str, Any] = {"color": "0.3", "marker": "o", "markersize": 4.5}
    return {
        f"{letter} > 0": Line2D([], [], linestyle=SOLID, markerfacecolor="0.3", **like),
        f"{letter} < 0": Line2D([], [], linestyle=DASHED, markerfacecolor="white", **like),
    }


def picked(record: FigureRecord) -> list[str]:
    """A sentence for every method whose weights were not simply those that were best in validation."""
    notes = []
    for line in {line.optimizer: line for line in record.spec.lines}.values():
        curve = next((curve for curve in record.curves if curve.optimizer == line.optimizer), None)
        if curve is None or curve.weights is None or line.optimizer not in pretrained():
            continue
        card = read_card(line.optimizer)
        if card.sha256 == curve.weights and not chosen_by_validation(card):
            notes.append(f"{line.label} ({line.optimizer}): {card.notes}.")
    return notes


def title(spec: FigureSpec, record: FigureRecord) -> str:
    """What is shown, and how much of it was run, when."""
    head = f"Figure {spec.name.removeprefix('fig')}. {spec.title}"
    if not record.curves:
        return f"{head}\nno curve could be run ({record.mode})"
    first = record.curves[0]
    what = "starts" if first.scenario in ("ionosphere", "spambase") else "instances"
    dates = sorted({curve.date for curve in record.curves})
    when = dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return f"{head}\n{first.instances} {what}, {first.iterations[-1]} iterations, {first.dtype}, {record.mode}, {when}"


def caption(record: FigureRecord) -> str:
    """What the reader has to know and cannot see."""
    notes = []
    zero = max((curve.zero_optimum for curve in record.curves), default=0)
    if zero:
        notes.append(f"{zero} instances with F* = 0 are measured against the mean F* of the others.")
    if record.curves and record.curves[0].scenario in ("patches", "ionosphere", "spambase"):
        notes.append(f"Data: {record.curves[0].data}.")
    notes += picked(record)
    reasons: dict[str, list[str]] = {}
    for entry in record.missing:
        reasons.setdefault(entry.reason, []).append(entry.optimizer)
    for reason, names in reasons.items():
        who = ", ".join(dict.fromkeys(names)) if record.curves or len(reasons) > 1 else "every curve"
        notes.append(f"Not available: {reason}." if who in reason else f"Not available: {who} ({reason}).")
    return " ".join(notes)
