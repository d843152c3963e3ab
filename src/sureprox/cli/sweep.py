"""`sureprox sweep`: from names to recipes, how they come along, and a table of what came of them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sureprox.base.errors import ConfigError
from sureprox.cli import INTERRUPTED
from sureprox.cli.choices import chosen_places
from sureprox.cli.tables import Description, line_console, new_table, table_console
from sureprox.cli.train import DEVICES, pairs
from sureprox.training import Ending, Outcome, Recipe, Sweep, paper_settings, preset, preset_names, read_recipe
from sureprox.training import sweep as run_sweep
from sureprox.training.config import override
from sureprox.training.sweep import with_seeds

SETTINGS = "all-settings"
MOST_SEEDS = 1000
FAILED = 1  # exit code: some recipes failed, the others are done


def chosen(
    what: Sequence[str], optimizer: str | None, arguments: Sequence[str], changes: Sequence[str], seeds: str | None
) -> dict[str, Recipe]:
    """The recipes that names, patterns and files stand for, each once, in their order."""
    given = pairs("--argument", arguments)
    recipes: dict[str, Recipe] = {}
    for word in what:
        found = _found(word, optimizer, given)
        if twice := [name for name in found if name in recipes and found[name] != recipes[name]]:
            raise ConfigError(f"two recipes are called {twice[0]}; rename one of the files")
        recipes |= found
    replaced = pairs("--set", changes)
    recipes = {name: replace(recipe, training=override(recipe.training, replaced)) for name, recipe in recipes.items()}
    return with_seeds(recipes, chosen_seeds(seeds))


def _found(word: str, optimizer: str | None, arguments: Mapping[str, object]) -> dict[str, Recipe]:
    if word.endswith(".toml"):
        if optimizer is not None or arguments:
            raise ConfigError(f"{word} is given with --optimizer or --argument; the file says both")
        return {Path(word).stem.strip(".") or "config": read_recipe(word)}
    if word == SETTINGS:
        return paper_settings(optimizer or "go-math-l2o", **arguments)
    names = [name for name in preset_names() if fnmatchcase(name, word)]
    if not names:
        preset(word, optimizer)  # says what there is
        raise AssertionError(word)
    return {name: preset(name, optimizer, **arguments) for name in names}


def chosen_seeds(text: str | None) -> tuple[int, ...]:
    """0,1,2 or 0-4."""
    found: list[int] = []
    for part in [] if text is None else text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ConfigError(f"--seeds is {text!r}; write whole numbers such as 0,1,2 or 0-4")
        count = int(last or first) - int(first) + 1
        if len(found) + count > MOST_SEEDS:
            raise ConfigError(f"--seeds is {text!r}; at most {MOST_SEEDS:,} seeds are taken")
        found += range(int(first), int(first) + count)
    return tuple(dict.fromkeys(found))


def run(
    recipes: Mapping[str, Recipe], out: Path, *, device: str, backend: str, cluster: str | None, as_json: bool
) -> None:
    """Train what is not trained yet, show a line for each recipe and the table; the exit code says how it went."""
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; choose one of {', '.join(DEVICES)}")
    console = line_console(stderr=as_json)
    shown = (Description(), BarColumn(20), MofNCompleteColumn(), TextColumn("batches"))
    with Progress(
        *shown, TimeRemainingColumn(), console=console, transient=True, disable=not console.is_terminal
    ) as bars:
        task = bars.add_task("", total=sum(recipe.training.total_batches for recipe in recipes.values()))
        batches: dict[str, int] = {}
        ended: list[str] = []

        def watch(name: str, batch: int) -> None:
            batches[name] = batch
            text = f"{len(ended)} of {len(recipes)} recipes {chosen_places(cluster)}"
            bars.update(task, completed=sum(batches.values()), description=text)

        def heard(outcome: Outcome) -> None:
            ended.append(outcome.name)
            watch(outcome.name, recipes[outcome.name].training.total_batches)
            if not outcome.earlier:
                console.print(line(outcome))

        made = run_sweep(
            recipes,
            out,
            cluster=cluster,
            device=None if device == "auto" else device,
            backend=backend,
            progress=heard,
            watch=watch,
        )
    if as_json:
        print(json.dumps({"out": str(out), "runs": made.rows()}, indent=2, allow_nan=False))
    else:
        show(made)
    conclude(console, made)


def line(outcome: Outcome) -> str:
    """lasso-3: best validation 0.0123 after batch 480 of 500, 81 s."""
    if outcome.ending is Ending.FAILED:
        return f"{outcome.name}: failed: {outcome.error}"
    if outcome.ending is not Ending.COMPLETED:
        return f"{outcome.name}: {outcome.ending} after {outcome.batches} batches"
    best = "not finite" if outcome.best_validation is None else f"{outcome.best_validation:.6g}"
    batch = f"after batch {outcome.best_batch} of {outcome.batches}"
    return f"{outcome.name}: best validation {best} {batch}, {outcome.seconds:.3g} s"


def show(made: Sweep) -> None:
    table = new_table("recipe", "ended", "best validation", "at batch", "batches", "failed batches", "seconds")
    for row in made.outcomes:
        best = "" if row.best_validation is None else f"{row.best_validation:.6g}"
        how = f"{row.ending}, earlier" if row.earlier else str(row.ending)
        counts = (str(row.best_batch), str(row.batches), str(row.failures), f"{row.seconds:.3g}")
        table.add_row(row.name, how, best, *(counts if row.ending is not Ending.WAITING else ("",) * 4))
    table_console().print(table)


def conclude(console: Console, made: Sweep) -> None:
    """Where everything is, and the exit code."""
    if made.best is not None:
        console.print(f"best: {made.best.name}, {made.out / made.best.name / 'model.safetensors'}")
    console.print(f"summary: {made.out / 'summary.json'}")
    for row in made.ended(Ending.FAILED):
        console.print(f"failed: {row.name}: {row.error}")
    if left := len(made.ended(Ending.INTERRUPTED)) + len(made.ended(Ending.WAITING)):
        console.print(f"interrupted with {left} of {len(made.outcomes)} to do; the same command goes on")
        raise typer.Exit(INTERRUPTED)
    if made.ended(Ending.FAILED):
        raise typer.Exit(FAILED)
