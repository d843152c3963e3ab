"""Finds the records below some directories and reads them; what cannot be read is one clear error."""

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sureprox.base.errors import InputError
from sureprox.base.files import parse_json
from sureprox.evaluation.battery_records import LEVELS, KindRecord, read_records
from sureprox.evaluation.figures import FIGURES
from sureprox.evaluation.record_files import read_figure
from sureprox.evaluation.records import DIGITS, FigureRecord, RecordError, reading
from sureprox.training.events import Event, read_log

FIGURE = re.compile(r"fig\d+\.json")
TEXTS = ("optimizer", "scenario", "data", "dtype", "device", "date")  # of a curve


@dataclass(frozen=True)
class Reproduction:
    """The figures recorded in one directory: claims are judged from them together."""

    directory: Path
    figures: dict[str, FigureRecord]

    def path(self, figure: str) -> Path:
        return self.directory / f"{figure}.json"


@dataclass(frozen=True)
class BatteryFile:
    path: Path
    records: list[KindRecord]


@dataclass(frozen=True)
class AuditFile:
    path: Path
    content: dict[str, Any]


@dataclass(frozen=True)
class TrainingLog:
    path: Path
    events: list[Event]


@dataclass(frozen=True)
class Found:
    directories: list[Path]
    reproductions: list[Reproduction]
    batteries: list[BatteryFile]
    audits: list[AuditFile]
    trainings: list[TrainingLog]

    @property
    def places(self) -> str:
        """The directories, in words."""
        return ", ".join(map(str, self.directories))

    @property
    def files(self) -> list[Path]:
        figures = [run.path(name) for run in self.reproductions for name in run.figures]
        others = [file.path for file in self.batteries] + [file.path for file in self.audits]
        return figures + others + [log.path for log in self.trainings]


def gather(directories: Sequence[Path]) -> Found:
    """figN.json, battery.json, audit.json and the training logs *.jsonl, wherever they are below the directories."""
    for directory in directories:
        if not directory.is_dir():
            raise InputError(f"there is no directory {directory}; give one with records")
    paths = _below(directories)
    runs: dict[Path, dict[str, FigureRecord]] = {}
    for path in (p for p in paths if FIGURE.fullmatch(p.name)):
        with reading(path, "a figure"):
            runs.setdefault(path.parent, {})[path.stem] = _figure(path)
    found = Found(
        list(directories),
        [Reproduction(directory, _ordered(figures)) for directory, figures in runs.items()],
        [BatteryFile(path, _battery(path)) for path in paths if path.name == "battery.json"],
        [AuditFile(path, _audit(path)) for path in paths if path.name == "audit.json"],
        [TrainingLog(path, _log(path)) for path in paths if path.suffix == ".jsonl"],
    )
    if not found.files:
        raise InputError(
            f"no records below {found.places}; make some, for example with: sureprox reproduce fig1 --quick"
        )
    return found


def fingerprint(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12]


def _below(directories: Sequence[Path]) -> list[Path]:
    """Every file once, however the directories overlap; not the copies that built documentation offers to download."""
    found: dict[Path, Path] = {}
    for directory in directories:
        for pattern in ("*.json", "*.jsonl"):
            for path in sorted(directory.rglob(pattern)):
                if "_downloads" not in path.parts:
                    found.setdefault(path.resolve(), path)
    return list(found.values())


def _ordered(figures: dict[str, FigureRecord]) -> dict[str, FigureRecord]:
    return {name: figures[name] for name in FIGURES if name in figures}


def _figure(path: Path) -> FigureRecord:
    record = read_figure(path)
    if record.figure != path.stem or record.figure not in FIGURES:
        raise RecordError(f"{path} holds figure {record.figure!r}, which does not fit its name; delete it")
    for curve in record.curves:
        for name in TEXTS:
            if not isinstance(getattr(curve, name), str):
                raise ValueError(f"{name} of a curve is {getattr(curve, name)!r}, not text")
        for name in DIGITS:
            if not len(getattr(curve, name)) == len(curve.iterations) > 0:
                raise ValueError(f"{name} of {curve.optimizer} has not as many numbers as there are iterations")
    return record


def _battery(path: Path) -> list[KindRecord]:
    with reading(path, "the battery"):
        records = read_records(path)
        if not records or any(set(record.iterations) != set(LEVELS) for record in records):
            raise ValueError("it holds no records, or not those to 1e-3, 1e-6 and 1e-9")
        return records


def _audit(path: Path) -> dict[str, Any]:
    with reading(path, "an audit"):
        content = parse_json(path.read_bytes())
        missing = {"statements", "models", "growth", "counterexamples"} - set(content)
        if missing:
            raise ValueError(f"no {', '.join(sorted(missing))}")
        return dict(content)


def _events(path: Path) -> list[Event]:
    try:
        return read_log(path)
    except InputError as error:
        raise RecordError(str(error)) from None


def _log(path: Path) -> list[Event]:
    with reading(path, "a training run"):
        events = _events(path)
        if events and events[0]["event"] != "start":  # a run that has just begun may have written nothing yet
            raise ValueError("its first line is not the start of a run")
        return events
