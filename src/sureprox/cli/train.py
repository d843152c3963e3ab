"""`sureprox train`: from options to a recipe, and what the terminal shows while it runs."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
from rich.text import Text

from sureprox.base.errors import ConfigError
from sureprox.cli import INTERRUPTED
from sureprox.cli.tables import Description, line_console, new_table, table_console
from sureprox.training import Recipe, TrainingResult, preset, preset_names, read_recipe
from sureprox.training import train as run_training
from sureprox.training.config import override
from sureprox.training.events import Event
from sureprox.training.stream_config import STREAMS
from sureprox.training.team import launched

PRESET = "lasso-7"
DEVICES = ("auto", "cpu", "cuda")
LINES = 50  # progress lines of a whole run where there is no terminal

BARE_WORD = re.compile(r"[\w./^+-]+")


def pairs(option: str, texts: Sequence[str]) -> dict[str, Any]:
    """KEY=VALUE, the value a TOML string, number or boolean; a plain word needs no quotes. The last one counts."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"{option} is {text!r}; write it as KEY=VALUE")
        found[key.strip()] = _scalar(option, text, value.strip())
    return found


def _scalar(option: str, text: str, value: str) -> Any:
    try:
        parsed = tomllib.loads(f"value = {value}")
    except tomllib.TOMLDecodeError:
        if BARE_WORD.fullmatch(value):
            return value
        parsed = {}
    if list(parsed) != ["value"] or not isinstance(parsed["value"], str | int | float):
        raise ConfigError(f"{option} is {text!r}; its value must be a TOML string, number or boolean")
    return parsed["value"]


def choose(
    name: str | None,
    optimizer: str | None,
    arguments: Sequence[str],
    config: Path | None,
    changes: Sequence[str],
    seed: int | None,
) -> tuple[Recipe, str]:
    """The recipe that the options describe, and the name of its preset or file."""
    if config is None:
        recipe = preset(name or PRESET, optimizer, **pairs("--argument", arguments))
    elif name is None and optimizer is None and not arguments:
        recipe = read_recipe(config)
    else:
        raise ConfigError("--config is given with --preset, --optimizer or --argument; the file says all three")
    training = override(recipe.training, pairs("--set", changes) | ({} if seed is None else {"seed": seed}))
    stem = config.stem.strip(".") or "config" if config else None  # ".." would be another directory
    return replace(recipe, training=training), stem or name or PRESET


def list_presets(optimizer: str | None) -> None:
    """A table of the presets, as they are for this optimizer."""
    shown: tuple[str, ...] = ("segment", "length", "batch", "batches", "epochs", "loss", "learning_rate")
    if optimizer == "ada-lista":
        shown = ("layers", "steps", "batch", "pool", "learning_rate")
    elif optimizer == "sure":
        shown = ("segment", "horizon", "batch", "batches", "pool", "learning_rate")
    table = new_table("preset", "problems", *(key.removeprefix("learning_") for key in shown))
    for name in preset_names():
        if (name, optimizer) == ("logistic", "ada-lista"):  # there is no such preset,
            continue
        if optimizer is not None and (name in STREAMS) != (optimizer == "sure"):  # nor are there these
            continue
        recipe = preset(name, optimizer)
        family: Any = recipe.family
        cells = [str(getattr(recipe.training, key, "")) for key in shown]
        table.add_row(name, f"{family.name} {family.m} x {family.n}", *cells)
    table_console().print(table)


def run(recipe: Recipe, out: Path, *, device: str, backend: str, tensorboard: bool, plot: bool) -> None:
    """Train, show how it goes, and say where the results are."""
    if device not in DEVICES:
        raise ConfigError(f"device is {device!r}; choose one of {', '.join(DEVICES)}")
    if tensorboard:
        import tensorboard as _  # noqa: F401  a missing extra should show before the work, not after it
    if plot:
        import matplotlib  # noqa: F401
    torch.manual_seed(recipe.training.seed)  # the initial weights are drawn from torch's default generator
    optimizer = recipe.build()
    rank = launched()[0]
    console = line_console(quiet=rank > 0)  # one process speaks for all
    display = Display(console, described(recipe), recipe.training.total_batches)
    try:
        with display:
            result = run_training(
                optimizer,
                recipe.family,
                recipe.training,
                out,
                device=None if device == "auto" else device,
                backend=backend,
                listeners=[display],
                tensorboard=tensorboard,
            )
    except KeyboardInterrupt:  # a second Ctrl-C, or one before the first batch
        console.print(f"interrupted; the same command goes on from the last checkpoint in {out}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if plot and display.started:
            from sureprox.training.curves import draw

            console.print(f"curves: {draw(out / 'log.jsonl', out / 'curves.png')}")
    conclude(console, result, recipe, out)


def conclude(console: Console, result: TrainingResult, recipe: Recipe, out: Path) -> None:
    """The last lines: where the model is and how to load it, or how to go on."""
    total = recipe.training.total_batches
    if not result.completed:
        console.print(f"interrupted after {result.batches} of {total} batches; wrote {out / 'checkpoint.pt'}")
        console.print("to go on from there, give the same command again")
        raise typer.Exit(INTERRUPTED)
    failed = f", {result.failures} failed batches" if result.failures else ""
    console.print(
        f"best validation loss {result.best_validation:.6g}, after batch {result.best_batch} of {total}{failed}"
    )
    console.print(f"model: {out / 'model.safetensors'}")
    console.print(f'load it with: sureprox.load("{(out / "model").as_posix()}")')


def described(recipe: Recipe) -> str:
    family: Any = recipe.family
    return f"{recipe.optimizer} on {family.name} {family.m} x {family.n}"


class Speed(ProgressColumn):
    """Batches per second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:.3g}/s" if task.speed else "")


class Display:
    """Listens to a run: a progress bar on a terminal, otherwise a line now and then; notes are lines in both."""

    def __init__(self, console: Console, about: str, total: int) -> None:
        self.console = console
        self.about = about
        self.total = total
        self.started = False
        self.loss, self.validation, self.failures = "", "", 0
        self.next_line = 0.0
        columns = (BarColumn(10), MofNCompleteColumn(), Description(), Speed())
        self.bars = Progress(*columns, TimeRemainingColumn(), console=console, transient=True)
        self.task = self.bars.add_task("", total=self.total, start=False, visible=False)

    def __enter__(self) -> "Display":
        if self.console.is_terminal:
            self.bars.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.console.is_terminal:
            self.bars.stop()

    def __call__(self, event: Event) -> None:
        kind = event["event"]
        if kind == "start":
            self._start(event)
        elif kind == "batch":
            self.loss = "no loss" if event["loss"] is None else f"loss {event['loss']:.4g}"
            self.failures += event["skipped"]
        elif kind == "validation":
            self.validation = f"validation {_number(event['loss'])} (best {_number(event['best'])})"
        elif kind == "note":
            self.console.print(f"note: {event['text']}")
        self.bars.update(self.task, completed=event["batch"], description=self._text())
        if kind == "validation" and not self.console.is_terminal:
            self._line(event)

    def _start(self, event: Event) -> None:
        self.started = True
        about = f"{self.about}, {self.total} batches"
        team = f", {event['processes']} processes" if event.get("processes", 1) > 1 else ""
        self.console.print(f"training {about}, {event['backend']} on {event['device']}{team}")
        if event["batch"]:
            done = event["batch"] == self.total
            self.console.print("this run is complete" if done else f"going on after batch {event['batch']}")
        self.bars.update(self.task, completed=event["batch"], visible=True)
        self.bars.start_task(self.task)

    def _line(self, event: Event) -> None:
        """One line for each of `LINES` parts of the run, with the numbers that the bar would show."""
        batch, seconds = event["batch"], event["seconds"]
        if batch < self.next_line and batch < self.total:
            return
        self.next_line = batch + self.total / LINES
        left = (self.total - batch) * seconds / max(batch, 1)
        speed = f", {batch / seconds:.3g} batches/s, {left:.0f} s left" if batch else ""
        self.console.print(f"{batch}/{self.total}: {self._text()}{speed}")

    def _text(self) -> str:
        failures = f"{self.failures} failed" if self.failures else ""
        return ", ".join(part for part in (self.loss, self.validation, failures) if part)


def _number(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.4g}"
