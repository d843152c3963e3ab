"""Work on several processes or machines: a thin layer over Dask, an extra (`sureprox[dask]`)."""

import contextlib
import logging
import os
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from sureprox.base.errors import InputError, SureproxError
from sureprox.base.tasks import Tasks, WorkerLostError

Item = TypeVar("Item")
Value = TypeVar("Value")

LOOPBACK = "127.0.0.1"
AHEAD = 3  # tasks for each thread of the cluster that are under way at a time
# A terminal sends Ctrl-C to the workers too, but it is this process that ends them, once their tasks have had a moment.
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
# Dask lets its workers give every large array back to the system at once, for which new pages have to be made at each
# step: it more than doubled the time of a shard. So they keep up to 64 MiB, as processes do that nobody told otherwise.
KEEP = {"MALLOC_TRIM_THRESHOLD_": 2**26, "MALLOC_MMAP_THRESHOLD_": 2**25}

_listeners: dict[str, Callable[[Any], None]] = {}  # to tasks that run in this process


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextlib.contextmanager
def connected(cluster: Any) -> Iterator[Any]:
    """A Dask client of `cluster`: "local", the address of a scheduler, a Dask cluster or a client; None for none.

    "local" starts a process of one thread for each core, which serve this process alone and end with it or before. A
    client that was given stays open.
    """
    if cluster is None:
        yield None
        return
    try:
        import distributed

        if cluster == "local":
            import cryptography  # noqa: F401  # Dask makes certificates with it
    except ModuleNotFoundError as error:
        raise InputError(
            f"cluster needs {'cryptography' if error.name == 'cryptography' else 'Dask'}, which is not installed; "
            "run: pip install 'sureprox[dask]'"
        ) from None
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    if not isinstance(cluster, str) and not hasattr(cluster, "scheduler_address"):
        raise InputError(f"cluster is a {type(cluster).__name__}; pass 'local', an address or a Dask client")
    with contextlib.ExitStack() as opened:
        if cluster == "local":
            cluster = opened.enter_context(_local())
        try:
            client = _client(cluster)
        except (OSError, TypeError, ValueError) as error:
            if not isinstance(cluster, str):
                raise
            raise InputError(f"cluster {cluster!r} cannot be reached: {' '.join(str(error).split())[:160]}") from None
        opened.callback(_close, client)
        yield client


def _client(cluster: Any) -> Any:
    """A Dask client, closed at once if it cannot be opened.

    Dask leaves that to garbage collection, which waits for ever if it comes while another client is being opened in the
    same thread: both need one lock.
    """
    import distributed

    class Client(distributed.Client):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            try:
                super().__init__(*arguments, **options)
            except BaseException:
                with contextlib.suppress(Exception):
                    self.close(timeout=10)
                raise

    return Client(cluster, set_as_default=False)


@contextlib.contextmanager
def _local() -> Iterator[Any]:
    """Processes on this machine that nobody else can give tasks to.

    They listen to this machine alone, and only to who has a certificate that is made for them and kept in memory. Dask
    opens a port for web pages on the scheduler and on each worker, whether there are any or not: there are none.
    """
    import dask
    import distributed

    settings = {
        "distributed.nanny.pre-spawn-environ": KEEP,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with dask.config.set(settings):
        local = distributed.LocalCluster(
            n_workers=cores(),
            threads_per_worker=1,
            host=LOOPBACK,
            security=True,
            scheduler_kwargs={"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
            memory_limit=None,  # chunks are sized to fit; Dask would stop and move work on its own estimate
            silence_logs=logging.CRITICAL + 1,  # what there is to say is said in one line here
            preload=[DEAF],
        )
        try:
            yield local
        finally:
            _close(local)


def _close(opened: Any) -> None:
    """A client or a cluster, within a minute; the processes of a cluster that hangs end with this one."""
    with contextlib.suppress(TimeoutError):
        opened.close(timeout=60)


def map_on(
    cluster: Any, function: Callable[[Item], Value], items: Iterable[Item], *, ahead: int = AHEAD
) -> Iterator[Value]:
    """function(item) for every item, in order, on a cluster as in `solve_many`; here, one by one, if that is None.

    At most `ahead` items for each thread of the cluster are under way, so that any number of items passes through
    bounded memory. The tasks of a worker that dies are done again by others: give a `function` that may be called
    twice. An error in the function is raised here.
    """
    with connected(cluster) as client:
        if client is None:
            yield from map(function, items)
            return
        yield from _submitted(client, function, iter(items), ahead)


def done_on(
    cluster: Any, function: Callable[[Item], Value], items: Iterable[Item], *, at_once: int | None = None
) -> Generator[tuple[Item, Value | SureproxError], None, None]:
    """(item, function(item)) for every item, the first to be done first; for long tasks, such as training runs.

    At most `at_once` items are under way, by default one for each thread of the cluster; the next one is taken from
    `items` only then, so that it may depend on what was done before. An item whose workers died again and again comes
    with the error that says so, and the others go on. An error in the function is raised here.
    """
    with connected(cluster) as client:
        if client is None:
            for item in items:
                yield item, function(item)
            return
        yield from _as_done(client, function, iter(items), at_once)


def _as_done(
    client: Any, function: Callable[[Item], Value], items: Iterator[Item], at_once: int | None
) -> Iterator[tuple[Item, Value | SureproxError]]:
    tasks = Tasks(client, function, items)
    value: Value | SureproxError
    try:
        tasks.submit(at_once or tasks.threads())
        while task := tasks.done():
            try:
                value = tasks.value(task)
            except WorkerLostError as error:
                value = error
            yield task.item, value
            tasks.submit(1)
    finally:
        tasks.cancel()


def _submitted(client: Any, function: Callable[[Item], Value], items: Iterator[Item], ahead: int) -> Iterator[Value]:
    tasks = Tasks(client, function, items)
    done = set()
    try:
        waiting = deque(tasks.submit(ahead * tasks.threads()))
        while waiting:
            while waiting[0] not in done:
                done.add(tasks.done())
            done.remove(waiting[0])
            value = tasks.value(waiting.popleft())
            waiting.extend(tasks.submit(1))
            yield value
    finally:
        tasks.cancel()


@contextlib.contextmanager
def listening(client: Any, topic: str, listener: Callable[[Any], None]) -> Iterator[None]:
    """Meanwhile `listener` is called with what the tasks of this client `report` to the topic."""
    if client is None:
        _listeners[topic] = listener
    else:
        client.subscribe_topic(topic, lambda event: listener(event[1]))  # with its time before it
    try:
        yield
    finally:
        if client is None:
            del _listeners[topic]
        else:
            client.unsubscribe_topic(topic)


def report(topic: str, message: Any) -> None:
    """From a task, here or on a worker, to whoever is listening; a few times a second at most."""
    if topic in _listeners:
        _listeners[topic](message)
    elif worker := _worker():
        worker.log_event(topic, message)


def unwanted() -> bool:
    """Whether nobody waits any more for the task that asks: it was cancelled, or whoever gave it has gone.

    Dask cannot end a task that runs. A long one should ask now and then, and end itself. False outside of a cluster.
    """
    worker = _worker()
    if worker is None:
        return False
    task = worker.state.tasks.get(worker.get_current_task())
    return task is None or task.state in ("cancelled", "released")


def _worker() -> Any:
    """The Dask worker whose task this is; None outside of a cluster."""
    distributed = sys.modules.get("distributed")  # not there: this is no task
    try:
        return distributed and distributed.get_worker()
    except ValueError:
        return None
