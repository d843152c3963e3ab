"""Training runs: loss and validation from every log, and a table of them all."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from sureprox.base.drawing import BLACK, BLUE, GREEN
from sureprox.base.words import plural
from sureprox.evaluation.records import reading
from sureprox.report.page.charts import Axis, Chart, Panel, Series, finite
from sureprox.report.page.gather import Found, TrainingLog
from sureprox.report.page.markup import Html, Row, element, join, nothing, number, source, table
from sureprox.report.page.section import Section, place
from sureprox.report.style import DASHED, SOLID, Style
from sureprox.training.curves import title
from sureprox.training.events import Event

POINTS = 200  # of a curve at most; each is the median of the batches around it, with the lowest and the highest
HEADROOM = 100.0  # the axis ends this far above the median; what is higher leaves through the top, marked
HEADS = (
    "log", "trained", "batches", "best validation", "at batch", "minutes", "failed", "seed", "completed", "machine",
    "date",
)  # fmt: skip
EXPLANATION = (
    "Loss of each training run; losses of different methods are not on one scale. The band reaches from the lowest to "
    "the highest batch. Validation is on problems of its own; ★ is the best, whose weights are kept."
)


@dataclass(frozen=True)
class Bucket:
    batch: int  # the last of them
    median: float | None  # of the finite losses; None: there is none
    low: float | None
    high: float | None  # None where one is not finite


def training_section(found: Found) -> Section:
    if not found.trainings:
        text = f"No training logs below {found.places}. sureprox train writes one."
        return Section("training", "Training", nothing(text), "no records")
    charts: list[Chart] = []
    parts: list[Html] = []
    rows = []
    for log in found.trainings:
        with reading(log.path, "a training run"):
            drawn = chart(log)
            if drawn is not None:
                charts.append(drawn)
            parts.append(_log(log, drawn))
            rows.append(_row(log))
    summary = table(HEADS, rows, "Training runs on record")
    body = join([element("p", EXPLANATION), summary, element("div", *parts, class_="small-multiples")])
    return Section("training", "Training", body, plural(len(found.trainings), "run"), charts)


def chart(log: TrainingLog) -> Chart | None:
    """None where there is no batch and no validation yet."""
    batches, validations = _of(log.events, "batch"), _of(log.events, "validation")
    found = buckets(batches)
    at = [event["batch"] for event in validations]
    checked = finite([event["loss"] for event in validations])
    series = []
    if found:
        each = math.ceil(len(batches) / POINTS)
        name = "training" if each == 1 else f"training, median of {each}"
        x, band = [b.batch for b in found], ([b.low for b in found], [b.high for b in found])
        series.append(Series(name, name, Style(BLUE, SOLID, "", 1.8), x, {"loss": [b.median for b in found]}, band))
    if validations:
        series.append(Series("validation", "validation", Style(BLACK, DASHED, "o", 1.4), at, {"loss": checked}))
    best = _best(validations)
    if best is not None:
        label = f"best {best[0]:.5g}"
        series.append(Series(label, label, Style(GREEN, SOLID, "*", 2.6), [best[1]], {"loss": [best[0]]}))
    values = [v for v in (*(b.median for b in found), *checked) if v is not None]
    if not series:
        return None
    last = max(event["batch"] for event in (*batches, *validations))
    return Chart(
        title=f"Training of {name_of(log)}",
        x=Axis("batch", {"linear": (0, max(last, 1)), "log": (1, max(last, 2))}),
        y=Axis("loss", scales(values)),
        panels=[Panel("", series)],
        unit="batch",
        band="lowest to highest batch",
        small=True,
    )


def buckets(batches: Sequence[Event]) -> list[Bucket]:
    size = max(1, math.ceil(len(batches) / POINTS))
    made = []
    for start in range(0, len(batches), size):
        part = batches[start : start + size]
        losses = finite([event["loss"] for event in part])
        known = [loss for loss in losses if loss is not None]
        high = max(known) if len(known) == len(losses) else None
        median = statistics.median(known) if known else None
        made.append(Bucket(part[-1]["batch"], _short(median), _short(min(known, default=None)), _short(high)))
    return made


def scales(values: Sequence[float]) -> dict[str, tuple[float, float]]:
    """A log axis where all is positive; it ends `HEADROOM` above the median, the linear one earlier."""
    if not values:
        return {"linear": (0.0, 1.0)}
    low, high, middle = min(values), max(values), statistics.median(values)
    if low <= 0:
        return {"linear": widened(low, high)}
    high = min(high, HEADROOM * middle)
    return {"log": (low / 1.15, high * 1.15), "linear": widened(low, min(high, 5 * middle))}


def widened(low: float, high: float) -> tuple[float, float]:
    room = 0.06 * (high - low) or 0.1 * abs(low) or 1.0
    return low - room, high + room


def name_of(log: TrainingLog) -> str:
    """The last two parts of its address; the commands call every log log.jsonl."""
    parts = (*log.path.parent.parts, log.path.stem) if log.path.stem != "log" else log.path.parent.parts
    return "/".join(parts[-2:])


def about(log: TrainingLog) -> str:
    """What was trained on what, as far as the log says."""
    return title(log.events) if log.events else "nothing written yet"


def _of(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event["event"] == kind]


def _best(validations: Sequence[Event]) -> tuple[float, int] | None:
    known = [(event["loss"], event["batch"]) for event in validations if finite([event["loss"]]) != [None]]
    return min(known, default=None)


def _log(log: TrainingLog, drawn: Chart | None) -> Html:
    return element(
        "section",
        element("h4", name_of(log)),
        element("p", about(log), class_="size"),
        place() if drawn is not None else nothing("No batch and no validation in this log yet."),
        source(str(log.path), *_where(log)),
        class_="figure",
    )


def _where(log: TrainingLog) -> list[str]:
    start = log.events[0] if log.events else {}
    machine = start.get("machine") or f"{start.get('device', 'device')}, machine not on record"
    return [machine, start.get("date") or "date not on record"]


def _row(log: TrainingLog) -> Row:
    batches, validations = _of(log.events, "batch"), _of(log.events, "validation")
    start = log.events[0] if log.events else {}
    best = _best(validations)
    ended = next((event for event in log.events if event["event"] == "end"), None)
    seconds = max((event["seconds"] for event in log.events), default=0.0)
    failed = sum(bool(event["skipped"]) for event in batches)
    seed = start.get("recipe", {}).get("training", {}).get("seed")
    return [
        str(log.path),
        about(log),
        number(len(batches)),
        number(best and best[0], ".5g"),
        number(best and best[1]),
        number(seconds / 60, ".1f"),
        number(failed),
        "" if seed is None else str(seed),
        "yes" if ended and ended.get("completed") else "no",
        start.get("machine") or f"{start.get('device', 'device')}, not on record",
        start.get("date", "not on record"),
    ]


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
