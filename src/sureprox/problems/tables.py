"""Labelled tables in CSV files without a header: strict reading, and standardised columns."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.errors import DataError


@dataclass(frozen=True)
class Table:
    """What a file must hold: so many rows of so many numbers, each row followed by one of these labels."""

    name: str
    rows: int
    features: int
    labels: dict[str, float]


def parse(table: Table, content: bytes) -> tuple[Tensor, Tensor]:
    """Features (rows, features) and labels (rows,) in float64; anything unexpected is refused."""
    lines = content.decode("ascii", errors="replace").splitlines()
    if len(lines) != table.rows:
        raise DataError(f"{table.name} has {len(lines)} rows; expected {table.rows}. {_AGAIN}")
    fields = [line.split(",") for line in lines]
    y = [_label(table, i, row) for i, row in enumerate(fields)]
    A = [[_number(table, i, j, text) for j, text in enumerate(row[:-1])] for i, row in enumerate(fields)]
    return torch.tensor(A, dtype=torch.float64), torch.tensor(y, dtype=torch.float64)


def standardised(A: Tensor) -> Tensor:
    """(A - mean) / std by columns (m, n), with the std of the m rows themselves; a constant column becomes zero."""
    varies = A.amax(0) > A.amin(0)  # exact, where the std of a constant column may be rounding instead of zero
    std = A.std(0, correction=0)
    return torch.where(varies, (A - A.mean(0)) / torch.where(varies, std, 1.0), 0.0)


_AGAIN = "The file is damaged; take it from its source again"


def _label(table: Table, i: int, row: list[str]) -> float:
    if len(row) != table.features + 1:
        raise DataError(f"{table.name}, row {i + 1} has {len(row)} fields; expected {table.features + 1}. {_AGAIN}")
    text = row[-1].strip()
    if text not in table.labels:
        known = " or ".join(table.labels)
        raise DataError(f"{table.name}, row {i + 1} has label {text[:20]!r}; expected {known}. {_AGAIN}")
    return table.labels[text]


def _number(table: Table, i: int, j: int, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not abs(value) < float("inf"):
        raise DataError(f"{table.name}, row {i + 1}, field {j + 1} is {text[:20]!r}, not a number. {_AGAIN}")
    return value
