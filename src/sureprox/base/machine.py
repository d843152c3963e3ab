"""Where, when and with what something was measured."""

import os
import platform
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from sureprox._version import __version__

CONTROL_GROUP = Path("/sys/fs/cgroup")  # of this process, as a container sees it
QUOTAS = (("cpu.max",), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"))  # files with a limit and a period


def cores() -> int:
    """Cores that this process may use, by its affinity and by the limit of its control group."""
    found = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(found, quota() or found)


def quota(folder: Path = CONTROL_GROUP) -> int | None:
    """So many cores' time may the control group of this process spend, rounded up; None without a limit."""
    for names in QUOTAS:
        try:
            limit, period = " ".join((folder / name).read_text() for name in names).split()[:2]
        except (OSError, ValueError):
            continue
        if limit.isdigit() and period.isdigit() and int(period):  # else "max", or -1
            return max(1, -(-int(limit) // int(period)))
    return None


def machine(device: torch.device) -> str:
    """The name of the GPU, or the kind of CPU."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else f"CPU {platform.machine()}"


def memory_of(device: torch.device) -> int | None:
    """Bytes of memory that the device has in all; None where that is not known."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return None


def wait(device: torch.device) -> None:
    """Until a GPU has done what it was given; before a clock is read."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def today() -> str:
    return datetime.now(UTC).date().isoformat()


def circumstances(device: torch.device) -> dict[str, Any]:
    """What every record says about how it was made."""
    found = {"sureprox": __version__, "torch": str(torch.__version__), "numpy": version("numpy")}
    return {"device": machine(device), "date": today(), "versions": found}
