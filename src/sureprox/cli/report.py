"""`sureprox report`: one HTML page from the records."""

from collections.abc import Sequence
from pathlib import Path

import typer

from sureprox.base.errors import InputError
from sureprox.base.files import write_atomically
from sureprox.cli.choices import require_writable
from sureprox.report.page import gather, page

USUAL = ("records", "out", "runs")  # where commands write, and where the repository keeps what it reports


def run(records: Sequence[Path], out: Path) -> None:
    directories = list(records) or [Path(name) for name in USUAL if Path(name).is_dir()]
    if not directories:
        raise InputError(f"none of the directories {', '.join(USUAL)} is here; give one with --records DIR")
    require_writable([out])
    found = gather(directories)
    data = page(found).encode()
    write_atomically(out, data)
    typer.echo(f"{len(found.files)} record files below {found.places}")
    typer.echo(f"wrote {out}, {len(data) / 1e6:.1f} MB")
