"""What the columns of a table mean: features, targets, and a column that only numbers or names the rows.

With an intercept c and centred columns Z = (A - 1 mean') / scale, the problem in z is the problem in x = z / scale:
A x + c = Z z + (c + mean'x). For least squares the best c + mean'x is the mean of the target, which is centred too;
for other losses it is the last coordinate, of a column of ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.csv_files import Table, read_text_table
from sureprox.sources.problem_files.limits import Array
from sureprox.sources.problem_files.parquet_files import read_parquet

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet")
INDEX_NAMES = ("", "unnamed: 0", "index", "id", "row", "rownames", "__index_level_0__")


@dataclass(frozen=True)
class Columns:
    """R targets and n features by name; `index`: the column that was left out. What was solved is in z, not x."""

    features: tuple[str, ...]
    targets: tuple[str, ...]
    index: str | None = None
    index_is_text: bool = False
    intercept: bool = False
    mean: Array | None = None  # (n,), of the features
    scale: Array | None = None  # (n,)
    level: Array | None = None  # (R,), means of the targets, where these are centred

    @property
    def own_coordinate(self) -> bool:
        """Whether the intercept is the last coordinate of the problem."""
        return self.intercept and self.level is None

    def restored(self, z: Array) -> tuple[Array, Array]:
        """x (B, n) and the intercept (B,), in the units of the table; problems are ordered by target."""
        n = len(self.features)
        scale = np.ones(n) if self.scale is None else self.scale
        x = z[:, :n] / scale
        if self.mean is None:
            return x, np.zeros(len(x))
        level = z[:, n] if self.level is None else np.repeat(self.level, len(x) // len(self.level))
        return x, level - x @ self.mean


def is_table(path: Path) -> bool:
    return path.name.lower().endswith(SUFFIXES)


def read_table(
    path: Path, key: str, target: str | None, index: str | None, *, intercept: bool, standardize: bool, centred: bool
) -> tuple[dict[str, Any], Columns]:
    """A (m, n) and the targets (m,) or (R, m) under `key`; `centred`: an intercept needs no coordinate of its own."""
    table = read_parquet(path) if path.suffix.lower() == ".parquet" else read_text_table(path)
    names = table.names or [str(j) for j in range(1, table.values.shape[1] + 1)]
    left_out = _index(path, table, index)
    chosen = _targets(path, target, names, table, left_out)
    kept = [j for j in range(len(names)) if j not in chosen and j != left_out]
    if not kept:
        raise InputError(f"{path.name} has no column left for the features; it has {len(names)} columns")
    A, y = table.values[:, kept], table.values[:, chosen].T
    mean = A.mean(0) if intercept else None
    scale = _scale(A) if standardize else None
    if intercept:
        A = A - mean
    if scale is not None:
        A = A / scale
    level = y.mean(1) if intercept and centred else None
    if level is not None:
        y = y - level[:, None]
    elif intercept:
        A = np.column_stack([A, np.ones(len(A))])
    columns = Columns(
        tuple(names[j] for j in kept),
        tuple(names[j] for j in chosen),
        None if left_out is None else (names[left_out] or "1"),
        left_out is not None and table.labelled,
        intercept,
        mean,
        scale,
        level,
    )
    return {"A": np.ascontiguousarray(A), key: np.ascontiguousarray(y if len(chosen) > 1 else y[0])}, columns


def _scale(A: Array) -> Array:
    """Standard deviations; 1 for a column that does not vary."""
    spread = A.std(0)
    flat = spread <= 10 * np.finfo(np.float64).eps * np.abs(A).max(0)
    return np.where(flat, 1.0, spread)


def _index(path: Path, table: Table, wanted: str | None) -> int | None:
    """The column to leave out: the one asked for, one of text, or distinct whole numbers under the name of one."""
    if wanted == "none":
        if table.labelled:
            raise InputError(f"{path.name}: the first column holds text, so it can only be an index; leave out --index")
        return None
    if wanted is not None:
        (place,) = _places(path, [wanted], table.names, table.values.shape[1])
        if table.labelled and place != 0:
            raise InputError(f"{path.name}: the first column holds text; give it as --index")
        return place
    if table.labelled:
        return 0
    if table.names and table.names[0].lower() in INDEX_NAMES and table.values.shape[1] > 2:
        first = table.values[:, 0]
        if (first == np.round(first)).all() and len(np.unique(first)) == len(first):
            return 0
    return None


def _targets(path: Path, target: str | None, names: list[str], table: Table, index: int | None) -> list[int]:
    width = len(names)
    if target is None:
        return [width - 1]
    whole = table.names.count(target) == 1  # a name may hold a comma
    chosen = _places(path, [target] if whole else target.split(","), table.names, width)
    if index in chosen:
        raise InputError(
            f"{path.name}: column {names[chosen[0]]!r} is the index; choose another target, or --index none"
        )
    return list(dict.fromkeys(chosen))


def _places(path: Path, wanted: Sequence[str], names: list[str], count: int) -> list[int]:
    places = []
    for one in (name.strip() for name in wanted):
        if names.count(one) == 1:
            places.append(names.index(one))
        elif one.isascii() and one.isdigit() and 1 <= int(one[:9]) <= count and one not in names:
            places.append(int(one[:9]) - 1)
        else:
            known = f"one of {', '.join(names)[:200]}, or " if names else ""
            raise InputError(f"{path.name} has no single column {one[:60]!r}; give {known}a number from 1 to {count}")
    return places
