"""One figure from the records of several training seeds: the median over them, and from the least to the greatest."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from sureprox.evaluation.records import CurveRecord, FigureRecord, RecordError


def merged(records: Sequence[FigureRecord]) -> FigureRecord:
    """mean and median: the median over the seeds of the mean gap; q10 and q90: its least and its greatest.

    A curve that some seed lacks is left out, and said to be missing.
    """
    if not records:
        raise RecordError("no training seed has this figure; run it for each of them")
    first, seeds = records[0], len(records)
    curves = []
    missing = {(entry.optimizer, entry.scenario): entry for record in records for entry in record.missing}
    for curve in first.curves:
        found = [other for record in records if (other := record.find(*curve.key)) is not None]
        if len(found) == seeds and curve.key not in missing:
            curves.append(_merged(found))
    mode = f"{first.mode}, median and range of {seeds} training seeds"
    return replace(first, mode=mode, curves=tuple(curves), missing=tuple(missing.values()))


def _merged(curves: Sequence[CurveRecord]) -> CurveRecord:
    if len({curve.iterations for curve in curves}) > 1:
        raise RecordError(
            f"{curves[0].optimizer} was recorded at different iterations for different seeds; run it again"
        )
    columns = list(zip(*(curve.mean for curve in curves), strict=True))
    middle = tuple(median(column) for column in columns)
    low, high = tuple(map(min, columns)), tuple(map(max, columns))
    worst = max(curves, key=lambda curve: curve.lost)
    return replace(curves[0], mean=middle, median=middle, q10=low, q90=high, nonfinite=worst.nonfinite)
