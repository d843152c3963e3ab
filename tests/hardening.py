"""How often the hardening tests repeat what they do: a little in continuous integration, in full by `make harden`."""

import os

FULL = os.environ.get("SUREPROX_HARDEN") == "full"


def count(reduced: int, full: int) -> int:
    return full if FULL else reduced
