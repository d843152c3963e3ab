"""One panel of a figure: its curves, and what has left it through the top."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sureprox.base.drawing import tidy
from sureprox.evaluation.figures import Line, Panel
from sureprox.evaluation.records import CurveRecord, FigureRecord
from sureprox.report.style import DASHED, SOLID, Style

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FLOOR = 1e-12  # F* is not known better: the axis ends here and curves leave through the bottom
HEADROOM = 10.0  # the axis goes this far above the highest start; what climbs higher leaves through the top
BEYOND = 1e3  # how far outside the axis a curve is still followed, so that it crosses the edge at its own angle
MARKERS = 6  # on each curve

Bounds = tuple[float, float]  # of the axis: low, high


@dataclass(frozen=True)
class Escape:
    """A curve that has left through the top."""

    line: Line
    k: int  # the first recorded iteration above the axis
    text: str


def curve_of(record: FigureRecord, line: Line) -> CurveRecord | None:
    return record.find(line.optimizer, line.scenario.name)


def limits(curves: Sequence[CurveRecord]) -> tuple[float, float]:
    """From the lowest point (or `FLOOR`) to `HEADROOM` above the highest start, in whole decades."""
    values = [value for curve in curves for value in curve.mean if math.isfinite(value) and value > 0]
    starts = [curve.mean[0] for curve in curves if math.isfinite(curve.mean[0]) and curve.mean[0] > 0]
    top = HEADROOM * max(starts, default=1.0)
    bottom = max(FLOOR, min(values, default=FLOOR) / 2)
    return 10.0 ** math.floor(math.log10(bottom)), 10.0 ** math.ceil(math.log10(top))


def seen_until(curve: CurveRecord, bounds: Bounds) -> int:
    """The last recorded iteration at which the curve is inside the axis."""
    low, high = bounds
    return max((k for k, value in zip(curve.iterations, curve.mean, strict=True) if low <= value <= high), default=0)


def escape(line: Line, curve: CurveRecord, high: float) -> Escape | None:
    """What is said about a curve that has been above `high`; nothing if it never was."""
    above = [k for k, value in zip(curve.iterations, curve.mean, strict=True) if not value <= high]
    if not above:
        return None
    shift = f" {line.scenario.shift:+g}" if line.scenario.shift else ""
    if curve.mean[-1] <= high:
        return Escape(line, above[0], f"{line.label}{shift}: above the axis until k = {above[-1]}")
    lost = f", {curve.lost} of {curve.instances} not finite" if curve.lost else ""
    return Escape(line, above[0], f"{line.label}{shift}: diverges{lost}")


def draw_panel(
    axis: "Axes", panel: Panel, record: FigureRecord, look: dict[str, Style], bounds: Bounds, spread: bool = False
) -> dict[str, Any]:
    """Draw the curves; returns the legend handle of each label. `spread`: the band from q10 to q90 as well."""
    high = bounds[1]
    handles: dict[str, Any] = {}
    escaped = []
    for place, line in enumerate(panel.lines):
        curve = curve_of(record, line)
        if curve is None:
            continue
        artist = _draw(axis, line, curve, look[line.label], bounds, place / len(panel.lines))
        handles.setdefault(line.label, artist)
        if spread:
            low, top = ([min(max(v, FLOOR / BEYOND), high * BEYOND) for v in side] for side in (curve.q10, curve.q90))
            axis.fill_between(curve.iterations, low, top, color=look[line.label].colour, alpha=0.18, linewidth=0)
        if gone := escape(line, curve, high):
            escaped.append(gone)
    _mark(axis, escaped, look, high)
    if panel.floor is not None and bounds[0] < panel.floor < high:
        handles["where the paper's curves end"] = axis.axhline(panel.floor, color="0.35", linewidth=1.0, linestyle=":")
    axis.set_title(panel.title, fontsize=9)
    tidy(axis)
    axis.tick_params(labelsize=8)
    return handles


def _draw(axis: "Axes", line: Line, curve: CurveRecord, style: Style, bounds: Bounds, offset: float) -> Any:
    """One curve. Where both signs of a shift are shown, the negative one is dashed with open markers."""
    shift, high = line.scenario.shift, bounds[1]
    last = max(seen_until(curve, bounds), 1)
    wanted = [last ** ((i + offset) / MARKERS) for i in range(MARKERS)]  # at even distances of what is seen
    marks = sorted({min(range(len(curve.iterations)), key=lambda j: abs(curve.iterations[j] - k)) for k in wanted})
    (artist,) = axis.plot(
        curve.iterations,
        [min(max(value, FLOOR / BEYOND), high * BEYOND) for value in curve.mean],
        color=style.colour,
        linestyle=style.dashes if not shift else SOLID if shift > 0 else DASHED,
        linewidth=style.width,
        marker=style.marker,
        markersize=4.5,
        markevery=marks,
        markerfacecolor="white" if shift < 0 else style.colour,
        markeredgewidth=0.9,
    )
    return artist


def _mark(axis: "Axes", escaped: Sequence[Escape], look: dict[str, Style], high: float) -> None:
    """A triangle where each curve crosses the upper edge, and a line of text for each."""
    for place, gone in enumerate(escaped):
        colour = look[gone.line.label].colour
        axis.plot([gone.k], [high], marker="^", markersize=8, color=colour, linestyle="none", clip_on=False, zorder=5)
        axis.text(
            0.985,
            0.955 - 0.065 * place,
            f"▲ {gone.text}",
            transform=axis.transAxes,
            ha="right",
            va="top",
            fontsize=6.5,
            color=colour,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.8},
            zorder=6,
        )
