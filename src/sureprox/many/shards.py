"""The output directory: one file for each part, whole or absent, and a manifest that says how they were made."""

import contextlib
import io
import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sureprox.base.errors import InputError
from sureprox.base.files import LOCK, locked, remove_scratch, write_atomically
from sureprox.base.words import brief
from sureprox.many.solved import Solved
from sureprox.solve.solution import Status

MANIFEST = "manifest.json"
FORMAT = 1
STATUSES = tuple(Status)
ARRAYS = ("x", "objective", "gap", "kkt", "iterations")
SHARD_NAME = re.compile(r"shard-(\d{8})\.npz")


@dataclass(frozen=True)
class Shards:
    """Shards of results in a directory. A shard is done when its file is there."""

    directory: Path

    def path(self, index: int) -> Path:
        return self.directory / f"shard-{index:08d}.npz"

    def done(self) -> list[int]:
        """Numbers of the shards that are there, in order."""
        names = (SHARD_NAME.fullmatch(path.name) for path in self.directory.iterdir())
        return sorted(int(name[1]) for name in names if name)

    def write(self, index: int, solved: Solved, label: str) -> None:
        """All of it or nothing, and only once: a shard that is there stays."""
        if self.path(index).exists():
            return
        codes = np.array([STATUSES.index(status) for status in solved.status], dtype=np.uint8)
        buffer = io.BytesIO()
        np.savez(
            buffer,
            **{name: getattr(solved, name).cpu().numpy() for name in ARRAYS},
            status=codes,
            statuses=np.array([str(status) for status in STATUSES]),
            label=np.array(label),
        )
        write_atomically(self.path(index), buffer.getvalue())

    def read(self, index: int, first: int = 0) -> Solved:
        with self._opened(index) as file:
            status = np.array(STATUSES, dtype=object)[file["status"]]
            tensors = {name: torch.from_numpy(file[name]) for name in ARRAYS}
        return Solved(index=index, first=first, status=status, **tensors)

    def label(self, index: int) -> str:
        with self._opened(index) as file:
            return str(file["label"])

    @contextlib.contextmanager
    def _opened(self, index: int) -> Iterator[Any]:
        path = self.path(index)
        try:
            with path.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                yield file
        except (ValueError, KeyError, IndexError, EOFError, OSError, zipfile.BadZipFile, zlib.error) as error:
            raise InputError(f"{path} cannot be read ({brief(error)}); remove it and it is made again") from None

    def manifest(self) -> dict[str, Any] | None:
        path = self.directory / MANIFEST
        if not path.is_file():
            return None
        try:
            found = json.loads(path.read_text())
            if found["format"] != FORMAT or not isinstance(found["settings"], dict):
                raise ValueError(f"format {found['format']}")
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a manifest of solve_many ({error}); give another directory") from None
        return dict(found)

    def begin(self, settings: dict[str, Any]) -> dict[str, Any]:
        """The manifest: a new one, or that of an earlier run if it had the same settings."""
        remove_scratch(self.directory / MANIFEST)  # of a run that was killed while it wrote, here and below
        known = self.manifest()
        if known is None:
            if any(path.name != LOCK for path in self.directory.iterdir()):
                raise InputError(f"{self.directory} holds other things; give a new or empty directory")
            known = {"format": FORMAT, "settings": settings}
            self._write_manifest(known)
        for name, value in settings.items():
            before = known["settings"].get(name)
            if before != value:
                raise InputError(
                    f"{self.directory} was begun with {name} {before!r}, not {value!r}; "
                    "use the same, or another directory"
                )
        for scratch in self.directory.glob(".shard-*.tmp"):
            scratch.unlink(missing_ok=True)
        return known

    def note(self, manifest: dict[str, Any], **facts: Any) -> dict[str, Any]:
        """Write the manifest with these facts added."""
        if any(manifest.get(name) != value for name, value in facts.items()):
            manifest = manifest | facts
            self._write_manifest(manifest)
        return manifest

    def _write_manifest(self, content: dict[str, Any]) -> None:
        write_atomically(self.directory / MANIFEST, (json.dumps(content, indent=2) + "\n").encode())

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """The directory, made if need be, for one run at a time; one that fails without a shard leaves nothing."""
        kept = self.directory / LOCK, self.directory / MANIFEST
        made = [path for path in (*kept, self.directory, *self.directory.parents) if not path.exists()]
        with locked(self.directory):
            try:
                yield
            except Exception:
                if not self.done():
                    _remove(made)
                raise


def _remove(paths: list[Path]) -> None:
    """Files, then the directories that are empty."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.rmdir() if path.is_dir() else path.unlink()
