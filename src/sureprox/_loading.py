"""While the command `sureprox` loads its libraries, Ctrl-C ends it with exit code 130, one line and no traceback.

numpy and torch turn an interrupt in the middle of their import into errors of other kinds, so that there is nothing
definite to catch: for that second the signal ends the process. Help, the version and shell completion need none of
these libraries, and do not load them.
"""

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

INTERRUPTED = 130  # what shells report for a command ended by Ctrl-C
TOLD = "sureprox: interrupted"
ALONE = ("--help", "--version", "--install-completion", "--show-completion")


@contextlib.contextmanager
def loading() -> Iterator[None]:
    """Around the imports. In any other program, and where interrupts are ignored or handled, nothing is changed."""
    if not _is_command() or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def needs_no_libraries() -> bool:
    """Whether this process is the command, asked for its help, its version or a completion."""
    arguments = sys.argv[1:]
    before = arguments[: arguments.index("--")] if "--" in arguments else arguments
    alone = not arguments or "_SUREPROX_COMPLETE" in os.environ or any(option in before for option in ALONE)
    return alone and _is_command()


def _end(number: int, frame: FrameType | None) -> None:
    os.write(2, f"{TOLD}\n".encode())
    os._exit(INTERRUPTED)


def _is_command() -> bool:
    """`sureprox ...` or `python -m sureprox ...`; Python calls a module "-m" while it imports its package."""
    name = sys.argv[0] if sys.argv else ""
    named = Path(name).stem == "sureprox" or (name == "-m" and "sureprox" in sys.orig_argv)
    return named and threading.current_thread() is threading.main_thread()
