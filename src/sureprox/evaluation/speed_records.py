"""What `sureprox bench speed` has measured, as JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from sureprox.base.files import write_atomically
from sureprox.evaluation.records import content_of, reading
from sureprox.evaluation.speed import Timing

FLOAT_BYTES = 4  # all is float32


@dataclass(frozen=True)
class SpeedRecord:
    """Seconds per iteration of whole batches, and the speed of a copy in the same run."""

    m: int
    n: int
    shared: bool  # one A for the whole batch
    protocol: str
    bandwidth: float  # bytes per second, read and written, of a copy
    timings: tuple[Timing, ...]
    where: dict[str, Any]  # device, date, versions

    def floor(self, batch: int, reads: int) -> float:
        """Seconds in which the matrices of the batch can be read that often."""
        return reads * (1 if self.shared else batch) * FLOAT_BYTES * self.m * self.n / self.bandwidth

    def traffic(self, name: str, mode: str) -> dict[int, float]:
        """Batch size: seconds in which the state of an iteration can be read and written, where it was counted."""
        counted = [t for t in self.timings if (t.name, t.mode) == (name, mode) and t.state]
        return {t.batch: 2 * t.state / self.bandwidth for t in counted}

    @property
    def batches(self) -> list[int]:
        return sorted({timing.batch for timing in self.timings})

    def best(self, name: str, mode: str) -> dict[int, float]:
        """Batch size: seconds per iteration, best round."""
        return {t.batch: t.best for t in self.timings if (t.name, t.mode) == (name, mode)}

    def as_dict(self) -> dict[str, Any]:
        """As it is on disk."""
        return {
            "setting": {"m": self.m, "n": self.n, "dtype": "float32", "shared_matrix": self.shared},
            "protocol": self.protocol,
            "copy_bytes_per_second": self.bandwidth,
            "seconds_to_read_all_matrices_once": {str(batch): self.floor(batch, 1) for batch in self.batches},
            "timings": [asdict(timing) for timing in self.timings],
        }


def write_speed(path: Path, record: SpeedRecord) -> None:
    write_atomically(path, (json.dumps(record.where | record.as_dict(), indent=2) + "\n").encode())


def read_speed(path: Path) -> SpeedRecord:
    with reading(path, "speed"):
        content = content_of(path, "bench speed")
        setting = content["setting"]
        return SpeedRecord(
            m=int(setting["m"]),
            n=int(setting["n"]),
            shared=bool(setting["shared_matrix"]),
            protocol=str(content["protocol"]),
            bandwidth=float(content["copy_bytes_per_second"]),
            timings=_timings(content["timings"]),
            where={key: content[key] for key in ("device", "machine", "date", "versions") if key in content},
        )


def _timings(entries: Sequence[dict[str, Any]]) -> tuple[Timing, ...]:
    found = tuple(Timing(**entry) for entry in entries)
    if not found:
        raise ValueError("no timings")
    for timing in found:
        if not (timing.batch >= 1 and min(timing.best, timing.median) > 0):
            raise ValueError(f"{timing.name} at batch {timing.batch} took {timing.best} s")
    return found
