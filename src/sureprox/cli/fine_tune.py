"""`sureprox train --problems`: weights of Sure for the problems of a file."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import typer

from sureprox.cli import INTERRUPTED, choices
from sureprox.cli.tables import line_console, new_table, table_console
from sureprox.cli.train import Display
from sureprox.training.fine_tuning import StoppedError, Trial, fine_tune, tuning


def run(
    files: Sequence[Path],
    asked: Mapping[str, str | None],
    base: str,
    changes: Mapping[str, Any],
    seed: int,
    out: Path,
    device: str,
) -> None:
    """Tune, show how it goes, and say what was won."""
    where = choices.chosen_device(device)
    none: dict[str, Any] = dict.fromkeys(("lam", "lam_ratio", "l1", "l2", "groups", "loss"))
    problem = choices.loaded(files, {}, choices.asked_for(**(none | dict(asked)), dtype="auto")).problem
    if where.type == "cpu":
        torch.set_num_threads(1)
    total = tuning(**changes).total_batches
    console = line_console()
    about = f"Sure for {problem.batch} problems of {', '.join(file.name for file in files)}"
    try:
        with Display(console, about, total) as display:
            found = fine_tune(
                problem.to(device=where), base, out, seed=seed, changes=changes, device=where, listeners=[display]
            )
    except StoppedError:
        console.print(f"interrupted; the same command continues from the last checkpoint in {out}")
        raise typer.Exit(INTERRUPTED) from None
    show(found.trials)
    held = len(found.trials["tuned"].iterations)
    console.print(f"{found.gain:.2f} times fewer iterations than before, on {held} problems that training did not see")
    if not found.accepted:
        console.print(f"that is no clear gain: no weights were written; keep {base}")
        return
    if found.paid_back < float("inf"):
        console.print(f"training took {found.training.seconds:.0f} s, won back after {found.paid_back:,.0f} problems")
    else:
        console.print(f"training took {found.training.seconds:.0f} s; on this machine the new weights save no seconds")
    console.print(f"use them: sureprox solve {' '.join(map(str, files))} --optimizer {(out / 'model').as_posix()}")


def show(trials: Mapping[str, Trial]) -> None:
    table = new_table("optimizer", None, "median iterations", "not converged", "seconds")
    labels = {"tuned": "tuned", "before": "before", "default": "without --optimizer"}
    for name, trial in trials.items():
        cells = (f"{trial.median:,.0f}", str(trial.unconverged), f"{trial.seconds:.3g}")
        table.add_row(labels.get(name, name), *cells)
    table_console().print(table)
