"""A section of the page."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from sureprox.report.page.charts import Chart
from sureprox.report.page.markup import Html, element


@dataclass(frozen=True)
class Section:
    """`body` marks the places of `charts`, in their order, with `place()`."""

    name: str  # its address on the page
    title: str
    body: Html
    glance: str  # the one line that the top of the page has about it
    charts: Sequence[Chart] = field(default=())


def place() -> Html:
    """Where the next chart goes."""
    return element("figure", class_="chart")
