"""`sureprox bench battery`: run the battery into records, a table and a performance profile."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
import typer
from rich.console import Console

from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.cli import INTERRUPTED
from sureprox.cli.choices import chosen_device
from sureprox.cli.tables import line_console, new_table, table_console
from sureprox.evaluation.battery import LEARNED, QUICK, Battery, Plan, chosen
from sureprox.evaluation.battery_records import KindRecord, read_records, write_records
from sureprox.report.battery import LABELS, compact, draw_profile, markdown, plain_defaults, summaries


def run_battery(
    kinds: Sequence[str],
    models: Sequence[str],
    out: Path,
    *,
    quick: bool,
    batch: int | None,
    seed: int,
    device: str,
    weights: Path | None,
    figures_only: bool,
) -> None:
    import matplotlib  # noqa: F401  a missing extra should show before the work, not after it

    console = line_console()
    path = out / "battery.json"
    if figures_only:
        records = read_records(path)
    else:
        plan = QUICK if quick else Plan()
        plan = replace(plan, batch=batch or plan.batch, seed=seed)
        records = _measure(console, kinds, models, plan, chosen_device(device), weights, out)
        write_records(path, records)
    write_atomically(out / "battery.md", markdown(records).encode())
    draw_profile(records, out / "battery.png")
    _show(console, records)
    if plain := plain_defaults(records):
        console.print(plain)
    console.print(f"records: {path}, table: {out / 'battery.md'}, figure: {out / 'battery.png'}")


def _measure(
    console: Console,
    kinds: Sequence[str],
    models: Sequence[str],
    plan: Plan,
    device: torch.device,
    weights: Path | None,
    out: Path,
) -> list[KindRecord]:
    if device.type == "cpu":
        torch.set_num_threads(1)  # see reproduce
    wanted = chosen(kinds)
    console.print(f"{len(wanted)} kinds, {plan.batch} instances each, seed {plan.seed}, {plan.dtype} on {device.type}")
    battery = Battery(plan, out / "work", device, weights, models or tuple(LEARNED))
    records: list[KindRecord] = []
    missing: dict[str, None] = {}
    try:
        for kind in wanted:
            found = battery.run(kind, lambda told: missing.update({told: None}) if isinstance(told, str) else None)
            records += found
            if not found:
                continue
            cells = (f"{r.optimizer} {r.quantile(1e-6, 0.5) or 'never'}" for r in found)
            console.print(f"{kind.name}: {', '.join(cells)}")
    except KeyboardInterrupt:
        console.print("interrupted; finished optimal values are kept, so the same command is faster next time")
        raise typer.Exit(INTERRUPTED) from None
    for reason in missing:
        console.print(f"not available: {reason}")
    if not records:
        raise InputError("no kind could be measured; the reasons are above")
    return records


def _show(console: Console, records: Sequence[KindRecord]) -> None:
    headings, rows = compact(records)
    table = new_table("kind", "", *headings)
    for row in rows:
        table.add_row(*row)
    table_console().print(table)
    console.print("median iterations to 1e-3/1e-6/1e-9")
    table = new_table("family", "optimizer", "speed-up", "kept out", "worst", "failures", "slower")
    for s in summaries(records):
        kept_out = "" if s.kept_out is None else f"{s.kept_out:.2f}"
        worst = f"{s.worst:.2f} ({s.worst_kind})"
        failures = f"{s.failures} of {s.instances}"
        label = LABELS.get(s.optimizer, s.optimizer)
        table.add_row(s.family, label, f"{s.mean:.2f}", kept_out, worst, failures, str(s.slower))
    table_console().print(table)
