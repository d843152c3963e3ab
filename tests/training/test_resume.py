"""One seed, one result: runs repeated, interrupted in every way, and resumed end with the same bits."""

import os
import pickle
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import sureprox as sp
from helpers import refused
from sureprox.base.files import LOCK
from sureprox.training import Recipe, read_log, train
from sureprox.training.checkpoint import Checkpoint
from sureprox.training.layerwise import LayerwiseRun
from sureprox.training.unrolled import UnrolledRun
from training_cases import (
    CPU,
    LASSO,
    LOGISTIC,
    bitwise,
    layerwise_config,
    left_behind,
    network,
    of_kind,
    small_config,
    strict_lines,
    timeless,
    weights_of,
)

TESTS = Path(__file__).resolve().parents[1]
CONFIGS = {"go-math-l2o": small_config(), "ada-lista": layerwise_config()}


def recipe_of(kind: str) -> Recipe:
    return Recipe(kind, network(kind).arguments, LASSO, CONFIGS[kind])


def train_here(out: Path, kind: str = "go-math-l2o", seed: int = 0, listeners=()):
    """The run of `CONFIGS[kind]`; `seed` is that of the first weights."""
    optimizer = network(kind, seed)
    return optimizer, train(optimizer, LASSO, CONFIGS[kind], out, device="cpu", backend="plain", listeners=listeners)


@pytest.fixture(scope="module", params=list(CONFIGS))
def whole(request, tmp_path_factory):
    """A run that was never interrupted: kind, directory, weights, result."""
    out = tmp_path_factory.mktemp("whole")
    optimizer, result = train_here(out, request.param)
    return request.param, out, weights_of(optimizer), result


def same_run(out: Path, whole, optimizer=None, result=None) -> None:
    """Everything in `out` is what the uninterrupted run left: final and best weights, momentum, history, log."""
    kind, reference, weights, expected = whole
    ours, theirs = left_behind(out, recipe_of(kind)), left_behind(reference, recipe_of(kind))
    for mine, other in zip(ours[:3], theirs[:3], strict=True):
        assert bitwise(mine, other)
    assert torch.equal(ours[3], theirs[3])
    log = read_log(out / "log.jsonl")
    assert timeless(log) == timeless(read_log(reference / "log.jsonl"))
    assert [event["batch"] for event in of_kind(log, "batch")] == list(range(1, expected.batches + 1))
    assert bitwise(weights_of(sp.load(out / "model")), weights)
    if optimizer is not None:
        assert bitwise(weights_of(optimizer), weights)
        assert result.completed
        fields = ("batches", "best_validation", "best_batch", "failures")
        assert all(getattr(result, field) == getattr(expected, field) for field in fields)


def test_one_seed_one_result(tmp_path, whole):
    same_run(tmp_path, whole, *train_here(tmp_path, whole[0]))


def test_another_seed_is_another_run(tmp_path, whole):
    """So that the comparisons of this file can fail."""
    kind, _, weights, _ = whole
    if kind == "ada-lista":
        optimizer = network(kind)
        train(optimizer, LASSO, layerwise_config(seed=1), tmp_path, device="cpu")
    else:
        optimizer, _ = train_here(tmp_path, kind, seed=1)
    assert not bitwise(weights_of(optimizer), weights)


class Stop(KeyboardInterrupt):
    pass


def interrupt_at(out: Path, kind: str, moment: int, how: str) -> None:
    """Start or resume the run in `out` and break it off at batch `moment`, politely or in the middle of the batch."""
    optimizer = network(kind, seed=5 if (out / "checkpoint.pt").exists() else 0)
    run = None

    def listen(event):
        if event["event"] == "batch" and event["batch"] == moment:
            if how == "raise":
                raise Stop
            run.stop.set()

    common = (recipe_of(kind), optimizer, CPU, out, [listen], False)
    run = LayerwiseRun(*common) if kind == "ada-lista" else UnrolledRun("plain", *common)
    if how == "raise":
        with pytest.raises(Stop):
            run.go()
        return
    result = run.go()
    assert (result.completed, result.batches) == (False, moment)
    assert not (out / "model.safetensors").exists()
    assert Checkpoint.load(out / "checkpoint.pt", recipe_of(kind).as_dict()).progress.batch == moment


@pytest.mark.parametrize("how", ["stop", "raise"])
@pytest.mark.parametrize("number", range(5))
def test_a_run_resumed_at_a_random_moment(tmp_path, whole, how, number):
    """The resuming call brings other first weights: they must not matter."""
    kind = whole[0]
    moment = random.Random(f"{how}{number}").randrange(1, CONFIGS[kind].total_batches)
    interrupt_at(tmp_path, kind, moment, how)
    same_run(tmp_path, whole, *train_here(tmp_path, kind, seed=9))


def test_a_run_interrupted_again_and_again(tmp_path, whole):
    for moment, how in ((1, "raise"), (2, "stop"), (5, "raise"), (5, "stop"), (11, "raise")):
        interrupt_at(tmp_path, whole[0], moment, how)
    same_run(tmp_path, whole, *train_here(tmp_path, whole[0], seed=9))


def test_a_complete_run_is_not_trained_again(tmp_path, whole):
    train_here(tmp_path, whole[0])
    optimizer, result = train_here(tmp_path, whole[0], seed=9)
    same_run(tmp_path, whole, optimizer, result)


def test_a_log_that_was_removed_goes_on_as_valid_json(tmp_path, whole):
    interrupt_at(tmp_path, whole[0], 7, "stop")
    (tmp_path / "log.jsonl").unlink()
    train_here(tmp_path, whole[0], seed=9)
    assert of_kind(strict_lines(tmp_path / "log.jsonl"), "batch")[0]["batch"] == 8


# ------------------------------------------------------------------------------------ signals, in a process of its own

SCRIPT = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import torch
torch.set_num_threads(1)
from training_cases import LASSO, network, small_config
from sureprox.training import train

after = int(sys.argv[3])
if after == 0:  # die in the middle of writing the third checkpoint
    sync, calls = os.fsync, []
    def dying(number):
        calls.append(number)
        if len(calls) == 5:  # each syncs a file and its directory
            os.kill(os.getpid(), signal.SIGKILL)
        sync(number)
    os.fsync = dying

def tell(event):
    if event["event"] == "batch":
        print(event["batch"], flush=True)
        if event["batch"] == after:
            sys.stdin.readline()  # until the signal has come

train(network(), LASSO, small_config(), sys.argv[2], device="cpu", backend="plain", listeners=[tell])
"""


def train_elsewhere(out: Path, number: int | None, after: int) -> int:
    """Train in another process and send it a signal in the middle of batch `after`; its exit status."""
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    command = [sys.executable, "-c", SCRIPT, str(TESTS), str(out), str(after)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=environment, text=True, **pipes) as process:
        while number is not None and (line := process.stdout.readline()):
            if int(line) == after:
                process.send_signal(number)
                break
        process.communicate("\n", timeout=240)
        return process.returncode


@pytest.fixture(scope="module")
def plain_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("plain")
    optimizer, result = train_here(out)
    return "go-math-l2o", out, weights_of(optimizer), result


@pytest.mark.slow
@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_asked_to_stop(tmp_path, plain_run, number):
    assert train_elsewhere(tmp_path, number, after=4) == 0
    assert read_log(tmp_path / "log.jsonl")[-1]["completed"] is False
    assert left_progress(tmp_path) == 4
    same_run(tmp_path, plain_run, *train_here(tmp_path, seed=9))


@pytest.mark.slow
@pytest.mark.parametrize(("number", "after"), [(signal.SIGKILL, 1), (signal.SIGKILL, 8), (None, 0)])
def test_a_run_killed(tmp_path, plain_run, number, after):
    assert train_elsewhere(tmp_path, number, after) == -signal.SIGKILL
    assert left_progress(tmp_path) == {1: 0, 8: 6, 0: 3}[after]
    assert not (tmp_path / "model.safetensors").exists()
    same_run(tmp_path, plain_run, *train_here(tmp_path, seed=9))


def left_progress(out: Path) -> int:
    return Checkpoint.load(out / "checkpoint.pt", recipe_of("go-math-l2o").as_dict()).progress.batch


# ------------------------------------------------------------------------------------------------ checkpoints refused


@pytest.fixture
def stopped(tmp_path):
    """A directory with the checkpoint of batch 3."""
    interrupt_at(tmp_path, "go-math-l2o", 3, "stop")
    (tmp_path / LOCK).touch()  # `train` leaves it
    return tmp_path


@pytest.mark.parametrize(
    ("family", "changes", "arguments", "named"),
    [
        (LASSO, {"seed": 1}, {}, ["training.seed"]),
        (LASSO, {"learning_rate": 0.02, "loss": "weighted"}, {}, ["training.learning_rate", "training.loss"]),
        (LOGISTIC, {}, {}, ["family.name", "family.m", "family.curvature"]),
        (LASSO, {}, {"gradient_map": "std"}, ["arguments.gradient_map"]),
    ],
)
def test_another_recipe_is_refused_by_name(stopped, family, changes, arguments, named):
    before = {path.name: path.read_bytes() for path in stopped.iterdir()}
    refused(
        lambda: train(network(**arguments), family, small_config(**changes), stopped, device="cpu"),
        "belongs to another recipe",
        *named,
        "choose another output directory",
        error=sp.ConfigError,
    )
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == before


def test_only_what_differs_is_named(stopped):
    with pytest.raises(sp.ConfigError) as caught:
        train(network(), LASSO, small_config(seed=1), stopped, device="cpu")
    assert "(training.seed differ)" in str(caught.value)


def test_another_optimizer_is_refused(stopped):
    refused(
        lambda: train(network("l2o-pa"), LASSO, small_config(), stopped, device="cpu"),
        "belongs to another recipe",
        "optimizer",
        error=sp.ConfigError,
    )


class Malicious:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return Path.touch, (self.path,)


@pytest.mark.parametrize(
    "damage", ["empty", "truncated", "garbage", "pickle", "torch pickle", "not a dict", "lacks a key", "progress"]
)
def test_a_damaged_checkpoint_is_refused_with_one_line(stopped, damage):
    path, trap = stopped / "checkpoint.pt", stopped / "trap"
    data = path.read_bytes()
    content = torch.load(path, weights_only=True)
    if damage == "pickle":
        path.write_bytes(pickle.dumps(Malicious(trap)))
    elif damage == "torch pickle":
        torch.save({**content, "recipe": Malicious(trap)}, path)
    elif damage == "not a dict":
        torch.save(torch.zeros(3), path)
    elif damage == "lacks a key":
        torch.save({key: value for key, value in content.items() if key != "meta"}, path)
    elif damage == "progress":
        torch.save({**content, "progress": 3}, path)
    else:
        path.write_bytes({"empty": b"", "truncated": data[: len(data) // 2], "garbage": bytes(range(256)) * 9}[damage])
    log = (stopped / "log.jsonl").read_bytes()
    refused(lambda: train_here(stopped), "cannot resume from", "checkpoint.pt", "delete it", error=sp.TrainingError)
    assert not trap.exists()
    assert (stopped / "log.jsonl").read_bytes() == log


def test_flipped_bytes_raise_nothing_but_our_errors(stopped):
    path, chance = stopped / "checkpoint.pt", random.Random(0)
    data, described = path.read_bytes(), recipe_of("go-math-l2o").as_dict()
    messages = []
    for _ in range(60):
        spoiled = bytearray(data)
        for _ in range(3):
            spoiled[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(spoiled)
        try:
            Checkpoint.load(path, described)
        except sp.SureproxError as error:
            messages.append(str(error))
    assert messages
    assert not any("\n" in message for message in messages)


@pytest.mark.parametrize("place", ["os.fsync", "pathlib.Path.replace"])
def test_a_checkpoint_is_whole_or_absent(stopped, monkeypatch, place):
    path = stopped / "checkpoint.pt"
    data, found = path.read_bytes(), Checkpoint.load(path, recipe_of("go-math-l2o").as_dict())
    found.progress.batch = 99

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(place, full)
    with pytest.raises(OSError, match="No space"):
        found.save(path)
    assert path.read_bytes() == data
    assert sorted(p.name for p in stopped.iterdir()) == [".lock", "checkpoint.pt", "log.jsonl"]
    monkeypatch.undo()
    found.save(path)
    assert Checkpoint.load(path, recipe_of("go-math-l2o").as_dict()).progress.batch == 99
