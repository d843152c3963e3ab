"""`{record}`: measured numbers, read from benchmarks/records while the page is built, with machine, date and command.

Its argument is the name of a record. What it shows:

- lines `words = path.to.number`: these numbers;
- `:grid: path`, and `:item: i` where the values are lists: a nested record as rows and columns;
- `:list: path`, `:rows: key, key`, `:columns: key`, `:value: key`: a list of measurements as rows and columns, its
  values times `:times:`;
- nothing of these: every number of the record.

A record that is not there is said not to have been measured yet (`:command:` measures it); a wrong path is an error.
"""

import json
from pathlib import Path
from typing import Any, ClassVar

from docutils import nodes
from docutils.parsers.rst import directives
from sphinx.util.docutils import SphinxDirective

RECORDS = Path(__file__).parents[2] / "benchmarks" / "records"
ABOUT = ("benchmark", "command", "date", "machine", "versions", "protocol")


class Record(SphinxDirective):
    has_content = True
    required_arguments = 1
    option_spec: ClassVar = {
        "command": directives.unchanged,
        "grid": directives.unchanged,
        "item": directives.nonnegative_int,
        "first": directives.unchanged,
        "list": directives.unchanged,
        "rows": directives.unchanged,
        "columns": directives.unchanged,
        "value": directives.unchanged,
        "times": float,
    }

    def run(self) -> list[nodes.Node]:
        path = RECORDS / f"{self.arguments[0]}.json"
        self.env.note_dependency(str(path))
        if not path.exists():
            command = self.options.get("command", f"python benchmarks/{self.arguments[0]}.py")
            text = f"Not measured yet: {command} writes the record that this table shows."
            return [nodes.paragraph("", "", nodes.emphasis(text=text))]
        record = json.loads(path.read_text(encoding="utf-8"))
        try:
            head, rows = self.table(record)
        except (KeyError, IndexError, ValueError) as error:
            raise self.error(f"{path.name} has nothing at {error}") from None
        return [table(head, rows), nodes.paragraph("", "", nodes.emphasis(text=origin(record)))]

    def table(self, record: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
        first = self.options.get("first", "")
        if "grid" in self.options:
            grid, item = reached(record, self.options["grid"]), self.options.get("item")
            columns = list(next(iter(grid.values())))
            picked = {name: [row[c] if item is None else row[c][item] for c in columns] for name, row in grid.items()}
            return [first, *columns], [[name, *map(shown, row)] for name, row in picked.items()]
        if "list" in self.options:
            columns, rows = pivoted(reached(record, self.options["list"]), self.options)
            return [first, *map(shown, columns)], rows
        if not self.content:
            return [], [[name, shown(value)] for name, value in leaves(record)]
        pairs = [line.rsplit(" = ", 1) for line in self.content if line.strip()]
        return [], [[words, shown(reached(record, path))] for words, path in pairs]


def reached(record: Any, path: str) -> Any:
    """The value at a dotted path."""
    for key in path.strip().split("."):
        record = record[key]
    return record


def pivoted(entries: list[dict[str, Any]], options: dict[str, Any]) -> tuple[list[Any], list[list[str]]]:
    """The distinct values of the column key, and for every row its name and its numbers; empty where none was taken."""
    keys = [key.strip() for key in options["rows"].split(",")]
    columns = list(dict.fromkeys(entry[options["columns"]] for entry in entries))
    cells: dict[str, dict[Any, str]] = {}
    for entry in entries:
        name = ", ".join(str(entry[key]) for key in keys)
        value = entry[options["value"]] * options.get("times", 1.0)
        cells.setdefault(name, {})[entry[options["columns"]]] = shown(value)
    return columns, [[name, *(row.get(column, "") for column in columns)] for name, row in cells.items()]


def leaves(record: dict[str, Any]) -> list[tuple[str, Any]]:
    """(dotted path, value) of all numbers and words of a record, but for who measured it where."""
    found: list[tuple[str, Any]] = []
    for key, value in record.items():
        if key in ABOUT:
            continue
        inner = leaves(value) if isinstance(value, dict) else [("", value)]
        found += [(f"{key}.{path}".rstrip("."), leaf) for path, leaf in inner]
    return found


def shown(value: Any) -> str:
    if value is None:
        return "never"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def origin(record: dict[str, Any]) -> str:
    """Where the numbers come from, in one line."""
    machine = record["machine"]
    where = machine["gpu"] or f"{machine['cpu']}, {machine['cores']} cores"
    protocol = f"; {record['protocol']}" if "protocol" in record else ""
    return f"{record['command']}, {record['date']}, {where}, torch {record['versions']['torch']}{protocol}."


def table(head: list[str], rows: list[list[str]]) -> nodes.table:
    width = max(len(row) for row in rows)
    group = nodes.tgroup("", *(nodes.colspec(colwidth=1) for _ in range(width)), cols=width)
    if head:
        group += nodes.thead("", line(head))
    group += nodes.tbody("", *(line(row) for row in rows))
    return nodes.table("", group)


def line(cells: list[str]) -> nodes.row:
    return nodes.row("", *(nodes.entry("", nodes.paragraph(text=cell)) for cell in cells))


def setup(app: Any) -> dict[str, bool]:
    app.add_directive("record", Record)
    return {"parallel_read_safe": True}
