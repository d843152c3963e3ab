"""Loading a compiled library by the very bytes that were checked."""

import ctypes
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from sureprox.base.private import open_private


class DamagedError(OSError):
    """A file whose content is not what its name says."""


def from_file(path: Path, whole: Callable[[bytes], bool]) -> ctypes.CDLL:
    """The library in a private file, if its content is `whole`; from memory where the file system forbids to run it."""
    handle = open_private(path)
    with open(handle, "rb", closefd=False) as file:
        content = file.read()
    if not whole(content):
        os.close(handle)
        raise DamagedError(f"{path} is damaged")
    try:
        return _opened(handle, path)
    except OSError:
        return from_memory(content)


def from_memory(content: bytes) -> ctypes.CDLL:
    """The library from memory, or, where the system has no files there, from a private temporary directory."""
    with suppress(OSError, AttributeError):
        handle = os.memfd_create("sureprox")
        with open(handle, "wb", closefd=False) as file:
            file.write(content)
        return _opened(handle, _descriptor(handle))
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch:  # of mode 0700
        path = Path(scratch) / "native.so"
        path.write_bytes(content)
        return ctypes.CDLL(str(path))


def _opened(handle: int, path: Path) -> ctypes.CDLL:
    """The library in the open file, which stays open: the loader would take a name that it knows for the old library.

    `path` is used where the system has no name for an open file.
    """
    descriptor = _descriptor(handle)
    try:
        return ctypes.CDLL(str(descriptor if descriptor.exists() else path))
    except OSError:
        os.close(handle)
        raise


def _descriptor(handle: int) -> Path:
    return Path(f"/proc/self/fd/{handle}")
