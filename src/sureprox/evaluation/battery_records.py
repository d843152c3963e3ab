"""What the battery has measured: one record for each kind and optimizer, one line of JSON each."""

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from sureprox.base.files import write_atomically
from sureprox.evaluation.records import content_of, reading

LEVELS = (1e-3, 1e-6, 1e-9)  # of the relative gap (F - F*) / F*
FORMAT = 1


@dataclass(frozen=True)
class KindRecord:
    """An optimizer on a kind."""

    kind: str
    family: str
    trained: bool  # whether Sure has seen the kind in training
    optimizer: str
    weights: str | None  # sha256
    origin: str  # of the problems
    seed: int
    instances: int
    size: tuple[int, int]  # m, n
    precision: float  # largest relative duality gap of F*
    dtype: str
    most: int  # iterations at which it was stopped
    products_at_start: int  # products with A before the first iteration
    products: int  # and in each
    seconds: float | None  # of as many iterations, of the whole batch, as half of the instances need to 1e-6
    iterations: dict[float, list[int | None]]  # level: first iteration at it, for each instance; None: never
    device: str
    date: str
    versions: dict[str, str]

    @staticmethod
    def quantile_of(iterations: Sequence[int | None], share: float) -> int | None:
        """The smallest number of iterations after which that share of the instances is there; None: never."""
        ordered = sorted(math.inf if k is None else k for k in iterations)
        value = ordered[max(math.ceil(share * len(ordered)) - 1, 0)]
        return None if value == math.inf else int(value)

    def quantile(self, level: float, share: float) -> int | None:
        return self.quantile_of(self.iterations[level], share)

    def products_to(self, level: float, share: float = 0.5) -> int | None:
        k = self.quantile(level, share)
        return None if k is None else self.products_at_start + k * self.products

    def failures(self, level: float = 1e-6) -> int:
        """Instances that never got to this level."""
        return sum(k is None for k in self.iterations[level])


def write_records(path: Path, records: Iterable[KindRecord]) -> None:
    lines = [json.dumps(as_json(record), sort_keys=True) for record in records]
    write_atomically(path, ("[\n" + ",\n".join(lines) + "\n]\n").encode())


def read_records(path: Path) -> list[KindRecord]:
    with reading(path, "the battery"):
        return [_from_json(entry) for entry in content_of(path, "bench battery")]


def as_json(record: KindRecord) -> dict[str, Any]:
    """The record as it is on disk."""
    content = asdict(record) | {"format": FORMAT}
    content["iterations"] = {f"{level:g}": row for level, row in record.iterations.items()}
    if record.seconds is not None:
        content["seconds"] = float(f"{record.seconds:.4g}")
    content["precision"] = float(f"{record.precision:.2g}")
    return content


def _from_json(content: dict[str, Any]) -> KindRecord:
    if content.pop("format") != FORMAT:
        raise ValueError(f"not of format {FORMAT}")
    known = {f.name for f in fields(KindRecord)}
    if set(content) != known:
        raise ValueError(f"fields differ: {', '.join(sorted(set(content) ^ known))}")
    content["iterations"] = {float(level): row for level, row in content["iterations"].items()}
    content["size"] = tuple(content["size"])
    return KindRecord(**content)
