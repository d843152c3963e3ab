"""`sureprox search`: from a recipe and ranges to trials, and a table of them."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from sureprox.base.errors import ConfigError
from sureprox.cli import INTERRUPTED
from sureprox.cli.choices import chosen_places
from sureprox.cli.tables import Description, line_console, new_table, table_console
from sureprox.cli.train import DEVICES, pairs
from sureprox.training import Ending, Recipe, Search, TrialRow, preset
from sureprox.training import search as run_search
from sureprox.training.config import override
from sureprox.training.recipe_files import described_recipe, read_toml
from sureprox.training.space import ARGUMENTS, Space, Value, read_space

NONE_COMPLETED = 1
SHOWN = 20  # rows of the table; all are in the summary


def chosen(
    what: str, optimizer: str | None, arguments: Sequence[str], changes: Sequence[str]
) -> tuple[Recipe, Space | None]:
    """The recipe that is varied, and how: None for the default ranges."""
    space: Space | None = None
    if not what.endswith(".toml"):
        recipe = preset(what, optimizer, **pairs("--argument", arguments))
    elif optimizer is None and not arguments:
        content = read_toml(what)
        space = read_space(content.pop("search")) if "search" in content else None
        recipe = described_recipe(content)
    else:
        raise ConfigError(f"{what} is given with --optimizer or --argument; the file says both")
    return replace(recipe, training=override(recipe.training, pairs("--set", changes))), space


def run(
    recipe: Recipe,
    space: Space | None,
    out: Path,
    *,
    trials: int,
    cluster: str | None,
    device: str,
    as_json: bool,
    **options: Any,
) -> None:
    """Run the trials that are missing, show a line for each and the table; the exit code says how it went."""
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; choose one of {', '.join(DEVICES)}")
    console = line_console(stderr=as_json)
    shown = (Description(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(f"trials {chosen_places(cluster)}", total=trials)

        def heard(row: TrialRow) -> None:
            bars.update(task, completed=row.number + 1)
            console.print(line(row))

        made = run_search(
            recipe,
            out,
            space=space,
            trials=trials,
            cluster=cluster,
            device=None if device == "auto" else device,
            progress=heard,
            **options,
        )
    if as_json:
        best = None if made.best is None else made.best.number
        print(json.dumps({"out": str(out), "best": best, "trials": made.rows()}, indent=2, allow_nan=False))
    else:
        show(made)
    conclude(console, made, trials)


def line(row: TrialRow) -> str:
    """trial 3: completed, best validation 1.23: learning_rate 0.012, clip 1.0."""
    values = ", ".join(f"{_short(key)} {_number(value)}" for key, value in row.values.items())
    if row.ending is Ending.FAILED:
        return f"trial {row.number}: failed: {row.error}: {values}"
    return f"trial {row.number}: {row.ending}, best validation {_number(row.best_validation)}: {values}"


def show(made: Search) -> None:
    """The best trials first."""
    keys = list(dict.fromkeys(key for row in made.trials for key in row.values))
    table = new_table("trial", "ended", "best validation", *(_short(key) for key in keys), "batches", "seconds")
    order = list(Ending)
    ranked = sorted(made.trials, key=lambda row: (order.index(row.ending), row.best_validation or 0.0, row.number))
    for row in ranked[:SHOWN]:
        cells = [_number(row.values.get(key)) for key in keys]
        best = _number(row.best_validation)
        table.add_row(str(row.number), str(row.ending), best, *cells, str(row.batches), f"{row.seconds:.3g}")
    table_console().print(table)


def conclude(console: Console, made: Search, trials: int) -> None:
    """Where everything is, and the exit code."""
    if made.best is not None:
        recipe = made.out / "best.toml"
        console.print(f"best: trial {made.best.number}, validation loss {made.best.best_validation:.6g}")
        console.print(f"train it with: sureprox train --config {recipe}")
    console.print(f"summary: {made.out / 'summary.json'}")
    if made.interrupted:
        console.print(f"interrupted before all {trials} trials were finished; give the same command again to continue")
        raise typer.Exit(INTERRUPTED)
    if made.best is None:
        console.print("no trial was completed; see their errors above")
        raise typer.Exit(NONE_COMPLETED)


def _short(key: str) -> str:
    return key.removeprefix(ARGUMENTS)


def _number(value: Value | None) -> str:
    return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
