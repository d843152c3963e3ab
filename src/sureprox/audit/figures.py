"""The figures of the audit: gains against their bounds, and how the terms of the bound grow with s."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from sureprox.audit.models import ModelAudit
from sureprox.audit.report import AuditReport
from sureprox.base.drawing import BLACK, BLUE, GREEN, PURPLE, RED, SKY, save_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CEILING = 1e18  # of the first figure; bounds beyond it are drawn on it


def draw(report: AuditReport, directory: Path) -> list[Path]:
    """gains.png and growth.png; none where no model was audited."""
    if not report.models:
        return []
    made = [directory / "gains.png", directory / "growth.png"]
    gains(report.models, made[0])
    growth(report, made[1])
    return made


def relative(found: ModelAudit, value: Tensor) -> Tensor:
    """(K,): median over the instances of value / (F'(x'_{k-1}) - F'*); NaN once the gap is rounding."""
    gap = found.gap[:-1]
    ratio = torch.where(found.unsolved, value / gap, torch.nan)
    return ratio.nanmedian(1).values


def gains(models: Sequence[ModelAudit], path: Path) -> None:
    """One panel for each model and scenario: what a step gains, and what the theory allows it, over the gap."""
    from matplotlib.figure import Figure

    names = list(dict.fromkeys(found.model for found in models))
    scenarios = list(dict.fromkeys(found.scenario.name for found in models))
    figure = Figure(figsize=(4.3 * len(scenarios), 3.4 * len(names) + 1), dpi=150, layout="constrained")
    panels = figure.subplots(len(names), len(scenarios), squeeze=False, sharey=True, sharex=True)
    for found in models:
        panel = panels[names.index(found.model)][scenarios.index(found.scenario.name)]
        _panel(panel, found)
        panel.set_title(f"{found.model}, {found.scenario.name}", fontsize=10)
    for row in panels:
        row[0].set_ylabel("change of F over the gap")
    for panel in panels[-1]:
        panel.set_xlabel("iteration k")
    handles, labels = panels[0][-1].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=9)
    figure.suptitle("What a step gains, and what the bounds allow (above 0: the bound proves nothing)", fontsize=12)
    save_figure(figure, path)


def _panel(panel: "Axes", found: ModelAudit) -> None:
    k = range(1, found.steps + 1)
    lines = (
        ("measured", found.step.lhs, BLACK, "solid"),
        ("Theorem 6, assumption-free", found.step.free.value, BLUE, (0, (5, 2))),
        ("in norms, secant constants", found.step_norms.free.value, RED, (0, (2, 1))),
    )
    for label, value, colour, style in lines:
        panel.plot(k, relative(found, value).tolist(), color=colour, linestyle=style, linewidth=1.8, label=label)
    marks = {"sampled": (GREEN, "^", "sampled Jacobian (lower estimate)"), "product": (PURPLE, "s", "product of norms")}
    for way, (colour, marker, label) in marks.items():
        points = []
        for at in found.constants:
            gap = found.gap[at.k - 1]
            ratio = torch.tensor(at.bounds[way], dtype=gap.dtype) / gap
            if bool(found.unsolved[at.k - 1].all()):
                points.append((at.k, min(float(ratio.median()), CEILING)))
        (drawn,) = panel.plot(
            [p[0] for p in points],
            [p[1] for p in points],
            color=colour,
            marker=marker,
            linestyle="none",
            markersize=5,
            label=label,
            clip_on=False,  # those beyond the ceiling sit on it, whole
        )
        drawn.set_in_layout(False)
    last = relative(found, found.step.lhs)
    if bool(last[-1].isnan()):
        k_end = int((~last.isnan()).sum())
        panel.axvline(k_end, color="0.6", linewidth=1, linestyle=":")
        note = panel.annotate("solved to rounding", (k_end + 1, 1e6), color="0.35", fontsize=8)
        note.set_in_layout(False)
    panel.axhline(0, color="0.4", linewidth=1)
    panel.set_yscale("symlog", linthresh=1)
    panel.set_ylim(-1.3, CEILING)
    panel.set_yticks([-1, 0, 1, 1e3, 1e6, 1e9, 1e12, 1e15])
    tidy(panel)
    if found.diverged:
        panel.annotate(f"diverged after {found.steps} steps", (0.98, 0.02), xycoords="axes fraction", ha="right")


def growth(report: AuditReport, path: Path) -> None:
    """One panel for each model: the terms of the one-step bound over the gap, and the shifts, against s."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(5.6 * len(report.growths), 4.6), dpi=150, layout="constrained")
    panels = figure.subplots(1, len(report.growths), squeeze=False, sharey=True)[0]
    colours = (BLACK, BLUE, GREEN, RED, PURPLE, SKY)
    for panel, found in zip(panels, report.growths, strict=True):
        for (label, values), colour in zip(found.terms.items(), colours, strict=True):
            shown = [value if value > 0 else float("nan") for value in values]
            dashed = label.startswith("|s")
            panel.plot(
                found.s, shown, color=colour, marker="o", markersize=4, linestyle="--" if dashed else "-", label=label
            )
        panel.set_xscale("symlog", linthresh=1)
        panel.set_yscale("log")
        panel.set_xticks([0, 1, 10, 100], ["0", "1", "10", "100"])
        panel.set_xlabel("s, added to every coordinate of the start")
        panel.set_title(found.model, fontsize=11)
        tidy(panel)
    panels[0].set_ylabel("median of the first 10 steps")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=9)
    figure.suptitle("How the terms of the one-step bound, over the gap F - F*, and the shifts grow with s", fontsize=12)
    save_figure(figure, path)
