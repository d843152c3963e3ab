"""How the tables and other lines of the command line look.

Names of files, columns and models come from anywhere. They are shown as they are: square brackets are not markup, and
what a terminal would obey is escaped.
"""

from typing import Any

from rich import box
from rich.console import Console
from rich.progress import ProgressColumn, Task
from rich.table import Table
from rich.text import Text

from sureprox.base.errors import printable


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


def new_table(first: str, second: str, *others: str) -> Table:
    """An empty table: two columns of text, then columns to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in (first, second):
        table.add_column(heading, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def line_console(**options: Any) -> PlainConsole:
    """For sentences: never wrapped, nothing in colour."""
    return PlainConsole(soft_wrap=True, highlight=False, **options)


def table_console() -> PlainConsole:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = PlainConsole()
    return console if console.is_terminal else PlainConsole(width=160)
