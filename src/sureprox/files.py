"""Writing files that are either whole or absent, by one run at a time, and reading JSON that may be anything."""

import contextlib
import glob
import io
import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sureprox.errors import FileError, InputError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOCK = ".lock"  # of a directory that is for one run at a time


def write_atomically(path: Path, data: bytes) -> None:
    """All of `data` or nothing: written beside the target, synced, then moved over it. Makes the directory."""
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Files that belong together: none is touched before all are safely written beside their places."""
    scratches = {path: path.with_name(f".{path.name}.{os.getpid()}.tmp") for path in files}
    path = next(iter(files))
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with scratches[path].open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
        for path, scratch in scratches.items():
            scratch.replace(path)
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        for scratch in scratches.values():
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)


def remove_scratch(path: Path) -> None:
    """Delete what processes that were killed while they wrote `path` have left beside it."""
    for scratch in path.parent.glob(f".{glob.escape(path.name)}.*.tmp"):
        scratch.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(directory: Path, patience: float = 0.0) -> Iterator[None]:
    """The directory, made if need be, for one run at a time. The system unlocks it when a process is killed.

    `patience`: seconds to wait for another run to let go of it.
    """
    if directory.exists() and not directory.is_dir():
        raise InputError(f"cannot write to {directory}: it is a file; give a directory")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise InputError(f"cannot write to {directory}: {error.strerror}; give another directory") from None
    try:
        _take(handle, directory, time.monotonic() + patience)
        if not _names(directory / LOCK, handle):  # a run that left nothing has removed it since it was opened
            raise InputError(f"another run was writing to {directory}; try again")
        yield
    finally:
        os.close(handle)


def _names(path: Path, handle: int) -> bool:
    """Whether the file at `path` is the open one."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


def _take(handle: int, directory: Path, until: float) -> None:
    try:
        import fcntl
    except ImportError:  # no such locks on this system: two runs would do the same work, and write the same files
        return
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError:
            if time.monotonic() >= until:
                raise InputError(f"another run is writing to {directory}; wait for it, or stop it") from None
        time.sleep(0.1)


def cannot_write(path: Path, error: OSError) -> FileError:
    return FileError(f"cannot write {path}: {error.strerror or error}; free or choose another place and try again")


def save_figure(figure: "Figure", path: Path, **options: Any) -> None:
    """A picture that is either whole or absent, in the format that the name ends with."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format=path.suffix.removeprefix(".") or "png", **options)
    write_atomically(path, buffer.getvalue())


def parse_json(text: str | bytes, finite: bool = True) -> Any:
    """What the JSON says; whatever is wrong with it is a ValueError. `finite`: so are NaN and infinite numbers."""
    checks: dict[str, Any] = {"parse_constant": _refused, "parse_float": _finite} if finite else {}
    try:
        return json.loads(text, **checks)
    except RecursionError:
        raise ValueError("it is nested too deep") from None


def _refused(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is too large a number")
    return value
