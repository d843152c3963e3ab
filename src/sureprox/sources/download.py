"""Data files by name and sha256: a local copy, the cache, or a download that can be interrupted and goes on later."""

import hashlib
import http.client
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from sureprox.base.cache import cache_directory
from sureprox.base.errors import DataError

TIMEOUT = 30.0  # seconds without a byte
PATIENCE = 600.0  # seconds for another process to finish the same download
CHUNK = 1 << 16


@dataclass(frozen=True)
class DataFile:
    """A file known by its content."""

    name: str
    sha256: str

    def matches(self, content: bytes | None) -> bool:
        return content is not None and sha256(content) == self.sha256


def local_copy(file: DataFile) -> bytes | None:
    """The file in the directory that SUREPROX_DATA names; None if the variable is not set or the file not there."""
    named = os.environ.get("SUREPROX_DATA")
    if not named:
        return None
    directory = Path(named).expanduser()
    if not directory.is_dir():
        raise DataError(f"SUREPROX_DATA is {named!r}, which is not a directory; name one that holds {file.name}")
    content = read(directory / file.name)
    if content is not None and not file.matches(content):
        raise _wrong_hash(file, directory / file.name, content, "take the file from its source again")
    return content


def downloaded(file: DataFile, url: str) -> bytes:
    """The file from the cache, where the first call puts it; a damaged copy there is replaced."""
    target = cache_directory() / file.name
    content = read(target)
    if content is not None and file.matches(content):
        return content
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.with_name(target.name + ".lock")):
            content = read(target)  # another process may have been quicker
            if content is not None and file.matches(content):
                return content
            return _download(file, url, target)
    except (OSError, http.client.HTTPException) as error:  # no network, a timeout, a full disk, a broken answer
        if isinstance(error, HTTPError):
            error.close()
        cause = error.reason if type(error) is URLError else error
        reason = (str(cause) or type(cause).__name__).splitlines()[0]
        raise DataError(
            f"cannot download {url} to {target.parent}: {reason}; try again, or put {file.name} into a directory "
            "and set SUREPROX_DATA to it"
        ) from None


def read(path: Path) -> bytes | None:
    """The content of a file, None if there is none."""
    try:
        return path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; check what it is") from None


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(file: DataFile, url: str, target: Path) -> bytes:
    """Fill `target`.part and move it to `target`. If this is interrupted the part stays, and the next call goes on."""
    part = target.with_name(target.name + ".part")
    old = read(part)
    if not file.matches(old):
        _complete(part, url)
    content = part.read_bytes()
    if not file.matches(content):
        part.unlink()
        if old:  # the fault may lie in what was there before: once more, from the beginning
            return _download(file, url, target)
        raise _wrong_hash(file, url, content, "nothing was kept; set SUREPROX_DATA to a directory with a good copy")
    part.replace(target)
    return content


def _complete(part: Path, url: str) -> None:
    """Append to `part` what is missing, or write it anew where the server cannot begin there."""
    start = part.stat().st_size if part.exists() else 0
    answer, mode = (_rest(url, start) if start else None), "ab"
    if answer is None:
        answer, mode = _open(url), "wb"
    with answer, part.open(mode) as out:
        _copy(answer, out)


def _rest(url: str, start: int) -> Any:
    """The server's answer with the bytes from `start` on; None if it sends everything, or nothing."""
    try:
        answer = _open(url, Range=f"bytes={start}-")
    except HTTPError as error:
        if error.code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            raise
        error.close()
        return None
    if answer.status == HTTPStatus.PARTIAL_CONTENT:  # should it begin elsewhere, the hash will tell
        return answer
    answer.close()
    return None


def _open(url: str, **headers: str) -> Any:
    return urlopen(Request(url, headers={"User-Agent": "sureprox", **headers}), timeout=TIMEOUT)


def _copy(answer: Any, out: IO[bytes]) -> None:
    received = 0
    while chunk := answer.read(CHUNK):
        out.write(chunk)
        received += len(chunk)
    announced = answer.headers.get("Content-Length", "")
    if announced.isdigit() and received < int(announced):  # read() ends quietly when the connection is lost
        raise http.client.HTTPException(f"the connection was lost after {received} of {announced} bytes")


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time, where the platform has file locks; elsewhere the hash still guards the result."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("wb") as lock:
        end = time.monotonic() + PATIENCE
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise OSError(f"another process has held {path} for {PATIENCE:g} seconds") from None
                time.sleep(0.1)
        yield


def _wrong_hash(file: DataFile, where: Path | str, content: bytes, advice: str) -> DataError:
    return DataError(f"{where} has sha256 {sha256(content)}, expected {file.sha256}; {advice}")
