"""A clock that jumps, backwards or by years: it is not asked for durations, and nothing is remembered by its time."""

import os
import time

import pytest
import torch

import sureprox as sp
from sureprox.optimizers import save
from sureprox.training import read_log, train
from training_cases import LASSO, bitwise, network, small_config, timeless, weights_of


@pytest.fixture(params=["backwards", "by years", "to 1970"])
def jumping(request, monkeypatch):
    """The clock of the system, not the counter that only ever goes forward, gone mad."""
    true, calls = time.time(), []

    def wrong() -> float:
        calls.append(None)
        return {"backwards": true - 3600 * len(calls), "by years": true + 1e8 * len(calls), "to 1970": 1.0}[
            request.param
        ]

    monkeypatch.setattr(time, "time", wrong)
    monkeypatch.setattr(time, "time_ns", lambda: int(1e9 * wrong()))


def test_training_takes_the_same_time_and_ends_with_the_same_bits(tmp_path, jumping, monkeypatch):
    found = network()
    began = time.perf_counter()
    result = train(found, LASSO, small_config(), tmp_path / "mad", device="cpu")
    spent = time.perf_counter() - began
    assert 0 < result.seconds <= spent
    seconds = [event["seconds"] for event in read_log(tmp_path / "mad" / "log.jsonl")]
    assert seconds == sorted(seconds)
    monkeypatch.undo()
    whole = network()
    train(whole, LASSO, small_config(), tmp_path / "sane", device="cpu")
    assert bitwise(weights_of(found), weights_of(whole))
    logs = [timeless(read_log(tmp_path / name / "log.jsonl")) for name in ("mad", "sane")]
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
    from sureprox.solve import LOADED, _loaded

    problem = sp.lasso(torch.eye(4)[None], torch.ones(1, 4), 0.1)
    for number in range(LOADED + 5):
        save(network(seed=0), tmp_path / f"m{number}")
        sp.solve(problem, str(tmp_path / f"m{number}"), max_iter=1, certify=False)
    assert _loaded.cache_info().currsize <= LOADED
