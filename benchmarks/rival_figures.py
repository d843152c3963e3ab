"""The figures of docs/rivals.md and of the worst cases in docs/certified.md, from the records.

python benchmarks/rival_figures.py [--out docs/images]
"""

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib import pyplot as plt

from sureprox.base.drawing import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, RED, SKY, save_figure
from sureprox.report.style import DASHED, DOTTED, LONG, SOLID, Style

from _record import RECORDS

SHOWN = {
    "FISTA": Style(GREY, DASHED, "v"),
    "restarted FISTA": Style(BLACK, LONG, "D"),
    "silver steps": Style(SKY, SOLID, "P"),
    "LAH": Style(ORANGE, DASHED, "<"),
    "LAH Accel": Style(RED, SOLID, "o"),
    "LAH Accel, 100 instances": Style(RED, DASHED, "^"),
    "LAH Accel, shift in sight": Style(RED, DOTTED, "s"),
    "Safe-L2O": Style(PURPLE, SOLID, "X"),
    "HyperLISTA": Style(BLUE, LONG, "h"),
    "Sure": Style(GREEN, SOLID, "*", 2.6),
}
SETTING = "lasso 250 x 500"


def rivals(record: dict[str, Any], path: Path) -> None:
    """Mean of F - F* against gradients, in distribution and out of it."""
    curves = record["settings"][SETTING]["curves"]
    figure, axes = plt.subplots(1, len(curves), figsize=(10, 4.2), sharey=True, layout="constrained")
    for axis, (where, found) in zip(axes, curves.items(), strict=True):
        for label, style in SHOWN.items():
            if label not in found:
                continue
            gap = np.array(found[label]["gap"])
            gradients = found[label]["gradients"] * np.arange(len(gap))
            look = {"color": style.colour, "linestyle": style.dashes, "linewidth": style.width}
            axis.plot(gradients, gap, label=label, marker=style.marker, markevery=(3, 15), markersize=5, **look)
        axis.set(title=where, xlabel="gradients", xlim=(0, 120), ylim=(1e-6, 1e3), yscale="log")
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("mean of F - F* over 1,000 instances")
    axes[1].legend(loc="upper right", fontsize=8)
    save_figure(figure, path)


def worst_cases(record: dict[str, Any], path: Path) -> None:
    """Left FISTA's exact worst case beside the theorem, right what was found of each scheme in shares of its bound."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
    rows = record["exact"]
    k = [row["k"] for row in rows]
    left.loglog(k, [row["theorem"] for row in rows], color=GREY, linestyle=DASHED, label="the theorem: 2/(k + 1)²")
    left.loglog(k, [row["proved"] for row in rows], color=RED, label="semidefinite program: no more than this")
    attained = [row["attained"] for row in rows]
    left.loglog(k, attained, "o", color=GREEN, markersize=5, label="attained by f = 0, r = c |x|")
    left.set(title="FISTA, all f and r", xlabel="k", ylabel="largest (F - F*) / (L |x₀ - x*|²)")
    left.grid(alpha=0.3, which="both")
    left.legend(fontsize=8)
    table = record["search"]["table"]
    for scheme, colour in {"certified": RED, "audit": BLUE, "cheap": GREEN}.items():
        mine = {int(name.split("=")[1]): row for name, row in table.items() if name.startswith(scheme)}
        share = [max(v for key, v in row.items() if key not in ("no more than", "theorem")) for row in mine.values()]
        theorem = np.array([row["theorem"] for row in mine.values()])
        ceiling = np.array([row["no more than"] for row in mine.values()])
        right.plot(list(mine), share / theorem, "o-", color=colour, label=f"{scheme}: found")
        right.plot(list(mine), ceiling / theorem, linestyle=DOTTED, color=BLACK)
    right.set(title="an optimizer that means harm, quadratics", xlabel="k", ylabel="share of the theorem's bound")
    right.plot([], [], linestyle=DOTTED, color=BLACK, label="no more than this is possible")
    right.set(ylim=(0, 1), xticks=[20, 24, 28, 32, 36, 40])
    right.grid(alpha=0.3)
    right.legend(fontsize=8, ncols=2, loc="lower right")
    save_figure(figure, path)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    options = parser.parse_args()
    for name, draw, file in (("learned_rivals", rivals, "rivals"), ("worst_cases", worst_cases, "worst_cases")):
        draw(json.loads((RECORDS / f"{name}.json").read_text()), options.out / f"{file}.png")


if __name__ == "__main__":
    main()
