"""Directories and files that only this user can write: code that is loaded from a disk must lie in one."""

import os
import stat
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path


class NotPrivateError(OSError):
    """A directory or file that somebody else owns or may write to."""


def user() -> int:
    """The number of this user; 0 where the system has none, and keeps the places of its users apart by itself."""
    return os.geteuid() if hasattr(os, "geteuid") else 0


def private_directory(path: Path, make: bool = True) -> Path:
    """`path`, made with mode 0700 if it is not there; NotPrivateError if somebody else could put a file into it."""
    if make:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
    _check(path.lstat(), stat.S_ISDIR, path)
    return path


def open_private(path: Path) -> int:
    """A descriptor of the file, which never waits; NotPrivateError if somebody else could have written it."""
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    try:
        _check(os.fstat(handle), stat.S_ISREG, path)
    except OSError:
        os.close(handle)
        raise
    return handle


@cache
def temporary_directory() -> Path:
    """The same one for every process of this user, or, should that one not be private, one for this process."""
    try:
        return private_directory(Path(tempfile.gettempdir()) / f"sureprox-{user()}")
    except OSError:
        return Path(tempfile.mkdtemp(prefix="sureprox-"))


def _check(found: os.stat_result, expected: Callable[[int], bool], path: Path) -> None:
    if not expected(found.st_mode):
        raise NotPrivateError(f"{path} is a link, or not the kind of file that belongs there")
    if not hasattr(os, "geteuid"):
        return
    if found.st_uid != user():
        raise NotPrivateError(f"{path} belongs to another user (number {found.st_uid})")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivateError(f"{path} can be written by others (mode {stat.S_IMODE(found.st_mode):o})")
