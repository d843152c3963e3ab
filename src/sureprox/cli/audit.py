"""`sureprox audit`: the tables of the audit on the terminal, the report and its figures in a directory."""

from collections.abc import Sequence
from pathlib import Path

from sureprox.audit import STATEMENTS, audit, write
from sureprox.audit.models import SCENARIOS, Scenario
from sureprox.audit.text import growth_words, model_row, statement_row, words
from sureprox.cli.tables import line_console, new_table, table_console

# the others are the same inequalities, with the history counted as a part of N2; the written report has them all
SHOWN = ("Lemma 5", "Lemma 6", "Corollary 7", "Theorem 6", "Corollary 5", "Theorem 9", "Corollary 10")


def run(
    models: Sequence[str], scenarios: Sequence[str], out: Path, instances: int, steps: int, trials: int, seed: int
) -> None:
    import matplotlib  # noqa: F401  a missing extra should show before the work, not after it

    console = line_console()
    chosen = [Scenario.parse(text) for text in scenarios] or list(SCENARIOS)

    def show(line: str) -> None:
        console.print(f"  {line} ...")

    report = audit(models or None, chosen, instances=instances, steps=steps, trials=trials, seed=seed, progress=show)
    table = new_table("statement", "as printed", "worst slack", "corrected slack", "inequalities")
    for statement in STATEMENTS:
        table.add_row(*statement_row(report, statement))
    tables = table_console()
    console.print("\nstatements on random runs (a negative slack is a violation, 0 is within rounding)")
    tables.print(table)
    for found in report.models:
        console.print(f"{found.model}, {found.scenario.name}")
        for sentence in words(found):
            console.print(f"  {sentence}")
        table = new_table("statement", "assumptions met", "worst slack, assumption-free", "what it says here")
        for name in SHOWN:
            table.add_row(*model_row(found, name))
        tables.print(table)
    for growth in report.growths:
        console.print(growth_words(growth))
    for note in report.notes:
        console.print(note)
    for path in write(report, out):
        console.print(f"wrote {path}")
