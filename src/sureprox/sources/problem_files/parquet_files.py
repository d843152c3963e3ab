"""Tables in Parquet files, read by pyarrow where it is installed."""

from pathlib import Path

import numpy as np

from sureprox.base.errors import InputError
from sureprox.sources.problem_files.csv_files import NUMBERS_ONLY, Table
from sureprox.sources.problem_files.limits import check_expansion


def read_parquet(path: Path) -> Table:
    """Columns of real numbers; the first may hold the names of the rows."""
    try:
        from pyarrow import parquet, types
    except ModuleNotFoundError:
        raise InputError(f"reading {path.name} needs pyarrow; run: pip install pyarrow, or save it as CSV") from None
    with parquet.ParquetFile(path) as file:
        about = file.metadata
        check_expansion(path.name, path.stat().st_size, about.num_rows * about.num_columns * 8)
        content = file.read()
    if content.num_columns < 2 or content.num_rows == 0:
        raise InputError(
            f"{path.name} has {content.num_columns} columns and {content.num_rows} rows; it needs two columns"
        )
    names = [str(name) for name in content.column_names]
    columns, labelled = [], False
    for j, name in enumerate(names):
        column = content.column(j)
        if types.is_boolean(column.type) or types.is_integer(column.type) or types.is_floating(column.type):
            values = np.asarray(column.to_numpy(), dtype=np.float64)
            if not np.isfinite(values).all():
                fault = f"column {name[:60]!r} has missing or infinite values"
                raise InputError(f"{path.name}, {fault}; {NUMBERS_ONLY}")
        elif j == 0 or name.startswith("__index_level_"):
            values, labelled = np.full(content.num_rows, np.nan), True
        else:
            raise InputError(f"{path.name}, column {name[:60]!r} holds {column.type}; {NUMBERS_ONLY}")
        columns.append(values)
    place = next((j for j, name in enumerate(names) if name.startswith("__index_level_")), 0)
    order = [place, *(j for j in range(len(names)) if j != place)]  # pandas writes its index last
    return Table([names[j] for j in order], np.stack([columns[j] for j in order], axis=1), labelled)
