"""Tasks under way on a Dask cluster, watched until they are done.

A task may run for days, but not without a sign of it. Whenever nothing was done for `EVERY` seconds, the scheduler is
asked whether it knows the tasks, and their workers whether they work on them. A task of which `SILENCE` answers in a
row know nothing is lost: a jump of the clock, by which Dask times what it sends, can do that. It is submitted again,
`AGAIN` times. A cluster without workers, or whose scheduler does not answer, ends the wait with an error. Answers are
counted, not seconds, so that a process that was stopped for a while accuses nobody.
"""

import asyncio
import contextlib
import queue
import warnings
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import CancelledError
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

from sureprox.base.errors import SureproxError

Item = TypeVar("Item")
Value = TypeVar("Value")

EVERY = 30.0  # seconds
SILENCE = 10  # with the line above 300 s, as long as Dask itself waits for the heartbeat of a worker
AGAIN = 2
ANSWER = 30.0  # seconds that an answer may take
KEPT = "what is done is kept, call again"
UNREACHABLE = (OSError, RuntimeError, AttributeError)  # no answer in time or at all; the client is closed


class WorkerLostError(SureproxError):
    """A task whose workers died again and again."""


@dataclass(eq=False)
class Task(Generic[Item]):
    """function(item), in a future of Dask that is replaced if it is lost."""

    item: Item
    future: Any
    lost: int = 0
    silent: int = 0  # answers in a row without a sign of it


class Tasks(Generic[Item, Value]):
    """function(item) for items that are submitted to the cluster of a client, a bounded number at a time."""

    def __init__(self, client: Any, function: Callable[[Item], Value], items: Iterator[Item]) -> None:
        self.client = client
        self._function = function
        self._items = items
        self._under_way: dict[Any, Task[Item]] = {}  # by future
        self._done: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._mute = self._deserted = 0  # questions in a row: no answer, no worker

    def threads(self) -> int:
        """Of all workers; at least one, as they may be about to come."""
        try:
            workers: dict[str, int] = ask(self.client, self.client.scheduler.ncores)
        except UNREACHABLE:
            raise SureproxError("the scheduler of the cluster does not answer; is it gone?") from None
        return max(1, sum(workers.values()))

    def submit(self, count: int) -> list[Task[Item]]:
        """The next items, `count` of them or all that are left."""
        return [self._begun(Task(item, None)) for item in islice(self._items, count)]

    def done(self) -> Task[Item] | None:
        """The next task to be done; None if nothing is under way."""
        while self._under_way:
            try:
                future = self._done.get(timeout=EVERY)
            except queue.Empty:
                self._look()
                continue
            if future in self._under_way:  # not one that was given up meanwhile
                return self._under_way[future]
        return None

    def value(self, task: Task[Item]) -> Value:
        """function(item), from its worker to this process, which forgets the task."""
        from distributed.scheduler import KilledWorker

        try:
            while True:
                future = task.future
                fetched = asyncio.run_coroutine_threadsafe(_gathered(future), self.client.loop.asyncio_loop)
                while future is task.future:
                    try:
                        return fetched.result(EVERY)  # type: ignore[no-any-return]
                    except TimeoutError:
                        if fetched.done():  # meanwhile, or the error is one of the function
                            return fetched.result(0)  # type: ignore[no-any-return]
                        self._look()
                fetched.cancel()
        except CancelledError:
            raise SureproxError(f"the cluster was lost, or it cancelled a task; {KEPT}") from None
        except KilledWorker as error:
            raise WorkerLostError(
                f"a task was given up after its worker died {error.allowed_failures + 1} times; "
                "is it too large for the memory of a worker?"
            ) from None
        finally:
            if self._under_way.pop(task.future, None):
                task.future.release()

    def cancel(self) -> None:
        """All that is under way, as far as the cluster can be reached."""
        futures = list(self._under_way)
        self._under_way.clear()
        if futures:
            _cancel(self.client, futures)

    def _begun(self, task: Task[Item]) -> Task[Item]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sending large graph")  # problems of a generator are what is sent
            try:
                task.future = self.client.submit(self._function, task.item, pure=False)
            except Exception:
                if self.client.status in ("closing", "closed"):
                    raise SureproxError(f"the cluster was lost; {KEPT}") from None
                raise
        task.silent = 0
        self._under_way[task.future] = task
        task.future.add_done_callback(self._done.put)
        return task

    def _look(self) -> None:
        """Ask the cluster for signs of life; submit again what is lost, and give up what is beyond hope."""
        seconds = f"{EVERY * SILENCE:.0f} s"
        watched = [task for task in self._under_way.values() if task.future.status not in ("error", "cancelled")]
        finished = {task.future.key: task.future.status == "finished" for task in watched}
        try:
            workers, alive = ask(self.client, lambda: _signs(self.client, finished), limit=4 * ANSWER)
            self._mute = 0
        except UNREACHABLE:
            self._mute += 1
            if self._mute >= SILENCE:
                raise SureproxError(f"the scheduler has not answered for {seconds}, is it gone? {KEPT}") from None
            return
        self._deserted = 0 if workers else self._deserted + 1
        if self._deserted >= SILENCE:
            raise SureproxError(f"the cluster has had no worker for {seconds}; start one; {KEPT}")
        if not workers:
            return
        for task in watched:
            task.silent = 0 if task.future.key in alive else task.silent + 1
            if task.silent >= SILENCE:
                task.lost += 1
                if task.lost > AGAIN:
                    raise SureproxError(
                        f"a task was lost {task.lost} times: no worker gave a sign of it in {seconds}; "
                        f"restart the cluster; {KEPT}"
                    )
                del self._under_way[task.future]
                _cancel(self.client, [task.future])
                self._begun(task)


def ask(client: Any, question: Callable[[], Awaitable[Value]], limit: float | None = None) -> Value:
    """Its answer, on the loop of the client; a TimeoutError, which is an OSError, after `limit` seconds."""

    async def answer() -> Value:
        return await question()

    return client.sync(answer, callback_timeout=limit or ANSWER)  # type: ignore[no-any-return]


def known(keys: Iterable[str], dask_worker: Any) -> list[str]:
    """On a worker: those of `keys` that it runs, or has in line behind another one that it runs."""
    tasks = dask_worker.state.tasks
    if not (dask_worker.state.executing or dask_worker.state.long_running):
        return []
    return [key for key in keys if key in tasks and tasks[key].state not in ("memory", "error", "released")]


async def _signs(client: Any, finished: dict[str, bool]) -> tuple[int, set[str]]:
    """The number of workers, and the keys of which the cluster shows a sign of life.

    It is one if a worker says that it works on the task; if the task is in line and a worker is busy, be it for others;
    if the result is there, the client knows (`finished`) and its worker answers.
    """
    states = await client.scheduler.get_task_status(keys=list(finished))
    processing = await client.scheduler.processing(workers=None)
    stored = [key for key, state in states.items() if state == "memory" and finished[key]]
    holders = await client.scheduler.who_has(keys=stored) if stored else {}
    ours = {address for address, keys in processing.items() if not finished.keys().isdisjoint(keys)}
    ours.update(address for addresses in holders.values() for address in addresses)
    asked = sorted(ours or processing)

    async def answer(address: str) -> list[str] | None:
        with contextlib.suppress(TimeoutError, OSError):
            keys = processing.get(address, [])
            run = client.run(known, keys, workers=[address], on_error="ignore", asynchronous=True)
            return (await asyncio.wait_for(run, ANSWER)).get(address)  # type: ignore[no-any-return]
        return None

    answers = dict(zip(asked, await asyncio.gather(*map(answer, asked)), strict=True))
    alive = {key for keys in answers.values() if keys for key in keys if key in finished}
    alive.update(key for key in stored if any(answers.get(address) is not None for address in holders[key]))
    if any(answers.values()):
        alive.update(key for key, state in states.items() if state in ("queued", "waiting", "no-worker"))
    return len(processing), alive


async def _gathered(future: Any) -> Any:
    return await future.client.gather(future, asynchronous=True)


def _cancel(client: Any, futures: list[Any]) -> None:
    with contextlib.suppress(Exception):  # then nobody is left who could be told
        ask(client, lambda: client.cancel(futures, asynchronous=True))
