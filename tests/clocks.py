"""A system clock that jumps. For processes of their own: a scheduler that lives in the same one would see it too."""

import contextlib
import time
from collections.abc import Iterator
from unittest import mock

JUMPS = ("backwards", "by years", "to 1970")


@contextlib.contextmanager
def jumping(how: str) -> Iterator[None]:
    """The clock of the system, not the counter that only ever goes forward, gone mad."""
    true, calls = time.time(), []

    def wrong() -> float:
        calls.append(None)
        return {"backwards": true - 3600 * len(calls), "by years": true + 1e8 * len(calls), "to 1970": 1.0}[how]

    def wrong_ns() -> int:
        return int(1e9 * wrong())

    with mock.patch("time.time", wrong), mock.patch("time.time_ns", wrong_ns):
        yield
