"""What a record of speed says: a table, ratios to ISTA and to the floor, growth with the batch, and a figure."""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

from sureprox.base.drawing import GREY, SKY, save_figure, tidy
from sureprox.evaluation.speed_records import SpeedRecord
from sureprox.report.battery import LABELS
from sureprox.report.style import styles

SATURATED = 1.6  # of the time, at least, if the batch is twice as large: then the device is busy
BEND = 0.2  # relative distance from a straight line that has to be explained


@dataclass(frozen=True)
class Cost:
    """An optimizer at the largest batch: seconds per iteration, and how often that is what others take."""

    name: str
    mode: str
    seconds: float
    of_ista: float | None  # plain ISTA, two products with A
    of_fast_ista: float | None  # ISTA in the same mode
    of_floor: float | None  # reading every A twice; with one A for all, reading and writing the state


def label(name: str) -> str:
    """The name of an optimizer as figures show it."""
    alone = {"ista": "ISTA"} | LABELS
    return ("certified " if name != _alone(name) else "") + alone.get(_alone(name), _alone(name))


def _alone(name: str) -> str:
    """The optimizer that is certified, or the one itself."""
    return name.removeprefix("certified ")


def pairs(record: SpeedRecord) -> list[tuple[str, str]]:
    return list(dict.fromkeys((t.name, t.mode) for t in record.timings))


def costs(record: SpeedRecord) -> list[Cost]:
    batch = record.batches[-1]
    ista = record.best("ista", "plain").get(batch)
    found = []
    for name, mode in pairs(record):
        seconds, fast = record.best(name, mode).get(batch), record.best("ista", mode).get(batch)
        floor = record.traffic(name, mode).get(batch) if record.shared else record.floor(batch, 2)
        if seconds is not None:
            found.append(Cost(name, mode, seconds, *(_over(seconds, other) for other in (ista, fast, floor))))
    return found


def _over(seconds: float, other: float | None) -> float | None:
    return None if other is None else seconds / other


def table(record: SpeedRecord) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: milliseconds per iteration for every batch size."""
    rows = []
    for name, mode in pairs(record):
        times = record.best(name, mode)
        rows.append([label(name), mode, *(f"{1e3 * times[b]:.3f}" if b in times else "" for b in record.batches)])
    for what, floor in floors(record).items():
        rows.append([what, "floor", *(f"{1e3 * floor[b]:.3f}" if b in floor else "" for b in record.batches)])
    return ["optimizer", "mode", *(f"{batch:,}" for batch in record.batches)], rows


def floors(record: SpeedRecord) -> dict[str, dict[int, float]]:
    """By what is moved, batch size: seconds. One A for all is nothing; then it is the state of an optimizer."""
    if not record.shared:
        reads = {1: "every A read once", 2: "every A read twice"}
        return {what: {b: record.floor(b, count) for b in record.batches} for count, what in reads.items()}
    fast = {name: mode for name, mode in pairs(record) if mode != "plain" and name == _alone(name)}
    states = {f"state of {label(name)}": record.traffic(name, mode) for name, mode in fast.items()}
    return {what: floor for what, floor in states.items() if floor}


def bends(record: SpeedRecord) -> list[str]:
    """Where the time of a batch is more than a fifth off the straight line through the saturated batch sizes."""
    found = []
    for name, mode in pairs(record):
        times = _saturated(record.best(name, mode))
        if len(times) < 3:
            continue
        start, slope = _line(times)
        for batch, seconds in times.items():
            off = seconds / (start + slope * batch) - 1
            if abs(off) > BEND:
                found.append(f"{label(name)} ({mode}), batch {batch:,}: {100 * off:+.0f} %")
    return found


def _saturated(times: dict[int, float]) -> dict[int, float]:
    """The batch sizes from which on more problems cost more time."""
    sizes = sorted(times)
    for i, (small, large) in enumerate(pairwise(sizes)):
        growth = (times[large] / times[small]) ** (1 / math.log2(large / small))  # for each doubling
        if growth >= SATURATED:
            return {size: times[size] for size in sizes[i:]}
    return {}


def _line(times: dict[int, float]) -> tuple[float, float]:
    """(a, c) with a + c b close to the times in relative terms: least squares with weights 1 / time^2."""
    weights = {b: 1 / t**2 for b, t in times.items()}
    total = sum(weights.values())
    mean = sum(w * b for b, w in weights.items()) / total
    level = sum(weights[b] * t for b, t in times.items()) / total
    slope = sum(weights[b] * (b - mean) * (t - level) for b, t in times.items())
    slope /= sum(w * (b - mean) ** 2 for b, w in weights.items())
    return level - slope * mean, slope


def markdown(record: SpeedRecord) -> str:
    headings, rows = table(record)
    lines = [f"Milliseconds per iteration, {_problems(record)}, float32. {record.protocol}.", ""]
    lines += [f"| {' | '.join(headings)} |", "|" + " --- |" * len(headings)]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    lines += ["", f"At batch {record.batches[-1]:,}, in iterations of others:", ""]
    floor = "of the traffic of its state" if record.shared else "of the two-reads floor"
    lines += [f"| optimizer | mode | of plain ISTA | of ISTA in that mode | {floor} |"]
    lines += ["| --- | --- | --- | --- | --- |"]
    for cost in costs(record):
        ratios = (cost.of_ista, cost.of_fast_ista, cost.of_floor)
        cells = " | ".join("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
        lines.append(f"| {label(cost.name)} | {cost.mode} | {cells} |")
    off = bends(record)
    lines += ["", "Off the straight line by more than 20 %: " + ("; ".join(off) if off else "nothing") + "."]
    return "\n".join(lines) + "\n"


def draw_speed(record: SpeedRecord, path: Path) -> None:
    """Time of an iteration against the batch size. Solid: as `solve` can take it, dashed: certified; dotted: plain."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 4.6), layout="constrained")
    axis = figure.add_subplot(1, 1, 1)
    look = styles(list(dict.fromkeys(label(_alone(name)) for name, _ in pairs(record))))
    if "Sure light" in look:  # whose dashes mean something else here
        look["Sure light"] = replace(look["Sure light"], colour=SKY)
    for name, mode in pairs(record):
        plain, certified = mode == "plain", name != _alone(name)
        if (plain and certified) or (mode == "compiled" and record.best(name, "kernels")):  # one line each
            continue  # one line too many; the table has it
        times, style = record.best(name, mode), look[label(_alone(name))]
        axis.plot(
            list(times),
            [1e3 * t for t in times.values()],
            color=style.colour,
            marker=style.marker,
            markerfacecolor="white" if plain else style.colour,
            markersize=4,
            linestyle="dotted" if plain else "dashed" if certified else "solid",
            linewidth=1.0 if plain else 1.6,
            label=f"{label(name)}, plain" if plain else label(name),
        )
    for number, (what, floor) in enumerate(floors(record).items()):
        colour = look[what.removeprefix("state of ")].colour if record.shared else GREY
        dashes = (0, (4, 2)) if number else (0, (1, 1))
        places = list(floor), [1e3 * seconds for seconds in floor.values()]
        axis.plot(*places, color=colour, linestyle=dashes, linewidth=1.0, label=f"floor: {what}")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(record.batches, [f"{batch:,}" for batch in record.batches])
    axis.minorticks_off()
    axis.set_xlabel("problems in the batch", fontsize=9)
    axis.set_ylabel("milliseconds per iteration", fontsize=9)
    axis.set_title(_problems(record), fontsize=9)
    tidy(axis)
    axis.tick_params(labelsize=8)
    axis.legend(fontsize=7, frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    save_figure(figure, path, dpi=150)


def _problems(record: SpeedRecord) -> str:
    return f"LASSO {record.m} x {record.n}, " + ("one A for all" if record.shared else "an A for each problem")
