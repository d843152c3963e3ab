"""Work on several processes or machines: a thin layer over Dask, an extra (`sureprox[dask]`)."""

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Any, TypeVar

from sureprox.base.connection import connected
from sureprox.base.errors import SureproxError
from sureprox.base.tasks import Tasks, WorkerLostError

Item = TypeVar("Item")
Value = TypeVar("Value")

AHEAD = 3  # tasks for each thread of the cluster that are under way at a time

_listeners: dict[str, Callable[[Any], None]] = {}  # to tasks that run in this process


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
    """Send a message from a task, here or on a worker, to its listener; at most a few times a second."""
    if topic in _listeners:
        _listeners[topic](message)
    elif worker := _worker():
        worker.log_event(topic, message)


def unwanted() -> bool:
    """Whether the calling task is no longer wanted: it was cancelled, or the process that submitted it has ended.

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
