"""Ctrl-C while the command `sureprox` loads its libraries ends it at once and without a traceback.

numpy and torch turn an interrupt in the middle of their import into errors of other kinds, so that there is nothing
definite to catch: for that second the signal does what it does to a program that knows nothing of it.
"""

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Around the imports. In any other program, and where interrupts are ignored or handled, nothing is changed."""
    if not _is_command() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_command() -> bool:
    """`sureprox ...` or `python -m sureprox ...`; Python calls a module "-m" while it imports its package."""
    name = sys.argv[0] if sys.argv else ""
    named = Path(name).stem == "sureprox" or (name == "-m" and "sureprox" in sys.orig_argv)
    return named and threading.current_thread() is threading.main_thread()
