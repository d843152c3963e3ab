"""Records as JSON: one line for each curve, numbers with a few significant digits, the same bytes for the same record.

JSON has no infinity: a gap that is infinite is written as the string "inf".
"""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from sureprox.base.files import write_atomically
from sureprox.evaluation.records import (
    DIGITS,
    CurveRecord,
    FigureRecord,
    Missing,
    RecordError,
    TuningRecord,
    content_of,
    reading,
)

FORMAT = 1


def write_curve(path: Path, record: CurveRecord) -> None:
    write_atomically(path, (_curve_text(record, with_grid=True) + "\n").encode())


def read_curve(path: Path) -> CurveRecord:
    with reading(path, "a curve"):
        return _curve(_load(path), path)


def write_tuning(path: Path, record: TuningRecord) -> None:
    write_atomically(path, (_tuning_text(record) + "\n").encode())


def read_tuning(path: Path) -> TuningRecord:
    with reading(path, "a tuning"):
        return _tuning(_load(path))


def write_figure(path: Path, record: FigureRecord) -> None:
    """The grid of iterations, which all curves share, is written once. A file that would not change is left alone."""
    grids = {curve.iterations for curve in record.curves}
    if len(grids) > 1:
        raise RecordError(f"the curves of {record.figure} were recorded at different iterations; run it again")
    parts = {
        "format": _compact(FORMAT),
        "figure": _compact(record.figure),
        "mode": _compact(record.mode),
        "iterations": _compact(next(iter(grids), ())),
        "missing": _lines([_compact(asdict(entry)) for entry in record.missing]),
        "tuning": _lines([_tuning_text(entry) for entry in record.tuning]),
        "curves": _lines([_curve_text(curve, with_grid=False) for curve in record.curves]),
    }
    text = "{\n" + ",\n".join(f'"{name}": {part}' for name, part in parts.items()) + "\n}\n"
    if not (path.exists() and path.read_text() == text):
        write_atomically(path, text.encode())


def read_figure(path: Path) -> FigureRecord:
    content = _load(path)
    if content.get("format") != FORMAT:
        raise RecordError(f"{path} has record format {content.get('format')!r}; this version reads {FORMAT}")
    with reading(path, "a figure"):
        return FigureRecord(
            figure=content["figure"],
            mode=content["mode"],
            curves=tuple(_curve(entry | {"iterations": content["iterations"]}, path) for entry in content["curves"]),
            missing=tuple(Missing(**entry) for entry in content["missing"]),
            tuning=tuple(_tuning(entry) for entry in content["tuning"]),
        )


def read_figures(directory: Path) -> dict[str, FigureRecord]:
    """All figures recorded in a directory, in their order."""
    found = sorted(directory.glob("fig*.json"), key=lambda path: (len(path.stem), path.stem))
    return {path.stem: read_figure(path) for path in found}


def read_seeds(directory: Path) -> list[dict[str, FigureRecord]]:
    """The figures of each training seed, from DIRECTORY/seed-*; where there are none, those of the directory itself."""
    found = sorted(path for path in directory.glob("seed-*") if any(path.glob("fig*.json")))
    return [read_figures(path) for path in found or [directory]]


def _load(path: Path) -> dict[str, Any]:
    try:
        content = content_of(path, f"reproduce {path.stem}")
    except RecordError:
        raise
    except ValueError as error:
        raise RecordError(f"{path} is not a record (not JSON: {error}); delete it and run it again") from None
    if not isinstance(content, dict):
        raise RecordError(f"{path} is not a record; delete it and run it again")
    return content


def _curve(content: dict[str, Any], path: Path) -> CurveRecord:
    wrong = set(content) ^ {f.name for f in fields(CurveRecord)}
    if wrong:
        raise RecordError(f"{path} has a curve with {sorted(wrong)} too many or too few; delete it and run it again")
    columns = {name: tuple(float(value) for value in content[name]) for name in DIGITS}
    if any(math.isnan(value) for column in columns.values() for value in column):
        raise RecordError(f"{path} has a curve with a gap that is not a number; delete it and run it again")
    if not all(type(k) is int for k in content["iterations"]):
        raise RecordError(f"{path} has iterations that are not whole numbers; delete it and run it again")
    pairs = tuple((int(k), int(count)) for k, count in content["nonfinite"])
    return CurveRecord(**(content | columns | {"iterations": tuple(content["iterations"]), "nonfinite": pairs}))


def _curve_text(record: CurveRecord, with_grid: bool) -> str:
    parts = []
    for name, value in asdict(record).items():
        if name in DIGITS:
            parts.append(f'"{name}":[{",".join(_number(v, DIGITS[name]) for v in value)}]')
        elif name != "iterations" or with_grid:
            parts.append(f'"{name}":{_compact(value)}')
    return "{" + ",".join(parts) + "}"


def _tuning(content: dict[str, Any]) -> TuningRecord:
    grid = tuple((settings, float(gap)) for settings, gap in content["grid"])
    return TuningRecord(**(content | {"grid": grid}))


def _tuning_text(record: TuningRecord) -> str:
    grid = [[settings, gap if math.isfinite(gap) else "inf"] for settings, gap in record.grid]
    return _compact(asdict(record) | {"grid": grid})


def _number(value: float, digits: int) -> str:
    """1.234e-5, not 1.234e-05: the files are mostly such numbers."""
    if not math.isfinite(value):
        return '"inf"'
    mantissa, e, exponent = f"{value:.{digits}g}".partition("e")
    return f"{mantissa}e{int(exponent)}" if e else mantissa


def _lines(entries: Sequence[str]) -> str:
    return "[" + ",".join(f"\n{entry}" for entry in entries) + "]"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
