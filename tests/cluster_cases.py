"""Tasks for the workers of a test."""

import os
import time
from pathlib import Path

from sureprox.base.cluster import report, unwanted
from sureprox.training import jobs


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


def hold_runs(path: str | None) -> None:
    """From its sixteenth batch on, a training run in this process waits while there is this file, for two minutes."""
    asked = 0

    def unwanted_or_held() -> bool:
        nonlocal asked
        asked += 1
        end = time.monotonic() + 120
        while asked > 15 and os.path.exists(path) and time.monotonic() < end:
            time.sleep(0.01)
        return unwanted()

    jobs.unwanted = unwanted_or_held if path else unwanted
