"""Tasks on a Dask cluster: taken when there is a place, given up with an error, ended when nobody waits for them."""

import asyncio
import http.client
import os
import signal
import sys
import threading
import time

import psutil
import pytest

from cluster_cases import square, square_or_die, wait_until_unwanted
from helpers import refused
from sureprox import SureproxError
from sureprox.base import connection, tasks
from sureprox.base.cluster import WorkerLostError, done_on, listening, map_on, report, unwanted
from sureprox.base.connection import connected, event_loop
from sureprox.kernels.runtime.threads import available

distributed = pytest.importorskip("distributed")
pytestmark = pytest.mark.filterwarnings("default")


@pytest.fixture
def one_core(monkeypatch):
    monkeypatch.setattr(connection, "cores", lambda: 1)


@pytest.mark.parametrize("here", [True, False])
def test_an_item_may_depend_on_what_was_done_before(here, request):
    cluster = None if here else request.getfixturevalue("workers")
    done = {}

    def items():
        value = 2
        while value < 1000:
            yield value
            value = done[value]

    for item, value in done_on(cluster, square, items(), at_once=1):
        done[item] = value
    assert done == {2: 4, 4: 16, 16: 256, 256: 65536}


def test_all_at_once_come_as_they_are_done(workers):
    assert dict(done_on(workers, square, range(20), at_once=20)) == {k: k**2 for k in range(20)}
    assert list(map_on(workers, square, range(20))) == [k**2 for k in range(20)]


def test_a_task_that_kills_its_workers_is_given_up_alone(workers):
    done = dict(done_on(workers, square_or_die, [0, 3]))
    assert done[3] == 9
    assert isinstance(done[0], WorkerLostError)
    assert str(done[0]).startswith("a task was given up after its worker died 4 times")


def test_a_task_that_nobody_waits_for_ends_itself(workers, tmp_path):
    path = tmp_path / "seen"
    begun = threading.Event()
    with listening(workers, "begun", lambda told: begun.set()):
        future = workers.submit(wait_until_unwanted, str(path), pure=False)
        assert begun.wait(120)
        future.cancel()
    end = time.monotonic() + 120
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.01)
    assert path.read_text() == "unwanted"


def test_outside_of_a_cluster():
    assert not unwanted()
    heard = []
    with listening(None, "topic", heard.append):
        report("topic", 1)
        report("another", 2)
    report("topic", 3)
    assert heard == [1]


def test_an_error_of_the_user_is_not_one_of_the_cluster(workers):
    """Not even where the cluster was given by its address."""
    with pytest.raises(ValueError, match="mine"), connected(workers.scheduler.address):
        raise ValueError("mine")
    refused(lambda: next(done_on("tcp:", square, [1])), "cluster 'tcp:' cannot be reached")
    refused(lambda: next(done_on(3, square, [1])), "cluster is a int; pass 'local', an address or a Dask client")


def listening_sockets(numbers=()):
    """Of this process, and of those with these numbers and their children: not of another cluster's workers."""
    workers = [psutil.Process(number) for number in numbers]
    processes = [psutil.Process(), *workers, *(child for one in workers for child in one.children(recursive=True))]
    opened = [found for process in processes for found in process.net_connections(kind="inet")]
    return {tuple(found.laddr) for found in opened if found.status == psutil.CONN_LISTEN}


def answers_http(address, path):
    """The status of a plain answer to GET; None if there is none, as from a port for TLS alone."""
    connection = http.client.HTTPConnection(*address, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


@pytest.mark.usefixtures("one_core")
def test_nobody_else_can_use_a_local_cluster():
    """No port on a network, no task without the certificate, no pages."""
    before = listening_sockets()
    with connected("local") as client:
        assert list(map_on(client, abs, [-1, -2])) == [1, 2]
        opened = listening_sockets(client.run(os.getpid).values()) - before
        assert len(opened) >= 3  # of the scheduler, the worker and who started that
        assert {host for host, port in opened} == {"127.0.0.1"}
        paths = ("/status", "/info/main/workers.html", "/json/identity.json", "/metrics")
        assert {answers_http(address, path) for address in opened for path in paths} == {None, 404}
        assert 8787 not in {port for host, port in opened}

        address = client.scheduler.address
        assert address.startswith("tls://127.0.0.1:")
        refused(lambda: next(done_on(address, square, [1])), f"cluster '{address}' cannot be reached")
        plain = address.replace("tls://", "tcp://")
        refused(lambda: next(done_on(plain, square, [1])), f"cluster '{plain}' cannot be reached")
        own = distributed.Security.temporary().get_connection_args("client")  # with a certificate of its own
        with pytest.raises(OSError, match=r"SSL|TLS|clos"):
            asyncio.run(distributed.comm.connect(address, timeout=120, **own))


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:9", "tls://127.0.0.1:9", "tcp:"])
def test_a_client_that_was_not_opened_does_not_wait_for_garbage_collection(address, monkeypatch):
    """It would take Dask's lock of loops then, also inside of the opening of another client, and hang."""
    dask = pytest.importorskip("dask")
    begun, init = [], distributed.Client.__init__

    def kept(self, *arguments, **options):
        begun.append(self)
        init(self, *arguments, **options)

    monkeypatch.setattr(distributed.Client, "__init__", kept)
    with dask.config.set({"distributed.comm.timeouts.connect": "1s"}):
        refused(lambda: next(done_on(address, square, [1])), "cannot be reached")
    assert [client.status for client in begun] == ["closed"]


def test_without_cryptography_the_line_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    refused(
        lambda: next(done_on("local", square, [1])),
        "cluster needs cryptography",
        "pip install dask distributed cryptography",
    )


@pytest.mark.usefixtures("one_core")
def test_no_thread_is_needed_that_dask_waits_for_ten_seconds_only(workers, monkeypatch):
    """On a busy machine it has not begun by then, and Dask fails with an AssertionError."""
    monkeypatch.setattr("distributed.utils._CollectErrorThread", lambda **options: pytest.fail("Dask starts a thread"))
    for cluster in ("local", workers.scheduler.address):
        assert list(map_on(cluster, abs, [-1, -2])) == [1, 2]


def test_a_thread_that_does_not_begin_is_told_in_one_line(monkeypatch):
    run, free, ended = asyncio.run, threading.Event(), threading.Event()

    def late(main):
        assert free.wait(60)
        run(main)
        ended.set()

    monkeypatch.setattr(asyncio, "run", late)
    monkeypatch.setattr(connection, "LIMIT", 0.01)
    line = "a thread for the cluster has not begun within 0 s; is this machine too busy?"
    refused(lambda: next(done_on("local", square, [1])), line, error=SureproxError)
    free.set()
    assert ended.wait(60)  # it does not stay for ever


@pytest.mark.usefixtures("one_core")
def test_a_local_cluster_that_does_not_start_is_tried_again(monkeypatch):
    """Its processes do not the first time, its client not the second time; what was started is ended."""
    processes, client, started, opened = connection._processes, connection._client, [], []

    def slow_processes(loop):
        started.append([cluster.status for cluster in opened])
        if len(started) == 1:
            raise RuntimeError("Cluster failed to start: it took too long")
        return processes(loop)

    def slow_client(cluster, *rest):
        opened.append(cluster)
        if len(opened) == 1:
            raise TimeoutError("it took too long")
        return client(cluster, *rest)

    monkeypatch.setattr(connection, "_processes", slow_processes)
    monkeypatch.setattr(connection, "_client", slow_client)
    assert dict(done_on("local", square, [3])) == {3: 9}
    ended = distributed.Status.closed
    assert started == [[], [], [ended]]  # one after the other, not beside it
    assert [cluster.status for cluster in opened] == [ended, ended]


@pytest.mark.usefixtures("one_core")
def test_a_worker_that_takes_long_to_come_back_is_waited_for(monkeypatch):
    """On a busy machine longer than Dask waits before it gives up a place for good; here that would be no time."""
    dask = pytest.importorskip("dask")
    monkeypatch.setattr(tasks, "EVERY", 1.0)
    monkeypatch.setattr(tasks, "SILENCE", 120)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    with dask.config.set({"distributed.deploy.lost-worker-timeout": "0s"}), connected("local") as client:
        assert client.submit(available).result(timeout=60) == 1  # a thread: there is a worker for each core
        (worker,) = client.run(os.getpid).values()
        os.kill(worker, signal.SIGKILL)
        assert list(map_on(client, abs, [-1])) == [1]


@pytest.mark.parametrize("error", [RuntimeError, TimeoutError])
def test_a_local_cluster_that_never_starts_is_told_in_one_line(error, monkeypatch):
    started = []

    def slow(loop):
        started.append(loop)
        raise error("it took\ntoo long")

    monkeypatch.setattr(connection, "_processes", slow)
    line = "no cluster could be started on this machine in 3 attempts (it took too long); is it too busy? call again"
    refused(lambda: list(done_on("local", square, [3])), line, error=SureproxError)
    assert len(started) == 3


def test_a_cluster_that_was_closed_is_told_in_one_line():
    options = {"n_workers": 0, "processes": False, "dashboard_address": "127.0.0.1:0"}
    with event_loop() as loop:
        with distributed.LocalCluster(**options, loop=loop) as local:
            pass
        refused(lambda: list(done_on(local, square, [1])), "cluster of type LocalCluster cannot be reached: ")
