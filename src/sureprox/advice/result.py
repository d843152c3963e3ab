"""What `advise` returns."""

import math
from dataclasses import asdict, dataclass
from typing import Any

from sureprox.advice.familiarity import Familiarity

COLUMNS = ("solver", "per problem", "all problems", "measured on")


@dataclass(frozen=True)
class Timing:
    """A solver on a sample. Not solved, or not measured: seconds are None and `note` says why."""

    solver: str
    call: str  # how to write it
    seconds: float | None = None  # per problem
    whole: float | None = None  # for all problems; an estimate if these are more than the sample
    sample: int = 0  # problems that it was measured on
    note: str = ""


@dataclass(frozen=True)
class Advice:
    """Which solver to use for a batch of problems, and why. `str(advice)` is a page of text.

    `solver` is None if none reached the gap `tol` in the time given.
    """

    solver: str | None
    call: str
    reason: str
    timings: tuple[Timing, ...]  # the quickest first
    familiarity: tuple[Familiarity, ...]  # of each learned optimizer
    problems: int
    sample: int  # problems of the largest sample
    tol: float
    device: str

    def timing(self, solver: str) -> Timing | None:
        return next((timing for timing in self.timings if timing.solver == solver), None)

    def as_dict(self) -> dict[str, Any]:
        """For JSON; what is not finite is None."""
        made: dict[str, Any] = _plain(asdict(self))
        return made

    def __str__(self) -> str:
        lines = [self.headline, self.reason, *([f"  {self.call}"] if self.call else [])]
        lines += [f"seconds to a relative gap of {self.tol:g} on {self.device}: {', '.join(COLUMNS[1:])}"]
        for name, *cells, note in self.rows():
            lines.append((f"  {name:32} " + " ".join(f"{text:>10}" for text in cells) + f"  {note}").rstrip())
        if self.familiarity:
            lines += ["how much these problems look like those of the training:"]
            lines += [f"  {', '.join(models)}: {words}" for words, models in self.likeness().items()]
        return "\n".join(lines)

    @property
    def headline(self) -> str:
        return f"use {self.solver}" if self.solver else "no solver to recommend"

    def rows(self) -> list[tuple[str, ...]]:
        """`COLUMNS` and the note of each solver, as text."""
        return [(t.solver, _cell(t.seconds), _cell(t.whole), str(t.sample or ""), t.note) for t in self.timings]

    def likeness(self) -> dict[str, list[str]]:
        """What is said about the familiarity, and of which models."""
        found: dict[str, list[str]] = {}
        for entry in self.familiarity:
            found.setdefault(entry.words, []).append(entry.model)
        return found


def _cell(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.3g}"


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
