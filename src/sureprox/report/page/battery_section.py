"""The battery: performance profiles, speed-ups, and every kind of problem, for each file of records."""

from collections.abc import Sequence

from sureprox.base.words import plural
from sureprox.evaluation.battery_records import LEVELS, KindRecord
from sureprox.evaluation.records import reading
from sureprox.report.battery import LABELS, TARGET, profile, summaries
from sureprox.report.compare import level_text
from sureprox.report.page.charts import Axis, Chart, Panel, Series
from sureprox.report.page.gather import BatteryFile, Found
from sureprox.report.page.markup import Cell, Html, Row, details, element, join, nothing, number, source, table
from sureprox.report.page.section import Section, place
from sureprox.report.style import styles

SUMMARY = (
    "family", "optimizer", "kinds", "speed-up", "kept out", "worst", "worst on", "failures", "instances", "slower",
)  # fmt: skip
KINDS = (
    "kind", "size", "Sure", "instances", "optimizer", *(level_text(level) for level in LEVELS), "90 %", "products",
    "seconds", "failures",
)  # fmt: skip
EXPLANATION = (
    "The profile shows, for each optimizer, the share of the instances (every kind weighing the same) on which it "
    "needs at most so many times the iterations of the best one there. Higher is better; a curve that ends below 1 "
    "belongs to an optimizer that never reaches the level on the rest."
)


def battery_section(found: Found) -> Section:
    if not found.batteries:
        text = f"No records of the battery below {found.places}. sureprox bench battery --quick makes some."
        return Section("battery", "Battery", nothing(text), "no records")
    charts: list[Chart] = []
    parts: list[Html] = []
    kinds: set[str] = set()
    for file in found.batteries:
        with reading(file.path, "the battery"):
            charts.append(chart(file.records))
            parts.append(_file(file))
            kinds |= {record.kind for record in file.records}
    files = plural(len(found.batteries), "file")
    body = join([element("p", EXPLANATION), *parts])
    return Section("battery", "Battery", body, f"{len(kinds)} kinds of problem in {files}", charts)


def chart(records: Sequence[KindRecord]) -> Chart:
    """A panel for each family, with the levels to choose from; nothing is cut off at the right."""
    panels, widest = [], 10.0
    for family in dict.fromkeys(record.family for record in records):
        part = [record for record in records if record.family == family]
        by_level = {level: profile(part, level) for level in LEVELS}
        widest = max([widest, *(t for curves in by_level.values() for curve in curves.values() for t, _ in curve)])
        look = styles([LABELS.get(name, name) for name in by_level[TARGET]])
        series = []
        for name in by_level[TARGET]:
            label = LABELS.get(name, name)
            grid = sorted({t for curves in by_level.values() for t, _ in curves[name]})
            values = {level_text(level): _on_grid(curves[name], grid) for level, curves in by_level.items()}
            series.append(Series(label, label, look[label], grid, values, steps=True))
        panels.append(Panel(f"{family}, {plural(len({record.kind for record in part}), 'kind')}", series))
    axis = Axis("times the iterations of the best", {"log": (1, widest), "linear": (1, widest)})
    y = Axis("share of the instances", {"linear": (0, 1.02)})
    return Chart("Performance profile", axis, y, panels, columns=len(panels), unit="t", start=level_text(TARGET))


def _on_grid(curve: Sequence[tuple[float, float]], grid: Sequence[float]) -> list[float | None]:
    """The step function at every point of the grid, so that all levels share one."""
    shares = dict(curve)  # of several points at one t the last, which is the highest
    share, values = 0.0, []
    for t in grid:
        share = shares.get(t, share)
        values.append(round(share, 5))
    return list(values)


def _file(file: BatteryFile) -> Html:
    records = file.records
    devices = ", ".join(dict.fromkeys(record.device for record in records))
    dates = ", ".join(sorted({record.date for record in records}))
    versions = ", ".join(sorted({f"torch {v}" for record in records if (v := record.versions.get("torch"))}))
    how = ", ".join(sorted({f"{record.dtype}, seed {record.seed}" for record in records}))
    return element(
        "section",
        element("h3", str(file.path.parent)),
        place(),
        source(str(file.path), devices, dates, versions, how),
        _summary(file),
        details(f"Every kind and optimizer ({len(records)} rows)", _kinds(file)),
        class_="battery",
    )


def _summary(file: BatteryFile) -> Html:
    rows: list[Row] = [
        [
            s.family,
            LABELS.get(s.optimizer, s.optimizer),
            number(s.kinds),
            *(number(value, ".2f") for value in (s.mean, s.kept_out, s.worst)),
            s.worst_kind,
            *(number(value) for value in (s.failures, s.instances, s.slower)),
        ]
        for s in summaries(file.records)
    ]
    caption = (
        f"Speed-up over FISTA with restart: its median iterations to {level_text(TARGET)} over those of the optimizer, "
        "geometric mean over the kinds; kept out: over those Sure has not seen in training. Failures: instances that "
        "never get there; slower: instances on which FISTA with restart needs fewer iterations"
    )
    return table(SUMMARY, rows, caption)


def _kinds(file: BatteryFile) -> Html:
    rows: list[Row] = [
        [
            r.kind,
            Cell(f"{r.size[0]} x {r.size[1]}", r.size[0] * r.size[1]),
            "trained" if r.trained else "kept out",
            number(r.instances),
            LABELS.get(r.optimizer, r.optimizer),
            *(_count(r.quantile(level, 0.5)) for level in LEVELS),
            _count(r.quantile(TARGET, 0.9)),
            _count(r.products_to(TARGET)),
            number(r.seconds, ".3g"),
            number(r.failures()),
        ]
        for r in file.records
    ]
    caption = (
        "Median iterations to each relative gap; 90 %: the 90th percentile to 1e-6; products with A and seconds of the "
        f"whole batch to 1e-6. From {file.path}"
    )
    return table(KINDS, rows, caption)


def _count(k: int | None) -> Cell:
    return Cell("never", float("inf")) if k is None else Cell(str(k), k)
