"""The chart of the README: seconds of sureprox and of others, on a GPU and on a CPU, from records; who loses is shown.

python benchmarks/readme_figure.py [--out docs/images/seconds.png]
"""

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from sureprox.base.drawing import save_figure
from sureprox.report.style import BLUE, GREEN, GREY

from _record import RECORDS

COLOURS = {"sureprox": GREEN, "scikit-learn": BLUE, "celer": GREY}


@dataclass(frozen=True)
class Task:
    """Seconds by package."""

    name: str
    seconds: dict[str, float]


@dataclass(frozen=True)
class Machine:
    """What sureprox ran on, what the others ran on, and the tasks."""

    title: str
    tasks: list[Task]


def machine(device: str) -> Machine:
    """From throughput_DEVICE.json and sklearn_speed_DEVICE.json."""
    batch, estimators = (
        json.loads((RECORDS / f"{kind}_{device}.json").read_text()) for kind in ("throughput", "sklearn_speed")
    )
    size = batch["setting"]
    lassos = {"sureprox": batch["solve"]["default"]["seconds"]}
    lassos |= {package: batch[package]["seconds"] for package in ("scikit-learn", "celer") if batch[package]}
    tasks = [Task(f"{size['batch']:,} LASSO\n{size['m']} x {size['n']}", lassos)]
    for name, key in (
        ("sparse codes\n{patches:,} x {atoms}", "sparse_encode"),
        ("LassoCV\n{rows} x {columns}", "LassoCV"),
    ):
        tasks.append(Task(name.format(**estimators[key]["setting"]), estimators[key]["seconds"]))
    return Machine(title(batch["machine"]), tasks)


def title(where: dict[str, Any]) -> str:
    cores = f"{where['cores']} CPU cores"
    return f"GPU ({where['gpu']}); the others on {cores}" if where["gpu"] else f"CPU: everybody on {cores}"


def draw(machines: list[Machine], path: Path) -> None:
    """Bars on an axis of decades: the shorter, the quicker."""
    figure, axes = plt.subplots(1, len(machines), figsize=(5 * len(machines), 2.9), layout="constrained", sharex=True)
    for axis, one in zip(axes, machines, strict=True):
        ticks, labels, place = [], [], 0
        for task in one.tasks:
            fastest = min(task.seconds.values())
            first = place
            for package, seconds in task.seconds.items():
                axis.barh(place, seconds, color=COLOURS[package], height=0.9, label=None if first else package)
                weight = "bold" if seconds == fastest else "normal"
                axis.text(seconds * 1.06, place, f"{seconds:.3g} s", va="center", fontsize=8, weight=weight)
                place += 1
            ticks.append((first + place - 1) / 2)
            labels.append(task.name)
            place += 1
        axis.set_yticks(ticks, labels, fontsize=8)
        axis.set_title(one.title, fontsize=9)
        axis.set_xscale("log")
        axis.set_xlim(0.004, 20)
        axis.xaxis.set_major_formatter("{x:g}")
        axis.tick_params(axis="x", labelsize=8)
        axis.set_xlabel("seconds (log scale), shorter is faster", fontsize=8)
        axis.tick_params(axis="y", length=0)
        axis.spines[["top", "right"]].set_visible(False)
        axis.invert_yaxis()
    handles = [plt.Rectangle((0, 0), 1, 1, color=colour) for colour in COLOURS.values()]
    figure.legend(handles, COLOURS, fontsize=8, frameon=False, loc="outside lower center", ncols=len(COLOURS))
    save_figure(figure, path, dpi=150)
    plt.close(figure)


def main() -> None:
    mpl.use("Agg")
    parser = argparse.ArgumentParser(description="The chart of the README, from records.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "seconds.png")
    path = parser.parse_args().out
    draw([machine("cuda"), machine("cpu")], path)
    print(path)


if __name__ == "__main__":
    main()
