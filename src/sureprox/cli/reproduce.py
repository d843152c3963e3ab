"""`sureprox reproduce`: run figures of the paper into records, draw them, and judge the paper's claims."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn
from rich.table import Table

from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.cli import INTERRUPTED
from sureprox.cli.choices import chosen_places
from sureprox.cli.tables import Description, line_console, table_console
from sureprox.evaluation import FIGURES, FULL, GROUPS, QUICK, FigureRecord, Reproduction, Request
from sureprox.evaluation.ahead import compute_ahead
from sureprox.evaluation.figures import FigureSpec, Line
from sureprox.evaluation.record_files import read_figure, read_seeds
from sureprox.evaluation.reproduction import Step
from sureprox.report.claims import Judgement, count_text, judge, markdown
from sureprox.report.compare import LEVELS, level_text
from sureprox.report.figures import draw_figure
from sureprox.report.spread import merged
from sureprox.sources.real import RECIPES


def chosen_figures(what: Sequence[str]) -> list[str]:
    """The figures that these names stand for, each once, in their order."""
    known = [*FIGURES, *GROUPS]
    for name in what:
        if name not in known:
            raise InputError(f"no figure {name!r}; choose from fig1 to fig{len(FIGURES)}, {', '.join(GROUPS)}")
    wanted = {figure for name in what for figure in GROUPS.get(name, (name,))}
    return [name for name in FIGURES if name in wanted]


def chosen_request(
    quick: bool,
    full: bool,
    instances: int | None,
    iterations: int | None,
    seed: int,
    device: torch.device,
    dictionary: str = "ours",
) -> Request:
    """How much is run: full on a GPU, and only if asked for elsewhere."""
    if quick and full:
        raise InputError("--quick and --full are given; choose one")
    if not quick and not full and device.type == "cpu":
        raise InputError(
            f"the full run ({FULL.instances:,} problems, {FULL.iterations:,} iterations) takes many hours without a "
            "GPU; add --quick for minutes, or --full to run it all the same"
        )
    if dictionary not in RECIPES:
        raise InputError(f"dictionary is {dictionary!r}; choose one of {', '.join(RECIPES)}")
    base = QUICK if quick else FULL
    count, steps = instances or base.instances, iterations or base.iterations
    return replace(base, instances=count, iterations=steps, seed=seed, dictionary=dictionary)


def run(
    figures: Sequence[str],
    request: Request,
    device: torch.device,
    out: Path,
    records: Path,
    *,
    weights: Path | None,
    also: Sequence[str] = (),
    compute: bool,
    draw: bool,
    cluster: str | None = None,
) -> None:
    """Compute the records that are not there, draw the figures, write and print the table of claims."""
    if draw:
        import matplotlib  # noqa: F401  a missing extra should show before the work, not after it
    console = line_console()
    if device.type == "cpu":
        torch.set_num_threads(1)  # on busy cores, threads that wait for each other made this twenty times slower
    if compute:
        console.print(_announcement(figures, request, device))
        specs = [FIGURES[name].joined(also) for name in figures]
        made = _compute(console, specs, request, device, out, records, weights, cluster)
    else:
        made = _kept(figures, records)
    _tell_missing(console, made)
    if draw:
        for record in made:
            draw_figure(record, out, spread=not compute and any(records.glob("seed-*/fig*.json")))
        console.print(f"figures: {out}")
    console.print(f"records: {records}")
    _claims(console, records, out)


def _kept(figures: Sequence[str], records: Path) -> list[FigureRecord]:
    """These figures as they are on record; over several training seeds, their medians."""
    seeds = read_seeds(records)
    if len(seeds) == 1:
        return [read_figure(records / f"{name}.json") for name in figures]
    return [merged([found[name] for found in seeds if name in found]) for name in figures]


def _compute(
    console: Console,
    specs: Sequence[FigureSpec],
    request: Request,
    device: torch.device,
    out: Path,
    records: Path,
    weights: Path | None,
    cluster: str | None,
) -> list[FigureRecord]:
    total = sum(len(spec.lines) for spec in specs)
    shown = (Description(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("", total=total)

        def heard(step: Step) -> None:
            line = f"{step.figure}: {step.line.optimizer}, {step.line.scenario.name}"
            bars.update(task, advance=1, description=line)

        work = Reproduction(request, out / "work", device, weights, heard)
        made = []
        try:
            if cluster is not None:
                _compute_on(cluster, work, specs, bars, console)
            for spec in specs:
                made.append(work.figure(spec, records / f"{spec.name}.json"))
                console.print(f"{spec.name}: {len(made[-1].curves)} curves, {spec.title}")
        except KeyboardInterrupt:
            console.print(f"interrupted; the curves that are done are in {out / 'work'}: the same command goes on")
            raise typer.Exit(INTERRUPTED) from None
    return made


def _compute_on(
    cluster: str, work: Reproduction, specs: Sequence[FigureSpec], bars: Progress, console: Console
) -> None:
    """The curves of all these figures that are not there, by the workers of a cluster."""
    task = bars.add_task(f"curves {chosen_places(cluster)}", total=None)

    def heard(line: Line, done: int, total: int) -> None:
        bars.update(task, completed=done, total=total, description=f"{line.optimizer}, {line.scenario.name}")

    count = compute_ahead(work, specs, cluster, heard)
    bars.remove_task(task)
    console.print(f"{count} curves computed {chosen_places(cluster)}")


def _announcement(figures: Sequence[str], request: Request, device: torch.device) -> str:
    size = f"{request.instances:,} instances and {request.iterations:,} iterations"
    shrunk = (
        f" instead of the {FULL.instances:,} and {FULL.iterations:,} of the paper"
        if (request.instances, request.iterations) != (FULL.instances, FULL.iterations)
        else " as in the paper"
    )
    count = f"{len(figures)} figures" if len(figures) > 1 else figures[0]
    return f"{count}, {request.mode}: {size}{shrunk}, seed {request.seed}, {request.dtype} on {device.type}"


def _tell_missing(console: Console, made: Sequence[FigureRecord]) -> None:
    reasons: dict[str, list[str]] = {}
    for record in made:
        for entry in record.missing:
            reasons.setdefault(entry.reason, []).append(record.figure)
    for reason, names in reasons.items():
        count = "1 curve" if len(names) == 1 else f"{len(names)} curves"
        console.print(f"not available: {reason} ({count} of {', '.join(dict.fromkeys(names))})")


def _claims(console: Console, records: Path, out: Path) -> None:
    """Judge what all records in the directory allow to judge."""
    seeds = read_seeds(records)
    judgements = judge(seeds)
    modes = sorted({record.mode for found in seeds for record in found.values()})
    there = {name for found in seeds for name in found}
    out.mkdir(parents=True, exist_ok=True)
    path = out / "claims.md"
    write_atomically(path, markdown(judgements, " and ".join(modes), len(seeds)).encode())
    table_console().print(_table([entry for entry in judgements if there.issuperset(entry.sentence.figures)]))
    console.print(count_text(judgements))
    console.print(f"claims: {path}")


def _table(judgements: Sequence[Judgement]) -> Table:
    from rich import box

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_lines=True)
    table.add_column("")
    for heading, ratio in (("the paper says", 3), *((level_text(level), 1) for level in LEVELS), ("measured", 5)):
        table.add_column(heading, ratio=ratio)
    for entry in judgements:
        verdicts = (verdict.value for verdict in entry.verdicts)
        table.add_row(
            entry.sentence.name, entry.sentence.says, *verdicts, entry.measured or f"missing: {entry.missing}"
        )
    return table
