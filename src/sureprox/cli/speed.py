"""`sureprox bench speed`: seconds per iteration against the batch size, as a record, a table and a figure."""

from collections.abc import Sequence
from pathlib import Path

import torch
import typer
from rich.console import Console

from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.base.machine import circumstances
from sureprox.cli import INTERRUPTED
from sureprox.cli.choices import chosen_device
from sureprox.cli.tables import line_console, new_table, table_console
from sureprox.evaluation.speed import FAST, Timing, measured
from sureprox.evaluation.speed_records import SpeedRecord, read_speed, write_speed
from sureprox.report.speed import bends, costs, draw_speed, label, markdown, table


def run_speed(
    batches: str, names: str | None, out: Path, *, shared: bool, steps: int, rounds: int, device: str, redraw: bool
) -> None:
    import matplotlib  # noqa: F401  a missing extra should show before the work, not after it

    console = line_console()
    path = out / "speed.json"
    if redraw:
        record = read_speed(path)
    else:
        record = _measure(console, _sizes(batches), _names(names), shared, steps, rounds, chosen_device(device))
        write_speed(path, record)
    write_atomically(out / "speed.md", markdown(record).encode())
    draw_speed(record, out / "speed.png")
    _show(console, record)
    console.print(f"record: {path}, table: {out / 'speed.md'}, figure: {out / 'speed.png'}")


def _measure(
    console: Console,
    batches: Sequence[int],
    names: Sequence[str],
    shared: bool,
    steps: int,
    rounds: int,
    device: torch.device,
) -> SpeedRecord:
    def told(t: Timing) -> None:
        console.print(
            f"batch {t.batch:,}, {label(t.name)} ({t.mode}): {1e3 * t.best:.3f} ms, first step {t.first:.2f} s"
        )

    try:
        found = measured(device, batches, names, told, shared=shared, steps=steps, rounds=rounds)
    except KeyboardInterrupt:
        console.print("interrupted; nothing was written")
        raise typer.Exit(INTERRUPTED) from None
    return SpeedRecord(**found, where=circumstances(device))


def _sizes(text: str) -> list[int]:
    try:
        sizes = sorted({int(part) for part in text.split(",")})
    except ValueError:
        sizes = []
    if not sizes or sizes[0] < 1:
        raise InputError(f"--batches is {text!r}; give whole numbers from 1 on, such as 1,32,1024")
    return sizes


def _names(text: str | None) -> list[str]:
    names = [name.strip() for name in text.split(",")] if text else list(FAST)
    for name in names:
        if name not in FAST:
            raise InputError(f"--names has {name!r}; known are {', '.join(FAST)}")
    return names


def _show(console: Console, record: SpeedRecord) -> None:
    headings, rows = table(record)
    shown = new_table(*headings)
    for row in rows:
        shown.add_row(*row)
    table_console().print(shown)
    console.print("milliseconds per iteration of the whole batch, best round")
    shown = new_table("optimizer", "mode", "of plain ISTA", "of ISTA, same mode", "of two reads of A")
    for cost in costs(record):
        ratios = (cost.of_ista, cost.of_fast_ista, cost.of_floor)
        cells = ("" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
        shown.add_row(label(cost.name), cost.mode, *cells)
    table_console().print(shown)
    console.print(f"iterations at batch {record.batches[-1]:,}, in those of others")
    for bend in bends(record):
        console.print(f"off the straight line: {bend}")
