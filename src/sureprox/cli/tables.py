"""How the tables and other lines of the command line look.

Names of files, columns and models come from anywhere. They are shown as they are: square brackets are not markup, and
what a terminal would obey is escaped.
"""

from collections.abc import Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.progress import ProgressColumn, Task
from rich.table import Table
from rich.text import Text

from sureprox.base.errors import printable

UNLIMITED = 100_000  # columns


class PlainConsole(Console):
    """Text without markup and emoji codes; all but line breaks is printable."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        return super().render_str("\n".join(map(printable, text.split("\n"))), **options)


class Description(ProgressColumn):
    """What a progress bar says of its task."""

    def render(self, task: Task) -> Text:
        return Text(printable(task.description))


def new_table(first: str, second: str | None, *others: str) -> Table:
    """An empty table: two columns of text, or one, then columns to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in (first, second):
        if heading is not None:
            table.add_column(heading, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def line_console(**options: Any) -> PlainConsole:
    """For sentences: never wrapped, nothing in colour."""
    return PlainConsole(soft_wrap=True, highlight=False, **options)


class TableConsole(PlainConsole):
    """Shows a table that is wider than the terminal as one paragraph for each of its rows."""

    def print(self, *objects: Any, **options: Any) -> None:
        super().print(*(self._fitting(shown) for shown in objects), **options)

    def _fitting(self, shown: Any) -> Any:
        if not isinstance(shown, Table):
            return shown
        if self.measure(shown, options=self.options.update(max_width=UNLIMITED)).maximum <= self.width:
            return shown
        headings = [str(column.header) for column in shown.columns]
        rows = zip(*(column.cells for column in shown.columns), strict=True)
        return self.render_str("\n".join(paragraph(headings, [str(cell) for cell in row]) for row in rows))


def paragraph(headings: Sequence[str], cells: Sequence[str]) -> str:
    """The first cell, and below it the others with their headings; a pair on one line."""
    if len(cells) == 2:
        return f"{cells[0]}: {cells[1]}"
    told = [(heading, cell) for heading, cell in zip(headings[1:], cells[1:], strict=True) if cell]
    return "\n".join([cells[0], *(f"  {heading}: {cell}" if heading else f"  {cell}" for heading, cell in told)])


def table_console() -> TableConsole:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = TableConsole(highlight=False)
    return console if console.is_terminal else TableConsole(highlight=False, width=160)


def counted(count: int, of: str = "problem") -> str:
    """1 problem, 1,000 problems."""
    return f"{count:,} {of}{'' if count == 1 else 's'}"
