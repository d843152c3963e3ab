"""What the script of the page draws, as data. A value that is not finite is null: the script lets it leave the axis."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sureprox.report.style import DASHED, SOLID, Style

Limits = tuple[float, float]


@dataclass(frozen=True)
class Series:
    """One curve. `values`: one list for each statistic the reader can choose from; None stands for not finite."""

    label: str  # what the legend says; curves with one label are switched together
    name: str  # of this very curve, for the read-out
    style: Style
    x: Sequence[float]
    values: Mapping[str, Sequence[float | None]]
    band: tuple[Sequence[float | None], Sequence[float | None]] | None = None
    open: bool = False  # markers not filled, line dashed: the second of two signs
    steps: bool = False  # constant from each point to the next
    gaps: bool = False  # None: nothing to show, instead of not finite
    end: str = "ends above the axis"  # said of a curve that leaves through the top for good


@dataclass(frozen=True)
class Panel:
    title: str
    series: Sequence[Series]


@dataclass(frozen=True)
class Axis:
    """`scales`: limits for each scale that makes sense, the first being the one at the start."""

    label: str
    scales: Mapping[str, Limits]


@dataclass(frozen=True)
class Chart:
    title: str
    x: Axis
    y: Axis
    panels: Sequence[Panel]
    columns: int = 1
    unit: str = "k"  # of x, in the read-out
    band: str = ""  # what the band shows
    small: bool = False
    start: str = ""  # the statistic shown first, where it is not the first one
    signs: Sequence[str] = field(default=())  # what full and open markers stand for

    def data(self) -> dict[str, Any]:
        """The chart as JSON; a grid that curves share is written once."""
        grids: dict[tuple[float, ...], int] = {}
        panels = [
            {"title": panel.title, "series": [_series(series, grids) for series in panel.series]}
            for panel in self.panels
        ]
        return {
            "title": self.title,
            "x": {"label": self.x.label, "scales": self.x.scales},
            "y": {"label": self.y.label, "scales": self.y.scales},
            "panels": panels,
            "grids": [list(grid) for grid in grids],
            "columns": self.columns,
            "unit": self.unit,
            "band": self.band,
            "small": self.small,
            "start": self.start,
            "signs": list(self.signs),
        }


def finite(values: Sequence[float | None]) -> list[float | None]:
    return [value if value is not None and math.isfinite(value) else None for value in values]


def decades(low: float, high: float) -> Limits:
    """The limits in whole powers of ten, at least one apart."""
    bottom, top = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return 10.0**bottom, 10.0 ** max(top, bottom + 1)


def _series(series: Series, grids: dict[tuple[float, ...], int]) -> dict[str, Any]:
    style = series.style
    dashes = DASHED if series.open else SOLID if style.dashes == SOLID else style.dashes
    content: dict[str, Any] = {
        "label": series.label,
        "name": series.name,
        "colour": style.colour,
        "dash": [] if dashes == SOLID else list(dashes[1]),
        "width": style.width,
        "marker": style.marker,
        "grid": grids.setdefault(tuple(series.x), len(grids)),
        "values": {name: finite(values) for name, values in series.values.items()},
        "end": series.end,
    }
    if series.band is not None:
        content["band"] = [finite(edge) for edge in series.band]
    return content | {name: True for name in ("open", "steps", "gaps") if getattr(series, name)}
