"""How the tables of the command line look."""

from rich import box
from rich.console import Console
from rich.table import Table


def new_table(first: str, second: str, *others: str) -> Table:
    """An empty table: two columns of text, then columns to the right."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for heading in (first, second):
        table.add_column(heading, no_wrap=True)
    for heading in others:
        table.add_column(heading, justify="right", overflow="fold")
    return table


def table_console() -> Console:
    """As wide as the terminal; wide enough for every table where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=160)
