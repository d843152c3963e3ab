"""One HTML page from all records: curves, claims, battery, audit and training, with nothing fetched from outside."""

from sureprox.report.page.assemble import page
from sureprox.report.page.gather import gather

__all__ = ["gather", "page"]
