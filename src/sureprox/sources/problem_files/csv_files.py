"""CSV: one row for each equation or sample, a column for each feature, and the target in one column."""

import csv
import math
from array import array
from pathlib import Path

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.limits import Array

DELIMITERS = (",", ";", "\t")


def read_csv(path: Path, target: str | None = None) -> tuple[Array, Array]:
    """Features (m, n) and the target (m,): the last column, or the one of this name or number (from 1).

    The first row is a header if any of its fields is not a number. Fields are separated by the first of comma,
    semicolon and tab that it has.
    """
    with path.open(encoding="utf-8-sig", newline="") as file:
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
            values.extend(_row(path, 1, heading, len(heading)))
        for fields in rows:
            if fields:
                values.extend(_row(path, rows.line_num, fields, len(heading)))
    if not values:
        raise InputError(f"{path.name} has no rows of numbers")
    table = np.frombuffer(values, dtype=np.float64).reshape(-1, len(heading))
    column = _column(path, target, heading if header else [], len(heading))
    return np.delete(table, column, axis=1), table[:, column].copy()


def _column(path: Path, target: str | None, names: list[str], count: int) -> int:
    if target is None:
        return count - 1
    if names.count(target) == 1:
        return names.index(target)
    if target.isascii() and target.isdigit() and 1 <= int(target[:9]) <= count and target not in names:
        return int(target[:9]) - 1
    known = f"one of {', '.join(names)[:200]}, or " if names else ""
    raise InputError(f"{path.name} has no single column {target[:60]!r}; give {known}a number from 1 to {count}")


def _row(path: Path, line: int, fields: list[str], width: int) -> list[float]:
    if len(fields) != width:
        raise InputError(f"{path.name}, line {line} has {len(fields)} fields; the first row has {width}")
    found = []
    for j, field in enumerate(fields, 1):
        value = _number(field)
        if value is None or not math.isfinite(value):
            raise InputError(f"{path.name}, line {line}, column {j} is {field[:20]!r}, not a finite number")
        found.append(value)
    return found


def _number(field: str) -> float | None:
    try:
        return None if "_" in field else float(field)  # Python reads 1_000, other programs do not
    except ValueError:
        return None
