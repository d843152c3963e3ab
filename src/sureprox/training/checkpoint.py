"""Everything needed to go on exactly where a run was, in one file that is either whole or absent."""

import io
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import ConfigError, TrainingError
from sureprox.base.files import write_atomically


@dataclass
class Progress:
    """Where a run is: all of it changes only between two batches."""

    batch: int = 0  # batches done, over all epochs
    failures: int = 0  # batches with a non-finite loss or gradient
    in_a_row: int = 0  # such batches since the last good one
    best: float = float("inf")  # smallest validation loss so far
    best_batch: int = 0
    seconds: float = 0.0  # spent training, over all resumptions
    log_bytes: int = 0  # length of the log at this point


@dataclass
class Checkpoint:
    """A run between two batches."""

    recipe: dict[str, Any]
    progress: Progress
    weights: dict[str, Tensor]
    best_weights: dict[str, Tensor]
    meta: dict[str, Tensor]
    generator: Tensor
    stream: dict[str, Tensor] = field(default_factory=dict)  # of runs whose problems live longer than a batch

    def save(self, path: Path) -> None:
        buffer = io.BytesIO()
        content = {f.name: getattr(self, f.name) for f in fields(self)} | {"progress": asdict(self.progress)}
        torch.save(content, buffer)
        write_atomically(path, buffer.getvalue())

    @staticmethod
    def load(path: Path, recipe: dict[str, Any], data: bytes | None = None) -> "Checkpoint":
        """The checkpoint at `path`, or its bytes `data`; refused if damaged or of another recipe."""
        try:
            source = path if data is None else io.BytesIO(data)
            content = torch.load(source, map_location="cpu", weights_only=True)
            content["progress"] = Progress(**content["progress"])
            found = Checkpoint(**content)
        except Exception as error:  # damaged bytes make the unpickler raise almost anything
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TrainingError(f"cannot resume from {path}: {reason}; delete it to start anew") from None
        if found.recipe != recipe:
            changed = ", ".join(_differences(found.recipe, recipe))
            raise ConfigError(f"{path} belongs to another recipe ({changed} differ); choose another output directory")
        return found


def _differences(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    names = []
    for key in sorted(set(one) | set(other)):
        a, b = one.get(key), other.get(key)
        if isinstance(a, dict) and isinstance(b, dict):
            names += [f"{key}.{k}" for k in sorted(set(a) | set(b)) if a.get(k) != b.get(k)]
        elif a != b:
            names.append(key)
    return names
