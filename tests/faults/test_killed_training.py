"""Training killed with SIGKILL at random moments: what was on disk is whole, and the run ends with the same bits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hardening import LIMIT, count

KILLS = count(reduced=5, full=50)
SCRIPT = Path(__file__).with_name("kill_training.py")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(tmp_path, record_property):
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    paths = [str(SCRIPT.parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, str(SCRIPT), str(KILLS), str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    record_property(
        "hardening", f"training killed {found['killed']} times, {found['finished']} runs went on to the end"
    )
    assert found["different"] == []
    assert found["killed"] >= KILLS
    assert len(set(found["moments"])) > 1  # not all at the same place
