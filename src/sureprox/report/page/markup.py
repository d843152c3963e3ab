"""HTML that is safe by construction: text is escaped unless it is `Html`, and only `element` makes `Html`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape


class Html(str):
    """Text that is markup already."""


Child = str | Html | None
VOID = {"br", "meta"}


def element(tag: str, *children: Child, **attributes: str | bool | None) -> Html:
    """<tag attribute="...">children</tag>; `class_` is class, `data_x` is data-x, None and False are left out."""
    parts = [tag]
    for name, value in attributes.items():
        key = name.rstrip("_").replace("_", "-")
        if value is True:
            parts.append(key)
        elif value is not None and value is not False:
            parts.append(f'{key}="{escape(value)}"')
    opening = f"<{' '.join(parts)}>"
    return Html(opening if tag in VOID else f"{opening}{join(children)}</{tag}>")


def join(children: Iterable[Child]) -> Html:
    return Html("".join(safe(child) for child in children))


def safe(child: Child) -> Html:
    if child is None:
        return Html("")
    return child if isinstance(child, Html) else Html(escape(child))


@dataclass(frozen=True)
class Cell:
    """What a table shows, and the number it is sorted by where that is not what it shows."""

    text: Child
    value: float | None = None


Row = Sequence[Child | Cell]


def number(value: float | None, form: str = "d") -> Cell:
    """A number written in a format; "-" where there is none."""
    return Cell("-") if value is None else Cell(format(value, form), value)


def table(heads: Sequence[str], rows: Iterable[Row], caption: str) -> Html:
    """A table that the script of the page makes sortable; columns of numbers stand to the right."""
    body = [[cell if isinstance(cell, Cell) else Cell(cell) for cell in row] for row in rows]
    numeric = [any(row[i].value is not None for row in body) for i in range(len(heads))]
    head = join(element("th", text, scope="col", class_=_number(n)) for text, n in zip(heads, numeric, strict=True))
    lines = join(element("tr", *(_cell(cell, n) for cell, n in zip(row, numeric, strict=True))) for row in body)
    parts = (element("caption", caption), element("thead", element("tr", head)), element("tbody", lines))
    return element("div", element("table", *parts), class_="scroll", tabindex="0", role="region", aria_label=caption)


def details(summary: str, *children: Child) -> Html:
    return element("details", element("summary", summary), *children)


def source(*parts: str) -> Html:
    """Where the numbers around it come from: the record file first."""
    first, *rest = [part for part in parts if part]
    return element("p", element("code", first), "".join(f" · {part}" for part in rest), class_="source")


def nothing(text: str) -> Html:
    return element("p", text, class_="nothing")


def _cell(cell: Cell, numeric: bool) -> Html:
    value = None if cell.value is None or math.isnan(cell.value) else repr(float(cell.value)).replace("inf", "Infinity")
    return element("td", cell.text, data_value=value, class_=_number(numeric))


def _number(numeric: bool) -> str | None:
    return "number" if numeric else None
