"""Writing files that are either whole or absent, by one run at a time, and reading JSON that may be anything."""

import contextlib
import glob
import json
import math
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sureprox.base.errors import FileError, InputError, SureproxError

LOCK = ".lock"  # of a directory that is for one run at a time
MOVING = 30.0  # seconds; moving takes a few milliseconds
PAUSE = 0.02  # seconds between two looks at a lock
KINDS: dict[Callable[[int], bool], str] = {
    stat.S_ISLNK: "a symbolic link",
    stat.S_ISDIR: "a directory",
    stat.S_ISFIFO: "a pipe",
    stat.S_ISSOCK: "a socket",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
}


def write_atomically(path: Path, data: bytes) -> None:
    """All of `data` or nothing: written beside the target, synced, then moved over it. Makes the directory."""
    write_together({path: data})


def write_together(files: Mapping[Path, bytes]) -> None:
    """Files that belong together: none is touched before all are safely written beside their places.

    A target is a regular file, or not there yet; anything else is refused: a symbolic link too, which somebody else may
    have put there. A file that is replaced passes on its mode. Of two writers at the same time one moves all its files
    before the other. A process killed between two moves leaves the rest beside their places (`scratches`).
    """
    beside = {path: path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp") for path in files}
    path, moved = next(iter(files)), False
    try:
        for path, data in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write_new(beside[path], data, like=_replaced(path))
        with _one_mover(next(iter(files)).parent) if len(files) > 1 else contextlib.nullcontext():
            for path, scratch in beside.items():
                scratch.replace(path)
                moved = True
        for directory in {path.parent for path in files}:
            _sync(directory)
    except FileError:
        raise
    except OSError as error:
        raise cannot_write(path, error) from None
    finally:
        for scratch in () if moved else beside.values():  # what is left after a move belongs to what was moved
            with contextlib.suppress(OSError):
                scratch.unlink(missing_ok=True)


def _replaced(path: Path) -> os.stat_result | None:
    """The file that will be replaced, if there is one."""
    try:
        found = path.lstat()
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(found.st_mode):
        what = next((name for test, name in KINDS.items() if test(found.st_mode)), "no regular file")
        raise FileError(f"cannot write {path}: it is {what}; remove it, or choose another name")
    return found


def _write_new(path: Path, data: bytes, like: os.stat_result | None) -> None:
    """A file that was not there, synced. Whatever has the name already, a link too, is an error, not followed."""
    mode = 0o666 if like is None else 0o600  # readable by the owner alone until the mode is set
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
        if like is not None and hasattr(os, "fchown"):
            _admit(file.fileno(), like)
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _admit(handle: int, like: os.stat_result) -> None:
    """Mode, group and owner of the file that is replaced, as far as this is allowed; no other user gets new rights."""
    mode, now = like.st_mode & 0o777, os.fstat(handle)
    if now.st_gid != like.st_gid:
        try:
            os.fchown(handle, -1, like.st_gid)
        except OSError:
            mode &= ~0o070  # it would be the rights of another group
    if now.st_uid != like.st_uid:
        with contextlib.suppress(OSError):
            os.fchown(handle, like.st_uid, -1)
    os.fchmod(handle, mode)


def _sync(directory: Path) -> None:
    """The names in it are safe from a power cut. Not all file systems can do it; the files are whole in any case."""
    with contextlib.suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def scratches(path: Path) -> list[Path]:
    """Files beside `path` of processes that were killed before they moved them there, or are still writing."""
    found = path.parent.glob(f".{glob.escape(path.name)}.*.tmp")
    return sorted(scratch for scratch in found if scratch.is_file() and not scratch.is_symlink())


def remove_scratch(path: Path) -> None:
    """Delete what processes that were killed while they wrote `path` have left beside it."""
    for scratch in scratches(path):
        scratch.unlink(missing_ok=True)


@contextlib.contextmanager
def locked(directory: Path, patience: float = 0.0, error: type[SureproxError] = InputError) -> Iterator[None]:
    """The directory, made if need be, for one run at a time. The system unlocks it when a process is killed.

    `patience`: seconds to wait for another run to let go of it. `error`: what is raised if it does not, or if the
    directory cannot be written.
    """
    try:
        if directory.exists() and not directory.is_dir():
            raise error(f"cannot write to {directory}: it is a file; choose another directory")
        directory.mkdir(parents=True, exist_ok=True)
        handle = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o644)
    except OSError as reason:
        raise error(f"cannot write to {directory}: {reason.strerror}; choose another directory") from None
    try:
        if not _taken(handle, time.monotonic() + patience):
            raise error(f"another run is writing to {directory}; wait for it, or stop it")
        if not _names(directory / LOCK, handle):  # a run that left nothing has removed it since it was opened
            raise error(f"another run was writing to {directory}; try again")
        yield
    finally:
        os.close(handle)


def _names(path: Path, handle: int) -> bool:
    """Whether the file at `path` is the open one."""
    try:
        return os.path.samestat(os.stat(path), os.fstat(handle))
    except OSError:
        return False


@contextlib.contextmanager
def _one_mover(directory: Path) -> Iterator[None]:
    """Within this, no other process moves files that belong together into the directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
    except OSError:  # a system on which directories cannot be opened has no such locks either
        yield
        return
    try:
        if not _taken(handle, time.monotonic() + MOVING):
            raise FileError(f"cannot write to {directory}: another process has locked it; stop that one and try again")
        yield
    finally:
        os.close(handle)


def _taken(handle: int, until: float) -> bool:
    """Whether the lock was free in time; always true on a file system without locks."""
    try:
        import fcntl
    except ImportError:  # two runs would do the same work, and write the same files
        return True
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if time.monotonic() >= until:
                return False
        except OSError:  # this file system has no locks
            return True
        time.sleep(PAUSE)


def cannot_write(path: Path, error: OSError) -> FileError:
    return FileError(f"cannot write {path}: {error.strerror or error}; free or choose another place and try again")


def parse_json(text: str | bytes, finite: bool = True) -> Any:
    """The value of the JSON; anything wrong with it is a ValueError. `finite`: NaN and infinite numbers too."""
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
