"""The picture of a training run, drawn from its log."""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sureprox.base.drawing import BLACK, BLUE, GREEN, RED, save_figure, tidy
from sureprox.base.errors import InputError, SureproxError
from sureprox.training.events import Event, read_log

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOSS, VALIDATION, BEST, FAILED = BLUE, BLACK, GREEN, RED
SHOWN = 1e100  # larger losses are left out
WIDE = 10.0  # ratio of largest to smallest loss from which the axis is logarithmic
WINDOWS = 60  # how many windows of the running median make up a run


def draw(log: str | Path, out: str | Path) -> Path:
    """Loss, validation and learning rate against batches, from log.jsonl to a PNG; returns where that is."""
    events = read_log(log)
    try:
        return _draw(events, log, Path(out))
    except SureproxError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise InputError(f"{log} is not a training log: {type(error).__name__} {error}") from None


def _draw(events: Sequence[Event], log: str | Path, target: Path) -> Path:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    batches = [event for event in events if event["event"] == "batch"]
    validations = [event for event in events if event["event"] == "validation"]
    if not all(isinstance(event["batch"], int) and 0 <= event["batch"] < 2**53 for event in (*batches, *validations)):
        raise InputError(f"{log} is not a training log: a batch has no number")
    if not batches and not validations:
        raise InputError(f"{log} holds no batch yet; there is nothing to draw")
    drawing = Figure(figsize=(8, 5.4), dpi=150, layout="constrained")
    top, bottom = drawing.subplots(2, 1, sharex=True, height_ratios=(4, 1))
    _draw_losses(top, batches, validations)
    _draw_rate(bottom, batches)
    for panel in (top, bottom):
        tidy(panel)
    last = max(event["batch"] for event in (*batches, *validations))
    bottom.set_xlim(0, max(last, 1))
    bottom.xaxis.set_major_locator(MaxNLocator(integer=True))
    bottom.set_xlabel("batch")
    drawing.suptitle(title(events), fontsize=11)
    save_figure(drawing, target)
    return target


def title(events: Sequence[Event]) -> str:
    """What was trained on what, as far as the log says."""
    recipe = next((event["recipe"] for event in events if event["event"] == "start"), None)
    if recipe is None:
        return "training"
    family = recipe["family"]
    size = f" {family['m']} x {family['n']}" if {"m", "n"} <= set(family) else ""
    return f"{recipe['optimizer']} on {family['name']}{size}"


def running_median(values: Sequence[float], window: int) -> list[float]:
    """Median of the `window` values around each one, those that are not finite left out."""
    half = window // 2
    medians = []
    for i in range(len(values)):
        near = [value for value in values[max(i - half, 0) : i + half + 1] if math.isfinite(value)]
        medians.append(statistics.median(near) if near else math.nan)
    return medians


def _draw_losses(panel: "Axes", batches: Sequence[Event], validations: Sequence[Event]) -> None:
    k = [event["batch"] for event in batches]
    loss = [_number(event["loss"]) for event in batches]
    if batches:
        window = max(5, len(batches) // WINDOWS)
        panel.plot(k, loss, color=LOSS, alpha=0.3, linewidth=0.9, label="training, each batch")
        panel.plot(k, running_median(loss, window), color=LOSS, linewidth=1.8, label=f"median of {window} batches")
    at = [event["batch"] for event in validations]
    validation = [_number(event["loss"]) for event in validations]
    panel.plot(
        at, validation, color=VALIDATION, linewidth=1.3, linestyle=(0, (4, 1.5)), marker="o", markersize=2.5,
        label="validation",
    )  # fmt: skip
    finite = [(value, batch) for value, batch in zip(validation, at, strict=True) if math.isfinite(value)]
    if finite:
        value, batch = min(finite)
        panel.plot(
            [batch], [value], color=BEST, marker="*", markersize=13, markeredgecolor="white", markeredgewidth=0.7,
            linestyle="none", label=f"best validation {value:.5g}, batch {batch}", clip_on=False, zorder=5,
        )  # fmt: skip
    shown = [value for value in (*loss, *validation) if math.isfinite(value)]
    if shown and min(shown) > 0 and max(shown) > WIDE * min(shown):
        panel.set_yscale("log")
    failed = [event["batch"] for event in batches if event["skipped"]]
    if failed:  # along the lower edge, since they may have no loss at all
        panel.plot(
            failed, [0] * len(failed), color=FAILED, marker="|", markersize=12, markeredgewidth=1.2, linestyle="none",
            transform=panel.get_xaxis_transform(), clip_on=False, label=f"failed batches, {len(failed)} of {len(k)}",
        )  # fmt: skip
    panel.set_ylabel("loss")
    panel.legend(frameon=False, fontsize=9)


def _draw_rate(panel: "Axes", batches: Sequence[Event]) -> None:
    rates = [_number(event["rate"]) for event in batches]
    panel.step([event["batch"] for event in batches], rates, where="mid", color=LOSS, linewidth=1.8)
    if rates and max(rates) > min(rates) > 0:
        panel.set_yscale("log")
    panel.margins(y=0.25)
    panel.set_ylabel("learning rate")


def _number(value: float | None) -> float:
    """A gap in the line where there is no number, or one that no axis can show."""
    return math.nan if value is None or abs(value) > SHOWN else value
