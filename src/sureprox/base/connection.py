"""Clients of Dask, an extra (`sureprox[dask]`): of a cluster of somebody's own, or of processes on this machine."""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

from sureprox.base.errors import InputError, SureproxError
from sureprox.base.machine import cores

LOOPBACK = "127.0.0.1"
LIMIT = 120.0  # seconds in which a thread begins, or a cluster of this machine answers, however busy that is
ATTEMPTS = 3  # to start a cluster
# A terminal sends Ctrl-C to the workers too, but it is this process that ends them, once their tasks have had a moment.
DEAF = "import signal\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
# Dask lets its workers give every large array back to the system at once, for which new pages have to be made at each
# step: it more than doubled the time of a shard. So they keep up to 64 MiB, as processes do that nobody told otherwise.
KEEP = {"MALLOC_TRIM_THRESHOLD_": 2**26, "MALLOC_MMAP_THRESHOLD_": 2**25}


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
            "run: pip install dask distributed cryptography"
        ) from None
    if isinstance(cluster, distributed.Client):
        yield cluster
        return
    if not isinstance(cluster, str) and not hasattr(cluster, "scheduler_address"):
        raise InputError(f"cluster is a {type(cluster).__name__}; pass 'local', an address or a Dask client")
    with contextlib.ExitStack() as opened:
        loop = opened.enter_context(event_loop()) if isinstance(cluster, str) else None  # else it has its own
        if cluster == "local":
            yield opened.enter_context(_local(loop))
            return
        try:
            client = _client(cluster, loop)
        except (OSError, RuntimeError, TypeError, ValueError) as error:
            name = repr(cluster) if isinstance(cluster, str) else f"of type {type(cluster).__name__}"
            raise InputError(f"cluster {name} cannot be reached: {_line(error)}") from None
        opened.callback(_close, client)
        yield client


@contextlib.contextmanager
def event_loop() -> Iterator[Any]:
    """A loop in a thread of its own, for the `loop` of a Dask client or cluster.

    Dask gives the thread that it starts itself 10 seconds, which is too little on a busy machine.
    """
    from tornado.ioloop import IOLoop

    begun: Future[tuple[Any, asyncio.Event]] = Future()

    async def run() -> None:
        stop = asyncio.Event()
        if begun.set_running_or_notify_cancel():
            begun.set_result((IOLoop.current(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True, name="sureprox cluster")
    thread.start()
    try:
        loop, stop = begun.result(LIMIT)
    except TimeoutError:
        if begun.cancel():
            raise SureproxError(
                f"a thread for the cluster has not begun within {LIMIT:.0f} s; is this machine too busy? call again"
            ) from None
        loop, stop = begun.result(LIMIT)  # it has, meanwhile
    try:
        yield loop
    finally:
        loop.add_callback(stop.set)
        thread.join(10)


def _client(cluster: Any, loop: Any, timeout: float | None = None) -> Any:
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

    limit = {} if timeout is None else {"timeout": timeout}
    return Client(cluster, loop=loop, set_as_default=False, **limit)


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:160] or type(error).__name__


@contextlib.contextmanager
def _local(loop: Any) -> Iterator[Any]:
    """The client of processes on this machine that nobody else can give tasks to.

    They listen to this machine alone, and only to who has a certificate that is made for them and kept in memory. Dask
    opens a port for web pages on the scheduler and on each worker, whether there are any or not: there are none.
    """
    import dask

    settings = {
        "distributed.deploy.lost-worker-timeout": f"{LIMIT}s",  # in which one that died is started anew
        "distributed.nanny.pre-spawn-environ": dask.config.get("distributed.nanny.pre-spawn-environ", {}) | KEEP,
        "distributed.scheduler.http.routes": [],
        "distributed.worker.http.routes": [],
    }
    with contextlib.ExitStack() as opened, dask.config.set(settings):
        for attempt in range(1, ATTEMPTS + 1):
            try:
                local = _processes(loop)
                opened.callback(_close, local)
                client = _client(local, loop, LIMIT)
            except (OSError, RuntimeError) as error:
                opened.close()
                if attempt == ATTEMPTS:
                    raise SureproxError(
                        f"no cluster could be started on this machine in {ATTEMPTS} attempts ({_line(error)}); "
                        "is it too busy? call again"
                    ) from None
            else:
                break
        opened.callback(_close, client)
        yield client


def _processes(loop: Any) -> Any:
    import distributed

    return distributed.LocalCluster(
        n_workers=cores(),
        threads_per_worker=1,
        host=LOOPBACK,
        security=True,
        scheduler_kwargs={"dashboard": False, "dashboard_address": f"{LOOPBACK}:0"},
        memory_limit=None,  # chunks are sized to fit; Dask would stop and move work on its own estimate
        silence_logs=logging.CRITICAL + 1,  # what there is to say is said in one line here
        preload=[DEAF],
        death_timeout=LIMIT,  # else a worker that does not come is waited for without an end
        loop=loop,
    )


def _close(opened: Any) -> None:
    """A client or a cluster, within a minute; the processes of a cluster that hangs end with this one."""
    with contextlib.suppress(TimeoutError):
        opened.close(timeout=60)
