"""A cluster that loses tasks, workers, its scheduler or the time of day: mended or told in one line, never a hang."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from cluster_cases import out_of_time, square
from helpers import refused
from sureprox import SureproxError
from sureprox.base import tasks
from sureprox.base.cluster import done_on, map_on
from sureprox.base.connection import event_loop

pytestmark = pytest.mark.filterwarnings("default")
distributed = pytest.importorskip("distributed")
SCRIPT = Path(__file__).with_name("cluster_while_clock_jumps.py")
SCHEDULER = """
import distributed
from sureprox.base.connection import event_loop
threads = {"processes": False, "protocol": "tcp://", "dashboard_address": "127.0.0.1:0"}
with event_loop() as loop, distributed.LocalCluster(n_workers=1, **threads, loop=loop) as local:
    print(local.scheduler_address, flush=True)
    input()
"""


@pytest.fixture(autouse=True)
def impatient(monkeypatch):
    """A task is lost after 0.4 s without a sign of it."""
    monkeypatch.setattr(tasks, "EVERY", 0.1)
    monkeypatch.setattr(tasks, "SILENCE", 4)


@pytest.fixture
def local():
    """A scheduler and two workers of one thread, all in this process."""
    options = {"processes": False, "dashboard_address": "127.0.0.1:0", "silence_logs": 60}
    with event_loop() as loop:
        local = distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options, loop=loop)
        yield local
        local.close(timeout=120)


@pytest.fixture
def client(local):
    client = distributed.Client(local, timeout=120, set_as_default=False)
    yield client
    client.close(timeout=120)


def lose_messages(client, monkeypatch, count):
    """The first `count` tasks that are submitted never arrive."""
    send, lost = client._send_to_scheduler, []

    def lossy(message):
        if message["op"] == "update-graph" and len(lost) < count:
            lost.append(message)
        else:
            send(message)

    monkeypatch.setattr(client, "_send_to_scheduler", lossy)
    return lost


def square_unless_forgotten(number):
    """The first time, the scheduler forgets the task while it runs, and tells nobody."""
    scheduler, client, calls = FORGETFUL
    calls.append(number)
    if len(calls) == 1:

        async def forget():
            keys = [key for key, task in scheduler.tasks.items() if task.state == "processing"]
            scheduler.client_releases_keys(keys=keys, client=client.id, stimulus_id="test")

        client.sync(forget)
    return number**2


FORGETFUL = []


@pytest.fixture
def long(monkeypatch):
    """`wait_long` ends when the cluster was asked more than twice as often as a lost task is waited for."""
    look, looks = tasks.Tasks._look, []

    def counted(self):
        look(self)
        looks.append(self)
        if len(looks) > 2 * tasks.SILENCE:
            LONG_ENOUGH.set()

    monkeypatch.setattr(tasks.Tasks, "_look", counted)
    LONG_ENOUGH.clear()
    BEGAN.clear()
    yield
    LONG_ENOUGH.set()


def wait_long(number):
    """Unless the number is negative, which is an error at once."""
    BEGAN.append(number)
    if number < 0:
        raise ValueError(f"{number} is negative")
    return number if LONG_ENOUGH.wait(60) else None


LONG_ENOUGH, BEGAN = threading.Event(), []


@pytest.mark.usefixtures("long")
def test_a_long_task_and_those_in_line_are_left_alone(client):
    assert dict(done_on(client, wait_long, range(4), at_once=4)) == {0: 0, 1: 1, 2: 2, 3: 3}
    assert sorted(BEGAN) == [0, 1, 2, 3]  # each once


@pytest.mark.usefixtures("long")
def test_an_error_behind_a_long_task_is_not_taken_for_a_loss(client):
    values = map_on(client, wait_long, [0, -1])
    assert next(values) == 0
    with pytest.raises(ValueError, match="-1 is negative"):
        next(values)
    assert sorted(BEGAN) == [-1, 0]  # each once


def test_an_error_of_time_is_one_of_the_function(client):
    with pytest.raises(TimeoutError, match="mine"):
        list(map_on(client, out_of_time, [1]))


def test_a_task_that_the_scheduler_forgets_is_submitted_again(local, client):
    FORGETFUL[:] = local.scheduler, client, []
    assert list(done_on(client, square_unless_forgotten, [2, 3], at_once=1)) == [(2, 4), (3, 9)]
    assert FORGETFUL[2] == [2, 2, 3]


@pytest.mark.parametrize("count", [1, 2])
def test_a_task_that_does_not_arrive_is_submitted_again(client, monkeypatch, count):
    lost = lose_messages(client, monkeypatch, count)
    assert list(map_on(client, square, range(5))) == [0, 1, 4, 9, 16]
    assert len(lost) == count


def test_a_task_that_never_arrives_is_told_in_one_line(client, monkeypatch):
    lost = lose_messages(client, monkeypatch, 1000)
    line = "a task was lost 3 times: no worker gave a sign of it in 0 s; restart the cluster"
    for on in (map_on, done_on):
        refused(lambda on=on: list(on(client, square, [1])), line, error=SureproxError)
    assert len(lost) == 6


def test_workers_that_are_gone_are_told_in_one_line(local, client):
    line = "the cluster has had no worker for 0 s; start one; what is done is kept, call again"
    with closing(done_on(client, square, range(100), at_once=1)) as running:
        assert next(running) == (0, 0)
        local.scale(0)
        refused(lambda: list(running), line, error=SureproxError)
    refused(lambda: list(map_on(client, square, [1])), line, error=SureproxError)


@pytest.mark.parametrize(
    ("sent", "line"),
    [(signal.SIGKILL, "what is done is kept, call again"), (signal.SIGSTOP, "the scheduler has not answered for 0 s")],
)
def test_a_scheduler_that_is_gone_is_told_in_one_line(sent, line, monkeypatch):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-c", SCHEDULER], text=True, **pipes) as process:
        try:
            address = process.stdout.readline().strip()
            with closing(done_on(address, abs, range(100), at_once=1)) as running:
                assert next(running) == (0, 0)
                process.send_signal(sent)
                monkeypatch.setattr(tasks, "ANSWER", 0.1)
                refused(lambda: list(running), line, error=SureproxError)
        finally:
            process.kill()


def test_no_default_client_is_needed(client, monkeypatch):
    monkeypatch.setattr(distributed.client, "default_client", lambda *_: pytest.fail("the default client was asked"))
    assert dict(done_on(client, square, range(3))) == {0: 0, 1: 1, 2: 4}
    assert list(map_on(client, square, range(3))) == [0, 1, 4]


def test_a_clock_that_goes_back_is_told_in_one_line():
    """The clock of the process in which the scheduler lives, by an hour, which Dask would wait for."""
    environment = {name: value for name, value in os.environ.items() if name != "SUREPROX_CHECK_SHAPES"}
    done = subprocess.run([sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    for outcome in json.loads(done.stdout):
        assert outcome == list(range(20)) or outcome.startswith("a task was lost 3 times")
    assert done.stderr == ""
