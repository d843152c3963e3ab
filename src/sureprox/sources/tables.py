"""Labelled tables in CSV files without a header: strict reading, and standardised columns."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.errors import DataError


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
        raise _damaged(f"{table.name} has {len(lines)} rows; expected {table.rows}")
    rows = [_row(table, f"{table.name}, row {i}", line) for i, line in enumerate(lines, 1)]
    numbers = torch.tensor(rows, dtype=torch.float64)
    return numbers[:, :-1].contiguous(), numbers[:, -1].contiguous()


def standardised(A: Tensor) -> Tensor:
    """(A - mean) / std by columns (m, n), with the std of the m rows themselves; a constant column becomes zero."""
    varies = A.amax(0) > A.amin(0)  # exact, where the std of a constant column may be rounding instead of zero
    centred = torch.where(varies, A - A.mean(0), 0.0)
    centred = centred / torch.where(varies, centred.abs().amax(0), 1.0)  # squares neither overflow nor underflow
    return centred / torch.where(varies, centred.square().mean(0).sqrt(), 1.0)


def _row(table: Table, where: str, line: str) -> list[float]:
    """The numbers of one row, then its label."""
    *fields, label = line.split(",")
    if len(fields) != table.features:
        raise _damaged(f"{where} has {len(fields) + 1} fields; expected {table.features + 1}")
    if label.strip() not in table.labels:
        raise _damaged(f"{where} has label {label[:20]!r}; expected {' or '.join(table.labels)}")
    return [*_numbers(where, fields), table.labels[label.strip()]]


def _numbers(where: str, fields: list[str]) -> list[float]:
    numbers = []
    for j, text in enumerate(fields, 1):
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise _damaged(f"{where}, field {j} is {text[:20]!r}, not a number")
        numbers.append(value)
    return numbers


def _damaged(fault: str) -> DataError:
    return DataError(f"{fault}. The file is damaged; take it from its source again")
