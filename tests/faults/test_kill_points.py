"""Processes killed with SIGKILL at every call that writes: what they leave is whole, and the next one goes on."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import sureprox as sp
from helpers import refused
from sureprox.training import read_log, train
from training_cases import LASSO, bitwise, network, small_config, timeless, weights_of

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this platform has no fork")


@pytest.fixture
def environment() -> dict[str, str]:
    """Processes that are started find the cases, and do not check shapes."""
    known = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    paths = [str(HERE.parent), known.get("PYTHONPATH", "")]
    return known | {"PYTHONPATH": os.pathsep.join(path for path in paths if path), "OMP_NUM_THREADS": "1"}


def killed(what: str, directory: Path, environment: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, "-W", "error::UserWarning", str(HERE / "kill_points.py"), what, str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_run_killed_while_it_writes_its_first_manifest_is_begun_again(tmp_path, environment):
    found = killed("manifest", tmp_path, environment)
    assert any(len(point["left"]) == 2 and "manifest.json" not in point["left"] for point in found.values())
    assert {tuple(point["then"]) for point in found.values()} == {(".lock", "manifest.json")}


def test_a_model_killed_while_it_is_saved_is_the_old_one_or_the_new_one(tmp_path, environment):
    """Card and weights are of the same, also between the two moves, and also where the old card has no sha256."""
    found = killed("model", tmp_path, environment)
    assert len(found) == 15
    for point, what in found.items():
        assert what in (["new", "new"], ["no model"] if point.startswith("nothing") else ["old", "old"]), point
        assert what == ["new", "new"] or "replace 2" not in point


def test_a_search_killed_at_any_line_of_its_journal_is_the_same_search(tmp_path, environment):
    pytest.importorskip("optuna")
    found = killed("search", tmp_path, environment)
    assert found["different"] == []
    assert found["kills"] > 15


TRAIN = """
import sys, time
from sureprox.training import train
from training_cases import LASSO, network, small_config

def hold(event):
    if event["event"] == "batch" and event["batch"] == 5:
        print("here", flush=True)
        time.sleep(300)

train(network(), LASSO, small_config(), sys.argv[1], device="cpu", backend="plain", listeners=[hold])
"""


def test_a_second_run_in_the_directory_is_refused_until_the_first_is_dead(tmp_path, environment):
    whole, found, out = network(), network(seed=9), tmp_path / "run"
    train(whole, LASSO, small_config(), tmp_path / "whole", device="cpu", backend="plain")
    first = subprocess.Popen([sys.executable, "-c", TRAIN, str(out)], env=environment, stdout=subprocess.PIPE)
    try:
        assert first.stdout.readline() == b"here\n"
        before = {path.name: path.read_bytes() for path in out.iterdir()}
        refused(
            lambda: train(found, LASSO, small_config(), out, device="cpu", backend="plain"),
            f"another run is writing to {out}; wait for it, or stop it", error=sp.ConfigError,
        )  # fmt: skip
        assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate(timeout=60)
    assert train(found, LASSO, small_config(), out, device="cpu", backend="plain").completed
    assert bitwise(weights_of(found), weights_of(whole))
    assert timeless(read_log(out / "log.jsonl")) == timeless(read_log(tmp_path / "whole" / "log.jsonl"))


def test_a_run_with_patience_waits_for_the_other_one(tmp_path):
    """Until it ends; the rows of a run that has ended while the other one waited are not trained again."""
    told: list[str] = []

    def meanwhile(event: dict[str, Any]) -> None:
        if event["event"] == "batch" and event["batch"] == 2:
            refused(
                lambda: train(network(), LASSO, small_config(), tmp_path, device="cpu", patience=0.05),
                "another run is writing to", error=sp.ConfigError,
            )  # fmt: skip
            told.append("refused")

    train(network(), LASSO, small_config(), tmp_path, device="cpu", backend="plain", listeners=[meanwhile])
    assert told == ["refused"]
    again = train(network(), LASSO, small_config(), tmp_path, device="cpu", backend="plain", patience=0.05)
    assert again.completed
