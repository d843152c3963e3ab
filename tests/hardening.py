"""How often the hardening tests repeat what they do: a little in continuous integration, in full by `make harden`."""

import os

FULL = os.environ.get("SUREPROX_HARDEN") == "full"
LIMIT = 7000.0 if FULL else 280.0  # seconds for a process that a test starts, less than for the test


def count(reduced: int, full: int) -> int:
    return full if FULL else reduced
