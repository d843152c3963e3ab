"""From figures to records: every curve is computed once, kept on disk as soon as it is done, and never twice."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sureprox.base.errors import InputError, SureproxError
from sureprox.base.machine import circumstances
from sureprox.evaluation import tuning
from sureprox.evaluation.contestants import FIXED, Contestant, UnavailableError, classical, learned, require_fit
from sureprox.evaluation.datasets import Dataset, Instances, draw, solved
from sureprox.evaluation.experiment import trace
from sureprox.evaluation.figures import FigureSpec, Line
from sureprox.evaluation.metrics import gap_scale
from sureprox.evaluation.record_files import read_curve, read_tuning, write_curve, write_figure, write_tuning
from sureprox.evaluation.records import CurveRecord, FigureRecord, Missing, TuningRecord, columns
from sureprox.evaluation.scenarios import Scenario

DataKey = tuple[str, int, int]  # source, number of instances, seed
KEY_FORMAT = 1  # raise it when the same request no longer gives the same numbers


@dataclass(frozen=True)
class Request:
    """How much is run."""

    mode: str
    instances: int
    iterations: int
    seed: int = 0
    dtype: str = "float32"
    dictionary: str = "ours"  # of the image patches

    def __post_init__(self) -> None:
        if self.instances < 1 or self.iterations < 1 or self.seed < 0:
            raise InputError(
                f"instances is {self.instances}, iterations {self.iterations} and seed {self.seed}; "
                "the first two must be at least 1, the seed at least 0"
            )


QUICK = Request("quick", instances=10, iterations=400)
FULL = Request("full", instances=1024, iterations=1000)


@dataclass(frozen=True)
class Step:
    """What a listener hears after each curve."""

    figure: str
    line: Line
    how: str  # "computed", "kept" (it was on disk) or "missing"
    seconds: float = 0.0


class Reproduction:
    """Runs figures into a directory: `curves/`, `tuning/` and `optima/` are what an interrupted run goes on from."""

    def __init__(
        self,
        request: Request,
        work: Path,
        device: torch.device,
        weights: Path | None = None,
        listener: Callable[[Step], None] = lambda step: None,
    ) -> None:
        self.request = request
        self.work = work
        self.device = device
        self.weights = weights
        self.listener = listener
        self.dtype: torch.dtype = getattr(torch, request.dtype)
        self._instances: dict[DataKey, Instances] = {}
        self._data: dict[DataKey, Dataset] = {}
        self._no_data: dict[str, str] = {}  # source: why; not tried again for every curve
        self._contestants: dict[tuple[str, str], Contestant] = {}

    def figure(self, spec: FigureSpec, path: Path) -> FigureRecord:
        """Run what is not yet on disk of this figure and write its record to `path`."""
        curves, missing = [], []
        for line in spec.lines:
            try:
                curve, how = self.curve(line)
            except UnavailableError as reason:
                missing.append(Missing(line.optimizer, line.scenario.name, str(reason)))
                self.listener(Step(spec.name, line, "missing"))
                continue
            curves.append(curve)
            self.listener(Step(spec.name, line, how, curve.seconds))
        tuned = {(c.optimizer, Scenario.parse(c.scenario).family) for c in curves if c.optimizer in tuning.GRIDS}
        records = tuple(self.tuning(*pair) for pair in sorted(tuned))
        record = FigureRecord(spec.name, self.request.mode, tuple(curves), tuple(missing), records)
        write_figure(path, record)
        return record

    def curve_file(self, line: Line) -> Path:
        """Where the curve is, or will be, kept."""
        contestant = self._contestant(line.optimizer, line.scenario.family)
        return self.work / "curves" / f"{self._key(contestant, line.scenario)}.json"

    def curve(self, line: Line) -> tuple[CurveRecord, str]:
        """The curve, and whether it was "computed" or "kept"."""
        path = self.curve_file(line)
        if path.exists():
            return read_curve(path), "kept"
        contestant = self._contestant(line.optimizer, line.scenario.family)
        data = self.dataset(self.curve_data(line))
        require_fit(contestant, data.problem)
        try:
            seen = trace(contestant.optimizer, data, line.scenario, self.request.iterations, dtype=self.dtype)
        except InputError as error:  # an optimizer may refuse problems that it is not made for
            raise UnavailableError(f"{line.optimizer} on {line.scenario.source}: {error}") from None
        record = CurveRecord(
            optimizer=line.optimizer,
            scenario=line.scenario.name,
            settings=dict(contestant.settings),
            weights=contestant.weights,
            data=data.instances.origin,
            seed=self.request.seed,
            instances=data.problem.batch,
            zero_optimum=int(gap_scale(data.best)[1].sum()),
            precision=float(f"{data.precision:.2g}"),
            dtype=self.request.dtype,
            seconds=float(f"{seen.seconds:.3g}"),
            steps=seen.steps,
            **circumstances(self.device),
            **columns(seen.gaps, seen.grid),
        )
        write_curve(path, record)
        return record, "computed"

    def _key(self, contestant: Contestant, scenario: Scenario) -> str:
        """A hash of all that the numbers of a curve depend on."""
        source, request = scenario.source, self.request
        data = source
        if source not in ("lasso", "logistic"):  # what is downloaded or found on this machine may differ elsewhere
            data = self._drawn(source, request.instances, request.seed).fingerprint
        own = [contestant.code] if contestant.code else []
        return _hash(
            [KEY_FORMAT, contestant.name, contestant.weights, dict(contestant.settings), scenario.name, data, *own],
            [request.seed, request.instances, request.iterations, request.dtype, self.device.type],
        )

    def _contestant(self, name: str, family: str) -> Contestant:
        found = self._contestants.get((name, family))
        if found is None:
            if name in FIXED:
                found = classical(name, FIXED[name])
            elif name in tuning.GRIDS:
                found = classical(name, self.tuning(name, family).chosen)
            else:
                found = learned(name, self.device, self.weights)
            self._contestants[name, family] = found
        return found

    def tuning_file(self, name: str, family: str) -> Path:
        """Where the tuning is, or will be, kept."""
        _, count, seed = self.tuning_data(family)
        request = [seed, count, self.request.iterations, self.request.dtype, self.device.type]
        key = _hash([KEY_FORMAT, name, family, tuning.GRIDS[name]], request)
        return self.work / "tuning" / f"{key}.json"

    def tuning(self, name: str, family: str) -> TuningRecord:
        """The grid of step sizes of an optimizer of `tuning.GRIDS`, and what each of them gave."""
        path = self.tuning_file(name, family)
        if not path.exists():
            key = self.tuning_data(family)
            write_tuning(path, tuning.tune(name, self.dataset(key), self.request.iterations, key[2], self.dtype))
        return read_tuning(path)

    def tuning_data(self, family: str) -> DataKey:
        return (family, min(self.request.instances, tuning.INSTANCES), self.request.seed + tuning.SEEDS)

    def curve_data(self, line: Line) -> DataKey:
        return (line.scenario.source, self.request.instances, self.request.seed)

    def dataset(self, key: DataKey) -> Dataset:
        """These problems with their optimal values."""
        if key not in self._data:
            self._data[key] = solved(self._drawn(*key), self.work / "optima", self.device)
            self._instances[key] = self._data[key].instances
        return self._data[key]

    def _drawn(self, source: str, count: int, seed: int) -> Instances:
        key = (source, count, seed)
        if source in self._no_data:
            raise UnavailableError(self._no_data[source])
        if key not in self._instances:
            try:
                self._instances[key] = draw(source, count, seed, self.request.dictionary)
            except (SureproxError, OSError, ModuleNotFoundError) as error:
                self._no_data[source] = f"no data for {source}: {error}"
                raise UnavailableError(self._no_data[source]) from None
        return self._instances[key]


def _hash(*parts: Sequence[Any]) -> str:
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:20]
