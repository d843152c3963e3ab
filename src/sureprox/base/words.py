"""Words that messages and pages share."""

import difflib
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

from sureprox.base.errors import InputError, SureproxError


def suggested(word: object, known: Collection[str], otherwise: str = "") -> str:
    """did you mean 'sure/lasso'? Where nothing is close: `otherwise`, or all that is known."""
    plain = {name.lower().replace("_", "-"): name for name in known if name != word}
    # its time grows with the square of the length
    close = difflib.get_close_matches(str(word)[:100].lower().replace("_", "-"), list(plain), n=1)
    return f"did you mean {plain[close[0]]!r}?" if close else otherwise or f"choose one of {', '.join(known)}"


def brief(error: Exception, longest: int = 120) -> str:
    """The kind of an error and what it says, on one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:longest]


def no_file(path: Path) -> str:
    """Why `path`, which is no file, cannot be read."""
    return f"{path} {'is a directory' if os.path.isdir(path) else 'does not exist'}"  # Path.is_dir fails on some names


def require_whole(name: str, value: Any, least: int, error: type[SureproxError] = InputError) -> None:
    """Refuse what is no whole number >= `least`; True and False are none."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise error(f"{name} is {value!r}; it must be a whole number >= {least}")


def plural(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
