"""Records of benchmarks: the numbers, with the machine and the versions they were measured on."""

import json
import os
import platform
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

import sureprox

RECORDS = Path(__file__).parent / "records"


def write_record(name: str, numbers: dict[str, Any]) -> Path:
    """Write records/<name>.json and return its path."""
    record = {
        "benchmark": name,
        "command": f"python benchmarks/{name}.py",
        "date": date.today().isoformat(),
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": platform.system(),
            "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        },
        "versions": {
            "python": platform.python_version(),
            **{package: version(package) for package in ("torch", "numpy")},
            "sureprox": sureprox.__version__,
        },
        **numbers,
    }
    RECORDS.mkdir(exist_ok=True)
    path = RECORDS / f"{name}.json"
    path.write_text(json.dumps(record, indent=2) + "\n")
    return path


def cpu_model() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
