"""`sureprox solve --shards`: problem sets of any size, solved shard by shard, and a summary."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.progress import BarColumn, Progress

from sureprox.cli.solve import UNSOLVED, Request
from sureprox.cli.tables import Description, PlainConsole, new_table, table_console
from sureprox.many import ManyProgress, Results, solve_many


def run(
    files: Sequence[Path],
    request: Request,
    out: Path,
    *,
    cluster: str | None,
    chunk: int | None,
    as_json: bool,
    **reading: Any,
) -> None:
    """Solve what is not solved yet, show the counts; ends with exit code 1 if a problem is not solved."""
    console = PlainConsole(stderr=True)
    began = time.perf_counter()
    last: list[ManyProgress] = []
    shown = (Description(), BarColumn(20))
    with Progress(*shown, console=console, transient=True, disable=not console.is_terminal) as bars:
        task = bars.add_task("starting", total=None)

        def heard(seen: ManyProgress) -> None:
            last[:] = [seen]
            bars.update(task, total=seen.all_shards, completed=seen.shards, description=line(seen))

        results = solve_many(
            files[0] if len(files) == 1 else list(files),
            request.optimizer,
            out=out,
            cluster=cluster,
            chunk=chunk,
            max_iter=request.max_iter,
            tol=request.tol,
            certify=request.certify,
            polish=None if request.polish else False,
            engine=request.engine,
            device=request.device,
            progress=heard,
            **reading,
        )
    assert isinstance(results, Results)
    found = {
        "problems": results.problems,
        "shards": results.shards,
        "found": last[-1].found,
        "tol": request.tol,
        "status": dict(results.counts),
        "worst_relative_gap": results.worst_relative_gap if results.worst_relative_gap < float("inf") else None,
        "seconds": round(time.perf_counter() - began, 4),
        "problems_per_second": round(last[-1].rate, 1),
        "out": str(out),
    }
    if as_json:
        print(json.dumps(found, indent=2, allow_nan=False))
    else:
        _show(found)
    if not results.all_converged:
        raise typer.Exit(UNSOLVED)


def line(seen: ManyProgress) -> str:
    """12,000 of 50,000 problems, 1,500/s, 25 s left."""
    total = "" if seen.all_problems is None else f" of {seen.all_problems:,}"
    left = "" if seen.seconds_left is None else f", {_spoken(seen.seconds_left)} left"
    return f"{seen.problems:,}{total} problems, {seen.rate:,.0f}/s{left}"


def _spoken(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"


def _show(found: dict[str, Any]) -> None:
    worst = found["worst_relative_gap"]
    earlier = f", {found['found']:,} of them by an earlier run" if found["found"] else ""
    lines = {
        "problems": f"{found['problems']:,} in {found['shards']:,} shards{earlier}",
        "status": ", ".join(f"{count:,} {name}" for name, count in found["status"].items()),
        "worst relative gap": "unknown" if worst is None else f"{worst:.1e} (asked for {found['tol']:.1e})",
        "seconds": f"{found['seconds']:.3g}, {found['problems_per_second']:,.0f} problems a second",
        "solutions": found["out"],
    }
    table = new_table("summary", "")
    for name, text in lines.items():
        table.add_row(name, text)
    table_console().print(table)
