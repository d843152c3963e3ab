"""Figures of docs/performance.md, drawn from the records of iteration_speed.py and throughput.py that are there.

python benchmarks/speed_figures.py [--out docs/images]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib import pyplot as plt

from sureprox.base.drawing import save_figure
from sureprox.evaluation.speed_records import read_speed
from sureprox.report.speed import draw_speed
from sureprox.report.style import BLUE, GREEN, GREY, RED

from _record import RECORDS

mpl.use("Agg")
COLOURS = {"Sure, certified (default)": GREEN, "FISTA with restart": RED, "scikit-learn": BLUE, "celer": GREY}


def throughput(record: dict[str, Any], path: Path) -> None:
    """Problems per second, each to a duality gap of 1e-6 F: as a user calls them."""
    batch, solve = record["setting"]["batch"], record["solve"]
    seconds = {
        "Sure, certified (default)": solve["default"]["seconds"],
        "FISTA with restart": solve["fista-restart"]["seconds"],
    }
    for package in ("scikit-learn", "celer"):
        if record[package] is not None:
            seconds[package] = record[package]["seconds"]
    figure, axis = plt.subplots(figsize=(6.5, 0.5 * len(seconds) + 0.9), layout="constrained")
    names = list(seconds)[::-1]
    rates = [batch / seconds[name] for name in names]
    bars = axis.barh(names, rates, color=[COLOURS[name] for name in names], height=0.6)
    axis.bar_label(bars, [f" {rate:,.0f}" for rate in rates], fontsize=8)
    axis.set_xlim(0, 1.15 * max(rates))
    axis.set_xlabel("problems per second, LASSO 250 x 500 to a duality gap of 1e-6 F", fontsize=9)
    axis.tick_params(labelsize=9)
    axis.spines[["top", "right"]].set_visible(False)
    save_figure(figure, path, dpi=150)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description="Figures of docs/performance.md from records.")
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    out = parser.parse_args().out
    for record in sorted(RECORDS.glob("iteration_speed*.json")):
        draw_speed(read_speed(record), out / f"{record.stem}.png")
        print(out / f"{record.stem}.png")
    for record in sorted(RECORDS.glob("throughput*.json")):
        throughput(json.loads(record.read_text()), out / f"{record.stem}.png")
        print(out / f"{record.stem}.png")


if __name__ == "__main__":
    main()
