"""Writing files that are either whole or absent."""

import os
from pathlib import Path


def write_atomically(path: Path, data: bytes) -> None:
    """All of `data` or nothing: written beside the target, synced, then moved over it."""
    scratch = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with scratch.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(path)
    finally:
        scratch.unlink(missing_ok=True)
