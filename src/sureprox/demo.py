"""The demo: a race on the paper's LASSO problems, from the usual starting points and from ones far away."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sureprox.base.drawing import BLACK, BLUE, GREEN, ORANGE, PURPLE, RED, SKY, save_figure, tidy
from sureprox.base.errors import InputError
from sureprox.optimizers import FISTA, ISTA, Optimizer, load, pretrained
from sureprox.solve.reference import reference
from sureprox.solve.solve import Progress, Solution, Status, solve
from sureprox.sources import LassoFamily
from sureprox.sources.families import Family

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from rich.table import Table

# name in the table: pretrained name
LEARNED = {"GO-Math-L2O": "go-math-l2o/lasso", "L2O-PA": "l2o-pa/lasso", "Sure": "sure/lasso"}
LEVELS = (1e-3, 1e-6, 1e-9)  # mean relative gaps whose iteration counts are reported
SCENARIOS = {"in distribution": 0.0, "start moved by +10": 10.0}  # name: what is added to the normal x0
TOL = 1e-12  # of the reference and of each run; gaps below it say nothing
CEILING = 1e6  # of the figure: curves above it are drawn along the top edge and marked

# The line styles serve print, and readers who cannot tell the colours apart.
STYLES: tuple[tuple[str, Any], ...] = (
    (BLACK, (0, (1, 1))),
    (BLUE, (0, (5, 2))),
    (RED, "solid"),
    (GREEN, (0, (4, 1, 1, 1))),
    (PURPLE, (0, (2, 1))),
    (ORANGE, (0, (8, 2, 2, 2))),
    (SKY, (0, (3, 1, 1, 1, 1, 1))),
)


def contestants() -> dict[str, Optimizer[Any]]:
    """Who takes part, in the order of the table and the legend; of `LEARNED`, those whose weights are there."""
    classical: dict[str, Optimizer[Any]] = {"ISTA": ISTA(), "FISTA": FISTA(), "FISTA with restart": FISTA(restart=True)}
    absent = missing()
    return classical | {label: load(name) for label, name in LEARNED.items() if label not in absent}


def missing() -> list[str]:
    """Which of `LEARNED` are not among the pretrained optimizers."""
    there = pretrained()
    return [label for label, name in LEARNED.items() if name not in there]


@dataclass(frozen=True)
class Curve:
    """The run of one optimizer in one scenario: mean over the batch of (F(x_k) - F*) / F*, k = 0, 1, ..."""

    scenario: str
    optimizer: str
    gap: Tensor  # (K + 1,); infinite once an instance has diverged
    max_iter: int
    batch: int
    solved: int  # instances with status converged
    diverged: int  # instances with status diverged

    def iterations_to(self, level: float) -> int | None:
        """The first k whose mean relative gap is at most `level`."""
        reached = (self.gap <= level).nonzero()
        return int(reached[0]) if len(reached) else None


def relative_gap(solution: Solution, best: Tensor) -> Tensor:
    """(F(x_k) - F*) / F* of shape (K + 1, B); infinite from the iteration at which an instance diverged.

    The history of a diverged instance stays at its last finite point, which would hide the divergence.
    """
    gap = (solution.history["objective"] - best) / best
    k = torch.arange(len(gap), device=gap.device).unsqueeze(1)
    lost = torch.tensor([s is Status.DIVERGED for s in solution.status], device=gap.device)
    return gap.masked_fill(lost & (k >= solution.iterations), torch.inf)


def race(
    optimizers: Mapping[str, Optimizer[Any]],
    family: Family,
    scenarios: Mapping[str, float] = SCENARIOS,
    *,
    batch: int = 32,
    max_iter: int = 300,
    seed: int = 0,
    progress: Callable[[str, str, Progress], None] | None = None,
) -> list[Curve]:
    """Run every optimizer in every scenario, on the same problems and in float64."""
    if batch < 1 or max_iter < 1:
        raise InputError(f"batch is {batch} and the number of iterations {max_iter}; both must be at least 1")
    generator = torch.Generator().manual_seed(seed)
    problem = family.sample(batch, generator, torch.float64)
    x0 = family.start(batch, generator, torch.float64)
    best = reference(problem, TOL).objective
    curves = []
    for scenario, shift in scenarios.items():
        for name, optimizer in optimizers.items():

            def report(seen: Progress, scenario: str = scenario, name: str = name) -> None:
                if progress is not None:
                    progress(scenario, name, seen)

            solution = solve(
                problem, optimizer, x0 + shift, max_iter, TOL, certify=False, record=("objective",), callback=report
            )
            statuses = list(solution.status)
            curves.append(
                Curve(
                    scenario=scenario,
                    optimizer=name,
                    gap=relative_gap(solution, best).mean(1),
                    max_iter=max_iter,
                    batch=batch,
                    solved=statuses.count(Status.CONVERGED),
                    diverged=statuses.count(Status.DIVERGED),
                )
            )
    return curves


def row(curve: Curve) -> tuple[str, ...]:
    """One line of the table: optimizer, iterations to each of `LEVELS`, instances solved, instances diverged."""
    counts = [curve.iterations_to(level) for level in LEVELS]
    cells = [f"not in {curve.max_iter}" if count is None else str(count) for count in counts]
    return curve.optimizer, *cells, f"{curve.solved}/{curve.batch}", f"{curve.diverged}/{curve.batch}"


def table(curves: Sequence[Curve]) -> "Table":
    """Iterations to each of `LEVELS`, and how the runs ended; one section for each scenario."""
    from rich import box
    from rich.table import Table

    title = "iterations to a mean relative gap (F - F*)/F* of"
    made = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    made.add_column("", no_wrap=True)
    for heading in (*(f"{level:.0e}" for level in LEVELS), "solved", "diverged"):
        made.add_column(heading, justify="right", no_wrap=True)
    for scenario in dict.fromkeys(curve.scenario for curve in curves):
        made.add_row(scenario, style="bold")
        for name, *cells in (row(curve) for curve in curves if curve.scenario == scenario):
            made.add_row(f"  {name}", *cells)
        made.add_section()
    return made


def figure(curves: Sequence[Curve], path: Path, title: str) -> None:
    """One panel for each scenario: mean relative gap, on a log scale, against iterations."""
    from matplotlib.figure import Figure

    scenarios = list(dict.fromkeys(curve.scenario for curve in curves))
    names = list(dict.fromkeys(curve.optimizer for curve in curves))
    styles = {name: STYLES[i % len(STYLES)] for i, name in enumerate(names)}
    drawing = Figure(figsize=(5.2 * len(scenarios), 4.6), dpi=150, layout="constrained")
    panels = drawing.subplots(1, len(scenarios), sharey=True, squeeze=False)[0]
    for panel, scenario in zip(panels, scenarios, strict=True):
        for curve in curves:
            if curve.scenario == scenario:
                _draw(panel, curve, *styles[curve.optimizer])
        panel.set_title(scenario, fontsize=11)
        panel.set_xlabel("iteration")
        panel.set_xlim(0, max(curve.max_iter for curve in curves))
        tidy(panel)
    panels[0].set_ylabel("mean relative gap  (F − F*) / F*")  # noqa: RUF001
    panels[0].set_yscale("log")
    top = max((float(curve.gap[curve.gap.isfinite()].max()) for curve in curves), default=CEILING)
    escaped = any(_first_above(curve) is not None for curve in curves)
    panels[0].set_ylim(TOL, CEILING if escaped else min(CEILING, 3 * top))
    handles, labels = panels[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)
    drawing.suptitle(title, fontsize=12)
    save_figure(drawing, path)


def _first_above(curve: Curve) -> int | None:
    above = (~(curve.gap <= CEILING)).nonzero()  # written so that NaN counts as above
    return int(above[0]) if len(above) else None


def _draw(panel: "Axes", curve: Curve, colour: str, style: Any) -> None:
    """The curve, clipped to the axis; where it leaves through the top, a marker that says so."""
    visible = curve.gap.nan_to_num(nan=CEILING, posinf=CEILING).clamp(TOL / 10, CEILING)
    panel.plot(range(len(visible)), visible.tolist(), color=colour, linestyle=style, linewidth=2, label=curve.optimizer)
    first = _first_above(curve)
    if first is None:
        return
    what = f"above {CEILING:.0e} from k = {first}"
    if curve.diverged:
        what += f", {curve.diverged} of {curve.batch} diverged"
    marked = sum(line.get_marker() == "^" for line in panel.lines)
    panel.plot([first], [CEILING], marker="^", markersize=9, color=colour, clip_on=False, linestyle="none", zorder=5)
    panel.annotate(
        f"{curve.optimizer}: {what}",
        xy=(first, CEILING),
        xytext=(0.98, 0.95 - 0.06 * marked),
        textcoords="axes fraction",
        ha="right",
        va="top",
        fontsize=9,
        color=colour,
        bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1},
    )


def demo(out: Path, max_iter: int = 300, batch: int = 32, seed: int = 0) -> None:
    """Run the race with a progress bar, print the table and write the figure to `out`."""
    import matplotlib  # noqa: F401  a missing extra should show before the race, not after it
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    console = Console(markup=False, emoji=False)
    family = LassoFamily()
    optimizers = contestants()
    title = f"{batch} random LASSO problems, {family.m} x {family.n}"
    console.print(f"{title}, float64, seed {seed}, at most {max_iter} iterations")
    for label in missing():
        console.print(f"{label} is not among the pretrained optimizers yet", highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        tasks = {
            (scenario, name): bars.add_task(f"{name}, {scenario}", total=max_iter, start=False)
            for scenario in SCENARIOS
            for name in optimizers
        }

        def show(scenario: str, name: str, seen: Progress) -> None:
            task = tasks[scenario, name]
            if seen.k == 1:
                bars.start_task(task)
                if not console.is_terminal:
                    console.print(f"  {name}, {scenario} ...")
            bars.update(task, completed=seen.k, total=seen.max_iter if seen.unfinished else seen.k)

        curves = race(optimizers, family, batch=batch, max_iter=max_iter, seed=seed, progress=show)
    console.print(table(curves))
    console.print(f"solved: duality gap at most {TOL:.0e} of F*; F* itself is known to that precision")
    figure(curves, out, title)
    console.print(f"figure: {out}")
