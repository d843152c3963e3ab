"""Thousands of spoiled files through every reader, in a process with little memory: nothing but clear errors."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import mutate
import pytest

from hardening import LIMIT, count

FILES = count(reduced=300, full=10_000)
SCRIPT = Path(__file__).with_name("fuzz.py")


def fuzzed(files: int, out: Path) -> tuple[subprocess.CompletedProcess[str], dict]:
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    paths = [str(SCRIPT.parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), str(files), str(out)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=LIMIT,
    )
    return done, json.loads(out.read_text()) if out.exists() else {}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited by RLIMIT_AS and read from /proc")
def test_spoiled_files_are_read_or_refused_with_one_line(tmp_path, record_property):
    done, found = fuzzed(FILES, tmp_path / "found.json")
    assert done.returncode == 0, f"it crashed on {found.get('reading')}: {done.stderr[-2000:]}"
    total = sum(number for seen in found["counts"].values() for number in seen.values())
    refused = sum(seen.get("refused", 0) for seen in found["counts"].values())
    record_property(
        "hardening",
        f"{total:,} spoiled files through {len(found['counts'])} readers: {refused:,} refused with one line, "
        f"{len(found['failures'])} failures, {found['slowest'][0]:.2f} s at most, {found['peak'] / 2**20:.0f} MiB",
    )
    assert found["failures"] == []
    assert total >= FILES
    # the faults reach the readers (an empty count would mean that nothing was spoiled), and not all are fatal
    assert all(
        seen.get("refused", 0) for name, seen in found["counts"].items() if name not in ("optima", "resumed log")
    )
    assert refused < total


@pytest.mark.parametrize("data", [b'{"a": [1, 2, {"b": "c"}]}', b"x = 3\ny = 4\n", bytes(range(256)) * 9, b""])
def test_the_same_seed_spoils_alike(data):
    spoiled = [mutate.mutated(data, random.Random(k), [data, b"other"]) for k in range(50)]
    assert spoiled == [mutate.mutated(data, random.Random(k), [data, b"other"]) for k in range(50)]
    assert len(set(spoiled)) > 10
