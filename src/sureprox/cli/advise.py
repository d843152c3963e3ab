"""`sureprox advise`: which solver to use for the problems of a file."""

import json
from collections.abc import Sequence
from typing import Any

import torch
from rich.text import Text

from sureprox.advice import Advice, advise
from sureprox.advice.result import COLUMNS
from sureprox.base.errors import printable
from sureprox.cli.tables import PlainConsole, counted, line_console, new_table, table_console
from sureprox.sources.problem_files import Loaded


def run(loaded: Loaded, device: torch.device, *, models: Sequence[str] | None, as_json: bool, **options: Any) -> None:
    problem = loaded.problem.to(device=device)
    console = PlainConsole(stderr=True)
    with console.status("measuring") as status:  # silent where there is no terminal

        def heard(solver: str) -> None:
            status.update(Text(f"measuring {printable(solver)}"))

        found = advise(problem, models=models, progress=heard, **options)
    if as_json:
        print(json.dumps({"source": loaded.source} | found.as_dict(), indent=2, allow_nan=False))
    else:
        _show(found, loaded)


def _show(found: Advice, loaded: Loaded) -> None:
    plain = line_console()
    plain.print(f"{counted(found.problems, f'{loaded.kind} problem')} from {loaded.source}: {found.headline}")
    plain.print(found.reason)
    if found.call:
        plain.print(f"  {found.call}")
    name, *columns = COLUMNS
    table = new_table(name, "", *columns)
    for solver, *cells, note in found.rows():
        table.add_row(solver, note, *cells)
    table_console().print(table)
    plain.print(
        f"seconds to a relative gap of {found.tol:g} on {found.device}; for all problems, estimated from the sample"
    )
    for words, models in found.likeness().items():
        plain.print(f"{', '.join(models)}: {words}")
