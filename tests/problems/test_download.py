"""Data files from a server on this machine: resuming, refusing, caching, and taking turns."""

import hashlib
import http.server
import random
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import refused
from sureprox import DataError
from sureprox.sources import download
from sureprox.sources.download import DataFile, cache_directory, downloaded, local_copy

CONTENT = bytes(range(256)) * 1000
FILE = DataFile("some.data", hashlib.sha256(CONTENT).hexdigest())


class Server(http.server.ThreadingHTTPServer):
    """Serves `content`; how it behaves is set by the attributes."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.content = CONTENT
        self.ranges = True  # whether it understands Range
        self.cut: int | None = None  # the connection is lost after so many bytes of an answer
        self.pause: int | None = None  # it falls silent after so many bytes, with the connection open
        self.offset = 0  # a partial answer begins so many bytes too early
        self.status: int | None = None  # an error instead of an answer
        self.delay = 0.0
        self.asked: list[str | None] = []  # the Range header of every request

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that have gone are what is tested."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/{FILE.name}"


class Handler(http.server.BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        began = time.monotonic()
        while time.monotonic() - began < server.delay:
            time.sleep(0.01)
        if server.status is not None:
            self.send_error(server.status)
            return
        body = server.content
        if wanted and server.ranges:
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(body):
                self.send_error(416)
                return
            start -= server.offset
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
            body = body[start:]
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body[: server.cut if server.pause is None else server.pause])
        while server.pause is not None:
            time.sleep(0.01)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def server(monkeypatch) -> Iterator[Server]:
    monkeypatch.setenv("no_proxy", "*")
    with Server() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join(60)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.delenv("SUREPROX_DATA", raising=False)
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "deep" / "cache"))
    return tmp_path / "deep" / "cache"


def names(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir() if path.suffix != ".lock"}


def test_a_download_is_kept(server, cache):
    assert downloaded(FILE, server.url) == CONTENT
    assert names(cache) == {FILE.name}
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked == [None]


def test_a_damaged_copy_in_the_cache_is_replaced(server, cache):
    cache.mkdir(parents=True)
    (cache / FILE.name).write_bytes(CONTENT[:-1])
    assert downloaded(FILE, server.url) == CONTENT
    assert (cache / FILE.name).read_bytes() == CONTENT


def test_an_interrupted_download_goes_on_where_it_stopped(server, cache):
    server.cut = 100_000
    refused(lambda: downloaded(FILE, server.url), "100000 of 256000 bytes", "try again", error=DataError)
    assert names(cache) == {FILE.name + ".part"}
    assert (cache / (FILE.name + ".part")).read_bytes() == CONTENT[:100_000]
    refused(lambda: downloaded(FILE, server.url), "100000 of 156000 bytes", error=DataError)
    server.cut = None
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked == [None, "bytes=100000-", "bytes=200000-"]
    assert names(cache) == {FILE.name}


def test_a_connection_lost_at_random_places_is_taken_up_each_time(server, cache):
    chance = random.Random(0)
    had = []
    for _ in range(6):
        server.cut = chance.randrange(1, 40_000)
        refused(lambda: downloaded(FILE, server.url), "the connection was lost", "try again", error=DataError)
        part = (cache / (FILE.name + ".part")).read_bytes()
        assert part == CONTENT[: len(part)]
        had.append(len(part))
    assert had == sorted(set(had))  # every attempt adds to the one before
    server.cut = None
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked == [None, *(f"bytes={size}-" for size in had)]
    assert names(cache) == {FILE.name}


KILLED = """
import sys
from sureprox.sources.download import DataFile, downloaded
downloaded(DataFile("some.data", sys.argv[2]), sys.argv[1])
"""


def test_a_download_that_was_killed_goes_on(server, cache):
    server.pause = 100_000  # the server falls silent there
    with subprocess.Popen([sys.executable, "-c", KILLED, server.url, FILE.sha256]) as process:
        part = cache / (FILE.name + ".part")
        until = time.monotonic() + 240
        while not (part.exists() and part.stat().st_size) and time.monotonic() < until:
            time.sleep(0.01)
        process.kill()
    kept = part.read_bytes()
    assert 0 < len(kept) <= 100_000
    assert kept == CONTENT[: len(kept)]
    assert names(cache) == {part.name}
    server.pause = None
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked == [None, f"bytes={len(kept)}-"]
    assert names(cache) == {FILE.name}


def test_a_full_disk_keeps_what_was_downloaded(server, cache):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
    try:
        refused(lambda: downloaded(FILE, server.url), "cannot download", "too large", error=DataError)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    part = (cache / (FILE.name + ".part")).read_bytes()
    assert part == CONTENT[: len(part)]
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked[-1] == f"bytes={len(part)}-"


def test_a_server_without_range_sends_everything_again(server, cache):
    server.cut = 100_000
    refused(lambda: downloaded(FILE, server.url), error=DataError)
    server.cut, server.ranges = None, False
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked[1] == "bytes=100000-"
    assert names(cache) == {FILE.name}


def test_a_partial_answer_that_begins_elsewhere_is_not_appended(server, cache):
    server.cut = 100_000
    refused(lambda: downloaded(FILE, server.url), error=DataError)
    server.cut, server.offset = None, 10
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked[1:] == ["bytes=100000-", None]


def test_a_complete_part_is_not_asked_for_again(server, cache):
    cache.mkdir(parents=True)
    (cache / (FILE.name + ".part")).write_bytes(CONTENT)
    assert downloaded(FILE, server.url) == CONTENT
    assert server.asked == []
    assert names(cache) == {FILE.name}


@pytest.mark.parametrize("part", [b"of another file", CONTENT + b"too long", b""], ids=["other", "long", "empty"])
def test_a_useless_part_is_thrown_away(server, cache, part):
    cache.mkdir(parents=True)
    (cache / (FILE.name + ".part")).write_bytes(part)
    assert downloaded(FILE, server.url) == CONTENT
    assert names(cache) == {FILE.name}


@pytest.mark.parametrize("part", [b"", CONTENT[:1000]], ids=["fresh", "resumed"])
def test_a_wrong_hash_is_refused_and_removed(server, cache, part):
    cache.mkdir(parents=True)
    (cache / (FILE.name + ".part")).write_bytes(part)
    server.content = b"<html>we have moved</html>" * 100
    got = hashlib.sha256(server.content).hexdigest()
    refused(
        lambda: downloaded(FILE, server.url), FILE.name, f"sha256 {got}", f"expected {FILE.sha256}", error=DataError
    )
    assert names(cache) == set()


def test_a_failing_server_does_not_cost_the_part(server, cache):
    cache.mkdir(parents=True)
    (cache / (FILE.name + ".part")).write_bytes(CONTENT[:1000])
    server.status = 503
    refused(lambda: downloaded(FILE, server.url), server.url, "503", "SUREPROX_DATA", error=DataError)
    assert (cache / (FILE.name + ".part")).read_bytes() == CONTENT[:1000]


def test_a_missing_file_on_the_server_is_one_line(server, cache):
    server.status = 404
    refused(lambda: downloaded(FILE, server.url), server.url, "404", "SUREPROX_DATA", error=DataError)
    assert names(cache) == set()


def test_no_server_at_all_is_one_line(monkeypatch):
    monkeypatch.setenv("no_proxy", "*")
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{FILE.name}"
        refused(lambda: downloaded(FILE, url), url, "refused", "set SUREPROX_DATA to it", error=DataError)


def test_a_silent_server_is_given_up(server, monkeypatch):
    monkeypatch.setattr(download, "TIMEOUT", 0.1)
    server.delay = 60.0
    refused(lambda: downloaded(FILE, server.url), "timed out", error=DataError)
    server.delay = 0.0


def test_a_cache_that_cannot_be_made_is_one_line(server, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SUREPROX_CACHE", str(tmp_path / "file" / "cache"))
    refused(lambda: downloaded(FILE, server.url), "file/cache", "Not a directory", error=DataError)


def test_many_at_once_download_once(server, cache):
    pytest.importorskip("fcntl", reason="no file locks on this platform")
    server.delay = 0.2
    results: list[bytes] = []
    threads = [threading.Thread(target=lambda: results.append(downloaded(FILE, server.url))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == [CONTENT] * 4
    assert server.asked == [None]


def test_a_local_copy_is_used_and_checked(tmp_path, monkeypatch):
    assert local_copy(FILE) is None
    monkeypatch.setenv("SUREPROX_DATA", str(tmp_path))
    assert local_copy(FILE) is None
    (tmp_path / FILE.name).write_bytes(CONTENT)
    assert local_copy(FILE) == CONTENT
    (tmp_path / FILE.name).write_bytes(b"damaged")
    got = hashlib.sha256(b"damaged").hexdigest()
    refused(lambda: local_copy(FILE), f"{FILE.name} has sha256 {got}, expected {FILE.sha256}", error=DataError)
    (tmp_path / FILE.name).unlink()
    (tmp_path / FILE.name).mkdir()
    refused(lambda: local_copy(FILE), "cannot read", FILE.name, error=DataError)


def test_a_data_directory_that_is_not_there_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("SUREPROX_DATA", str(tmp_path / "tpyo"))
    refused(lambda: local_copy(FILE), "tpyo", "not a directory", FILE.name, error=DataError)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "~/.cache/sureprox"),
        ("linux", {"XDG_CACHE_HOME": "/x"}, "/x/sureprox"),
        ("darwin", {"XDG_CACHE_HOME": "/x"}, "~/Library/Caches/sureprox"),
        ("win32", {}, "~/AppData/Local/sureprox"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/sureprox"),
        ("linux", {"SUREPROX_CACHE": "~/own"}, "~/own"),
    ],
)
def test_cache_directory_of_every_platform(platform, variables, expected, monkeypatch):
    for name in ("SUREPROX_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_directory() == Path(expected).expanduser()
