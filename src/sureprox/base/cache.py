"""The directory in which downloads and built kernels are kept."""

import os
import sys
from pathlib import Path

from sureprox.base.private import temporary_directory


def cache_directory() -> Path:
    """SUREPROX_CACHE, or `sureprox` in the user's cache directory of this platform; without a home, a temporary one."""
    try:
        return _cache_directory()
    except RuntimeError:  # no HOME, and an account that the system does not list, as in some containers
        return temporary_directory()


def _cache_directory() -> Path:
    if named := os.environ.get("SUREPROX_CACHE"):
        return Path(named).expanduser()
    variable, default = {
        "win32": ("LOCALAPPDATA", "~/AppData/Local"),
        "darwin": ("", "~/Library/Caches"),
    }.get(sys.platform, ("XDG_CACHE_HOME", "~/.cache"))
    return Path(os.environ.get(variable) or default).expanduser() / "sureprox"
