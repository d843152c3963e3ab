"""Spoil good files and read them, in a process of its own with little memory: what is not a clear error is listed.

    PYTHONPATH=tests python tests/hostile/fuzz.py COUNT OUT.json [READER CASE]

With a reader and the number of a case: that one alone, with its traceback.

Guarded against: other exceptions than `SureproxError`, messages of several lines or with control characters, warnings,
memory beyond `MEMORY`, more than `SECONDS` for a file, processes started, pickles that name a class, files opened for
writing outside the directory of the case, and crashes (the parent sees how this process ends).
"""

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from mutate import mutated
from readers import Reader, readers

from sureprox import SureproxError

MEMORY = 2**30  # bytes beyond what the process has after its imports
SECONDS = 20
LONGEST = 2000  # characters of a message
FORBIDDEN = {"os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen"}
FORBIDDEN |= {"pickle.find_class", "socket.connect"}


class Guard:
    """Watches what Python does while a file is read."""

    def __init__(self) -> None:
        self.inside: str | None = None
        self.seen: list[str] = []
        sys.addaudithook(self._hook)

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.inside is None:
            return
        if event in FORBIDDEN:
            self.seen.append(f"{event} {str(arguments)[:200]}")
        elif event == "open" and isinstance(arguments[0], str | bytes) and _writes(arguments[1], arguments[2]):
            path = os.path.abspath(os.fsdecode(arguments[0]))
            if not path.startswith(self.inside + os.sep):
                self.seen.append(f"open for writing: {path}")

    @contextlib.contextmanager
    def around(self, directory: Path):
        self.seen, self.inside = [], str(directory)
        try:
            yield
        finally:
            self.inside = None


def _writes(mode: str | None, flags: int) -> bool:
    return any(letter in mode for letter in "wax+") if mode else bool(flags & (os.O_WRONLY | os.O_RDWR))


def spoiled(reader: Reader, case: int) -> bytes:
    chance = random.Random(f"{reader.name} {case}")
    return mutated(chance.choice(reader.seeds), chance, reader.seeds)


def attempt(reader: Reader, data: bytes, directory: Path, guard: Guard, show: bool = False) -> str:
    """ "read", "refused", or what is wrong."""
    path = directory / reader.file
    path.write_bytes(data)
    try:
        with guard.around(directory), warnings.catch_warnings():
            warnings.simplefilter("error")
            signal.alarm(SECONDS)
            try:
                reader.read(path)
            finally:
                signal.alarm(0)
        outcome = "read"
    except SureproxError as error:
        message = str(error)
        good = message and len(message) <= LONGEST and message.isprintable()
        outcome = "refused" if good else f"message: {message[:200]!r} ({len(message)} characters)"
        if show:
            print(message)
    except (Exception, OutOfTime) as error:
        outcome = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        if show:
            traceback.print_exc()
    return f"did {guard.seen[0]}" if guard.seen else outcome


class OutOfTime(BaseException):
    """Not an Exception, so that no reader can take it for a fault of the file."""


def out_of_time(number: int, frame: object) -> None:
    raise OutOfTime(f"more than {SECONDS} s")


def main() -> None:
    torch.set_num_threads(1)
    count, out = int(sys.argv[1]), Path(sys.argv[2])
    only = (sys.argv[3], int(sys.argv[4])) if len(sys.argv) > 3 else None
    signal.signal(signal.SIGALRM, out_of_time)
    guard = Guard()
    with tempfile.TemporaryDirectory() as scratch:
        known = readers(Path(scratch))
        for reader in known:  # lazy imports and first calls, before memory is limited
            for data in reader.seeds:
                directory = Path(tempfile.mkdtemp(dir=scratch))
                outcome = attempt(reader, data, directory, guard)
                assert outcome == "read", f"{reader.name}: a good file is not read: {outcome}"
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * os.sysconf("SC_PAGE_SIZE") + MEMORY,) * 2)
        shares = sum(reader.share for reader in known)
        counts, failures, slowest = {}, [], (0.0, "", 0)
        for reader in known:
            seen: Counter[str] = Counter()
            cases = range(-(-count * reader.share // shares))  # rounded up
            if only is not None:
                cases = range(only[1], only[1] + 1) if reader.name == only[0] else range(0)
            for case in cases:
                out.write_text(json.dumps({"reading": [reader.name, case]}))  # for the parent, should this crash
                directory = Path(tempfile.mkdtemp(dir=scratch))
                began = time.monotonic()
                outcome = attempt(reader, spoiled(reader, case), directory, guard, show=only is not None)
                slowest = max(slowest, (time.monotonic() - began, reader.name, case))
                shutil.rmtree(directory)
                seen[outcome if outcome in ("read", "refused") else "failed"] += 1
                if outcome not in ("read", "refused"):
                    failures.append([reader.name, case, outcome])
            counts[reader.name] = seen
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        out.write_text(json.dumps({"counts": counts, "failures": failures, "slowest": slowest, "peak": peak}))


if __name__ == "__main__":
    main()
