"""Tables as text: a row for each equation or sample, a column for each feature and target."""

import csv
import gzip
import io
import math
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.limits import AT_ONCE, RATIO, Array, check_expansion

DELIMITERS = (",", ";", "\t")
NUMBERS_ONLY = "encode text as numbers, fill in or remove what is missing"


@dataclass(frozen=True)
class Table:
    """names: of all columns, none without a header. values (m, width): NaN in a first column that holds text."""

    names: list[str]
    values: Array
    labelled: bool = False  # whether the first column holds the names of the rows


def read_text_table(path: Path) -> Table:
    """The first row is a header if any of its fields is not a number.

    Fields are separated by the first of comma, semicolon and tab that it has. Text is taken in the first column alone,
    under a header and in every row: the names of the rows.
    """
    with _opened(path) as file:
        first = file.readline()
        delimiter = next((mark for mark in DELIMITERS if mark in first), None)
        if delimiter is None:
            raise InputError(f"{path.name} has no comma, semicolon or tab in its first row; it needs two columns")
        file.seek(0)
        rows = csv.reader(file, delimiter=delimiter, strict=True)
        heading = [field.strip() for field in next(rows)]
        values = array("d")
        header = any(_number(field) is None for field in heading)
        if not header:
            values.extend(_row(path, 1, heading, [], labelled=False))
        labelled: bool | None = None
        for fields in rows:
            if fields:
                if labelled is None:
                    labelled = header and _number(fields[0]) is None
                if len(fields) != len(heading):
                    width = f"{len(fields)} fields; the first row has {len(heading)}"
                    raise InputError(f"{path.name}, line {rows.line_num} has {width}")
                values.extend(_row(path, rows.line_num, fields, heading if header else [], labelled))
    if not values:
        raise InputError(f"{path.name} has no rows of numbers")
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, len(heading))
    return Table(heading if header else [], table, bool(labelled))


@contextmanager
def _opened(path: Path) -> Iterator[TextIO]:
    if path.suffix.lower() != ".gz":
        with path.open(encoding="utf-8-sig", newline="") as file:
            yield file
        return
    size = path.stat().st_size
    with gzip.open(path) as packed:
        content = packed.read(max(AT_ONCE, RATIO * size) + 1)
    check_expansion(path.name, size, len(content))
    yield io.StringIO(content.decode("utf-8-sig"), newline="")


def _row(path: Path, line: int, fields: list[str], names: list[str], labelled: bool) -> list[float]:
    found = []
    for j, field in enumerate(fields, 1):
        value = _number(field)
        if labelled and j == 1 and value is None:
            value = math.nan
        elif value is None or not math.isfinite(value):
            name = f" ({names[j - 1][:60]!r})" if names else ""
            where = f"{path.name}, line {line}, column {j}{name}"
            raise InputError(f"{where} is {field[:20]!r}, not a finite number; {NUMBERS_ONLY}")
        found.append(value)
    return found


def _number(field: str) -> float | None:
    try:
        return None if "_" in field else float(field)  # Python reads 1_000, other programs do not
    except ValueError:
        return None
