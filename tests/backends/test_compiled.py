"""The compiled step is the plain step, and a backend that fails is replaced without a trace in the numbers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from sureprox.kernels import Compiled, compiler_available
from sureprox.kernels.runtime.compiled import tensor_fields
from sureprox.optimizers.base import observed_step
from sureprox.training import train
from training_cases import CPU, LASSO, bitwise, network, of_kind, small_config, timeless, weights_of

TESTS = Path(__file__).resolve().parents[1]


@pytest.mark.slow
@pytest.mark.skipif(not compiler_available(CPU), reason="torch.compile needs a C++ compiler")
def test_compiled_equals_eager(tmp_path):
    """Steps to 1e-10; meta-gradients to 1e-9 in float64 and 1e-3 in float32; validation losses of a run to 1e-5.

    A segment of a streamed run, with its gradients, to 1e-8 in float64; a certified solve to 1e-9.
    """
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    environment |= {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.pathsep.join(filter(None, [*sys.path]))}
    wanted = ["steps", "gradients-float32", "gradients-float64", "training", "streamed", "solving"]
    command = [sys.executable, str(TESTS / "backends" / "compiled_script.py"), *wanted]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
    assert run.returncode == 0, run.stderr[-2000:]
    assert [line.split()[0] for line in run.stdout.splitlines()] == wanted


def test_no_compiler_is_noticed(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert not compiler_available(CPU)
    monkeypatch.setenv("CXX", sys.executable)
    assert compiler_available(CPU)


def test_tensor_fields_are_all_but_the_count():
    problem = LASSO.sample(2, torch.Generator())
    state = network().init(problem, LASSO.start(2, torch.Generator()))
    assert set(tensor_fields(state)) == set(vars(state)) - {"k"}


# -------------------------------------------------------------------------------------------------- falling back


class BreaksLater(Compiled):
    """Works eagerly for a number of steps, then fails, as a compiler may when shapes or modes change."""

    def __init__(self, optimizer, mode=None):
        self.inner, self.left = optimizer, 0

    def observed_step(self, problem, state):
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("kernel exploded\nwith a long\nstory")
        return observed_step(self.inner, problem, state)


class BreaksAfterOneSegment(BreaksLater):
    """The first validation (4 steps) and the first segment (2) work: weights and momentum have changed by then."""

    def __init__(self, optimizer, mode=None):
        super().__init__(optimizer)
        self.left = 7


class BreaksAtOnce(Compiled):
    def __init__(self, optimizer, mode=None):
        raise RuntimeError("torch.compile is not supported on this Python")


def run_with(backend: str, out=None):
    optimizer, events = network(), []
    train(optimizer, LASSO, small_config(), out, device="cpu", backend=backend, listeners=[events.append])
    return weights_of(optimizer), events


@pytest.mark.parametrize(
    ("broken", "batch", "reason"),
    [
        (BreaksAtOnce, 0, "not supported on this Python"),
        (BreaksLater, 0, "RuntimeError: kernel exploded)"),
        (BreaksAfterOneSegment, 0, "RuntimeError: kernel exploded)"),
    ],
)
def test_a_backend_that_fails_is_replaced_by_plain_and_says_so(tmp_path, monkeypatch, broken, batch, reason):
    expected, reference = run_with("plain")
    monkeypatch.setattr("sureprox.training.unrolled.Compiled", broken)
    monkeypatch.setattr("sureprox.training.backends.compiler_available", lambda device: True)
    weights, events = run_with("compiled", tmp_path)
    (note,) = of_kind(events, "note")
    assert reason in note["text"]
    assert note["text"].startswith("compiled failed")
    assert "\n" not in note["text"]
    assert note["batch"] == batch
    assert bitwise(weights, expected)
    assert timeless([event for event in events if event["event"] != "note"]) == timeless(reference)


def test_an_error_of_the_problem_is_not_hidden_by_falling_back(monkeypatch):
    class Faulty:
        n = LASSO.n
        calls = 0

        def sample(self, batch, generator, dtype):
            self.calls += 1
            if self.calls > 2:
                raise ValueError("the sampler is broken")
            return LASSO.sample(batch, generator, dtype)

        start = LASSO.start

    monkeypatch.setattr("sureprox.training.unrolled.Compiled", BreaksAfterOneSegment)
    monkeypatch.setattr("sureprox.training.backends.compiler_available", lambda device: True)
    with pytest.raises(ValueError, match="the sampler is broken"):
        train(network(), Faulty(), small_config(), device="cpu", backend="compiled")


@pytest.mark.parametrize(
    ("backend", "compiler", "text"),
    [("graph", True, "CUDA graphs need a GPU"), ("compiled", False, "no compiler for cpu")],
)
def test_a_backend_that_cannot_work_here_says_so(monkeypatch, backend, compiler, text):
    monkeypatch.setattr("sureprox.training.backends.compiler_available", lambda device: compiler)
    weights, events = run_with(backend)
    (note,) = of_kind(events, "note")
    assert text in note["text"]
    assert of_kind(events, "start")[0]["backend"] == "plain"
    assert bitwise(weights, run_with("plain")[0])


@pytest.mark.parametrize(("worth", "name"), [(1e9, "plain"), (1.0, "compiled")])
def test_auto_compiles_on_a_cpu_only_where_it_pays(monkeypatch, worth, name):
    monkeypatch.setattr("sureprox.training.unrolled.WORTH_COMPILING", worth)
    monkeypatch.setattr("sureprox.training.unrolled.Compiled", BreaksLater)
    monkeypatch.setattr("sureprox.training.backends.compiler_available", lambda device: True)
    assert of_kind(run_with("auto")[1], "start")[0]["backend"] == name
