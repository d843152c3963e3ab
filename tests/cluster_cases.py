"""Tasks for the workers of a test."""

import os
import time
from pathlib import Path

from sureprox.base.cluster import report, unwanted


def square(number: int) -> int:
    return number**2


def square_or_die(number: int) -> int:
    if number == 0:
        os._exit(1)
    return number**2


def out_of_time(number: int) -> int:
    raise TimeoutError("mine")


def wait_until_unwanted(path: str) -> str:
    """Tells that it has begun, and leaves a file behind once nobody waits for it; gives up after a minute."""
    report("begun", path)
    end = time.monotonic() + 60
    while not unwanted() and time.monotonic() < end:
        time.sleep(0.01)
    part = Path(path).with_suffix(".part")
    part.write_text("unwanted" if unwanted() else "too late")
    part.replace(path)  # whole from its first moment on
    return path
