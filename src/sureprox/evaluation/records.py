"""What was measured, how, and with what. Figures and tables are made from these records alone."""

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import SureproxError
from sureprox.base.files import parse_json
from sureprox.evaluation.figures import FIGURES, FigureSpec
from sureprox.evaluation.metrics import summarise

DIGITS = {"mean": 4, "median": 3, "q10": 3, "q90": 3}  # significant digits of each column


class RecordError(SureproxError, ValueError):
    """A record that is not there or cannot be read."""


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Whatever is wrong with the content of a file names the file."""
    try:
        yield
    except SureproxError:
        raise
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError) as error:
        reason = f"no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
        raise RecordError(f"{path} is not a record of {what} ({reason}); delete it and run it again") from None


def content_of(path: Path, maker: str) -> Any:
    """What the JSON of a record says; where there is none, `maker` is the command that makes one."""
    try:
        return parse_json(path.read_bytes())
    except FileNotFoundError:
        raise RecordError(f"there is no record {path}; make it with: sureprox {maker}") from None


@dataclass(frozen=True)
class CurveRecord:
    """One curve. mean, median, q10, q90: of the relative gap over the instances, infinite where these diverged."""

    optimizer: str
    scenario: str
    settings: dict[str, Any]  # of the optimizer
    weights: str | None  # sha256
    data: str  # where the problems come from
    seed: int
    instances: int
    zero_optimum: int  # instances with F* = 0, measured against the mean F* of the others
    precision: float  # largest relative duality gap of F*
    dtype: str
    device: str
    date: str
    versions: dict[str, str]
    seconds: float  # of the steps alone
    steps: int  # taken; fewer than recorded if nothing finite was left
    iterations: tuple[int, ...]
    mean: tuple[float, ...]
    median: tuple[float, ...]
    q10: tuple[float, ...]
    q90: tuple[float, ...]
    nonfinite: tuple[tuple[int, int], ...]  # (iteration, instances not finite from here on) where the number changes

    @property
    def key(self) -> tuple[str, str]:
        return self.optimizer, self.scenario

    @property
    def lost(self) -> int:
        """Instances that are not finite at the end."""
        return self.nonfinite[-1][1] if self.nonfinite else 0


@dataclass(frozen=True)
class TuningRecord:
    """How the settings of an optimizer were chosen for a family: the smallest final mean gap on other problems."""

    optimizer: str
    family: str
    seed: int
    instances: int
    iterations: int
    grid: tuple[tuple[dict[str, Any], float], ...]  # settings, final mean relative gap

    @property
    def chosen(self) -> dict[str, Any]:
        return min(self.grid, key=lambda row: row[1])[0]


@dataclass(frozen=True)
class Missing:
    """A curve that could not be run, and why."""

    optimizer: str
    scenario: str
    reason: str


@dataclass(frozen=True)
class FigureRecord:
    """Everything that one figure is drawn from."""

    figure: str
    mode: str  # "quick" or "full"
    curves: tuple[CurveRecord, ...]
    missing: tuple[Missing, ...] = ()
    tuning: tuple[TuningRecord, ...] = ()

    @property
    def spec(self) -> FigureSpec:
        """What the figure shows: the curves of the paper's, and those that have joined."""
        return FIGURES[self.figure].joined(curve.optimizer for curve in self.curves)

    def find(self, optimizer: str, scenario: str) -> CurveRecord | None:
        return next((curve for curve in self.curves if curve.key == (optimizer, scenario)), None)


def columns(gaps: torch.Tensor, recorded: Sequence[int]) -> dict[str, Any]:
    """The fields of a `CurveRecord` that come from gaps (G, B), rounded as they are on disk."""
    rows = [summarise(row) for row in gaps]
    made: dict[str, Any] = {name: tuple(rounded(getattr(r, name), d) for r in rows) for name, d in DIGITS.items()}
    counts = [row.nonfinite for row in rows]
    changes = [(k, now) for k, before, now in zip(recorded, [0, *counts[:-1]], counts, strict=True) if before != now]
    return {"iterations": tuple(recorded), "nonfinite": tuple(changes)} | made


def rounded(value: float, digits: int) -> float:
    return math.inf if not math.isfinite(value) else float(f"{value:.{digits}g}")
