"""Set up before sureprox is imported: shapes checked in every call, one thread, warnings are errors.

Tests run what users run: the kernels are built before the first test, and engine "auto" takes them. `make test-gpu`
sets SUREPROX_CHECK_SHAPES to nothing, because the checks cannot be compiled by PyTorch. It needs no development tools
but pytest.
"""

import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("SUREPROX_CHECK_SHAPES", "1")

if os.environ["SUREPROX_CHECK_SHAPES"]:
    import shape_checks

    shape_checks.install("sureprox.problems", "sureprox.optimizers")

import numpy as np
import pytest
import torch

torch.set_num_threads(1)

if find_spec("hypothesis"):
    import hypothesis

    hypothesis.settings.register_profile("local", deadline=None, max_examples=40)
    hypothesis.settings.register_profile("ci", deadline=None, max_examples=40, derandomize=True, database=None)
    hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "local")

GOLDEN = Path(__file__).resolve().parents[2] / "shared" / "golden"


def pytest_configure(config: pytest.Config) -> None:
    """Build the kernels once, in the process that starts the others."""
    if not hasattr(config, "workerinput") and os.environ.get("SUREPROX_ENGINE") != "plain":
        from sureprox.kernels.runtime.library import library

        library(build=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if seed := os.environ.get("SUREPROX_TEST_ORDER"):  # `make harden-order`
        random.Random(seed).shuffle(items)
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="no CUDA device here"))


def pytest_runtest_setup() -> None:
    """What a test draws without a seed does not depend on the tests before it."""
    torch.manual_seed(0)
    np.random.seed(0)  # noqa: NPY002  # the generator that libraries share


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the hardening tests have counted, which `-q` would hide."""
    reports = (report for kind in ("passed", "failed") for report in terminalreporter.stats.get(kind, []))
    told = [value for report in reports for name, value in report.user_properties if name == "hardening"]
    if told:
        terminalreporter.section("hardening")
        for line in told:
            terminalreporter.write_line(line)


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Interrupts are heard: a shell that starts the tests in the background has its children ignore them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def workers():
    """The client of two Dask workers, each a process of one thread, that do not check shapes."""
    distributed = pytest.importorskip("distributed")
    import dask

    from sureprox.base.connection import event_loop

    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "300s"}),  # in which one that died is started anew
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
        event_loop() as loop,
    ):
        warnings.simplefilter("default")
        patch.delenv("SUREPROX_CHECK_SHAPES")
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
        local = distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs=50, loop=loop
        )
        client = distributed.Client(local, timeout=120)
        yield client
        for opened in (client, local):
            opened.close(timeout=120)  # an error after that, not a hang


@pytest.fixture(scope="session")
def golden():
    """golden(name): the arrays of ../shared/golden/name.npz; skips where that folder is not beside the repository."""

    def load(name: str) -> dict[str, np.ndarray]:
        if not GOLDEN.is_dir():
            pytest.skip(f"no golden trajectories: {GOLDEN} is not there (the repository was checked out alone)")
        with np.load(GOLDEN / f"{name}.npz") as file:
            return dict(file)

    return load
