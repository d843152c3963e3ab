"""A clock that jumps, backwards or by years: it is not asked for durations, and nothing is remembered by its time."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import sureprox as sp
from clocks import JUMPS
from sureprox.optimizers import save
from sureprox.training import read_log, train
from training_cases import LASSO, bitwise, network, small_config, timeless, weights_of

SCRIPT = Path(__file__).with_name("train_while_clock_jumps.py")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A directory with a run for each way of jumping, and what is told of them; this process keeps its clock."""
    directory = tmp_path_factory.mktemp("trained")
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    paths = [str(SCRIPT.parents[1]), environment.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    command = [sys.executable, str(SCRIPT), str(directory)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    return directory, json.loads(done.stdout)


@pytest.mark.parametrize("how", JUMPS)
def test_training_takes_the_same_time_and_ends_with_the_same_bits(tmp_path, trained, how):
    directory, told = trained
    first, second = told[how]["clock"]
    assert second <= first or second - first > 1e7  # it did jump
    assert 0 < told[how]["claimed"] <= told[how]["spent"]
    seconds = [event["seconds"] for event in read_log(directory / how / "log.jsonl")]
    assert seconds == sorted(seconds)
    whole = network()
    train(whole, LASSO, small_config(), tmp_path / "sane", device="cpu")
    assert bitwise(load_file(directory / how / "last.safetensors"), weights_of(whole))
    logs = [timeless(read_log(path / "log.jsonl")) for path in (directory / how, tmp_path / "sane")]
    assert logs[0] == logs[1]


def test_a_run_resumed_in_the_past_goes_on(tmp_path):
    """Files from the future are files."""
    config = small_config()
    stop = []

    class Stop(KeyboardInterrupt):
        pass

    def listen(event):
        if event["event"] == "batch" and event["batch"] == 7 and not stop:
            stop.append(event)
            raise Stop

    with pytest.raises(Stop):
        train(network(), LASSO, config, tmp_path / "run", device="cpu", listeners=[listen])
    for path in (tmp_path / "run").iterdir():
        os.utime(path, (4e9, 4e9))
    found, whole = network(seed=9), network()
    train(found, LASSO, config, tmp_path / "run", device="cpu")
    train(whole, LASSO, config, device="cpu")
    assert bitwise(weights_of(found), weights_of(whole))


def test_a_model_trained_anew_is_read_anew_whatever_its_date(tmp_path):
    """`solve` keeps models in memory: another one under the same name must not be taken for the first."""
    problem = sp.lasso(torch.eye(4, dtype=torch.float64)[None], torch.ones(1, 4, dtype=torch.float64), 0.1)
    path = tmp_path / "model"
    answers = []
    for seed in (0, 1):
        save(network(seed=seed), path)
        for suffix in (".safetensors", ".json"):
            os.utime(f"{path}{suffix}", (1e9, 1e9))
        answers.append([sp.solve(problem, str(path), max_iter=3, certify=False).x for _ in range(2)])
        direct = sp.solve(problem, sp.load(path), max_iter=3, certify=False).x
        assert all(torch.equal(answer, direct) for answer in answers[-1])
    assert not torch.equal(answers[0][0], answers[1][0])


def test_models_that_solve_keeps_are_bounded(tmp_path):
    from sureprox.solve.solve import LOADED, _loaded

    problem = sp.lasso(torch.eye(4)[None], torch.ones(1, 4), 0.1)
    for number in range(LOADED + 5):
        save(network(seed=0), tmp_path / f"m{number}")
        sp.solve(problem, str(tmp_path / f"m{number}"), max_iter=1, certify=False)
    assert _loaded.cache_info().currsize <= LOADED
