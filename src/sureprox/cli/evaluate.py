"""`sureprox evaluate`: a model against FISTA and restarted FISTA on fresh problems."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeElapsedColumn

from sureprox.cli.tables import Description, PlainConsole, new_table, table_console
from sureprox.evaluation.battery import Plan
from sureprox.evaluation.battery_records import LEVELS, KindRecord, as_json, write_records
from sureprox.evaluation.models import DEFAULT, chosen_family, evaluate, parse_move
from sureprox.report.battery import LABELS


def run(
    model: str,
    family: str | None,
    scenarios: Sequence[str],
    plan: Plan,
    device: torch.device,
    out: Path | None,
    *,
    against: Sequence[str],
    to_json: bool,
) -> None:
    if device.type == "cpu":
        torch.set_num_threads(1)  # see reproduce
    moves = [parse_move(text) for text in scenarios or DEFAULT]
    problems = chosen_family(family, model)
    console = PlainConsole(stderr=True)
    shown = (Description(), BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task(model, total=(3 + len(against)) * len(moves))

        def heard(record: KindRecord) -> None:
            bars.update(task, advance=1, description=f"{record.optimizer}, {record.kind}")

        records = evaluate(model, problems, moves, plan, device, heard, against)
    if out is not None:
        write_records(out, records)
    if to_json:
        print(json.dumps({"model": model, "family": str(problems), "records": [_entry(r) for r in records]}, indent=2))
    else:
        _show(records, problems, out)


def _entry(record: KindRecord) -> dict[str, Any]:
    medians = {f"{level:g}": record.quantile(level, 0.5) for level in LEVELS}
    return as_json(record) | {"median": medians}


def _show(records: Sequence[KindRecord], family: Any, out: Path | None) -> None:
    levels = [f"{level:.0e}" for level in LEVELS]
    table = new_table("problems", "optimizer", *levels, "not to 1e-6", "products", "seconds to 1e-6")
    previous = ""
    for record in records:
        if previous and record.kind != previous:
            table.add_section()
        shown = "" if record.kind == previous else record.kind
        previous = record.kind
        seconds = "" if record.seconds is None else f"{record.seconds:.3g}"
        failures = f"{record.failures()} of {record.instances}"
        cells = [_cell(record, level) for level in LEVELS]
        label = LABELS.get(record.optimizer, record.optimizer)
        table.add_row(shown, label, *cells, failures, str(record.products), seconds)
    console = table_console()
    console.print(table)
    console.print(
        f"{family}\niterations to a relative gap (F - F*)/F*: median (90 % of the problems); products with A in each "
        "iteration; seconds of the whole batch",
        highlight=False,
    )
    if out is not None:
        console.print(f"record: {out}", highlight=False)


def _cell(record: KindRecord, level: float) -> str:
    median, most = record.quantile(level, 0.5), record.quantile(level, 0.9)
    if median is None:
        return f"not in {record.most:,}"
    return f"{median:,} ({'never' if most is None else f'{most:,}'})"
