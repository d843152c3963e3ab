"""Tasks on a local cluster whose scheduler lives in this process, while the system clock goes back by an hour.

    PYTHONPATH=tests python tests/faults/cluster_while_clock_jumps.py

Prints JSON: the results of the tasks, or the error; then the same for tasks that are given to the cluster afterwards.
"""

import json
import time
from typing import Any

true, offset = time.time, [0.0]
time.time = lambda: true() + offset[0]  # before Dask takes its own reference, so that all see the same clock

import distributed

from sureprox.base import tasks
from sureprox.base.cluster import map_on
from sureprox.base.connection import event_loop
from sureprox.base.errors import SureproxError

COUNT = 20


def numbers() -> Any:
    """The clock jumps while tasks and results are sent."""
    for number in range(COUNT):
        if number == COUNT // 2:
            offset[0] = -3600.0
        yield number


def outcome(client: Any, items: Any) -> Any:
    try:
        return list(map_on(client, abs, items))
    except SureproxError as error:
        return str(error)


def main() -> None:
    tasks.EVERY, tasks.SILENCE = 0.1, 5
    threads = {"processes": False, "protocol": "tcp://", "threads_per_worker": 1, "silence_logs": 60}
    threads["dashboard_address"] = "127.0.0.1:0"
    with (
        event_loop() as loop,
        distributed.LocalCluster(n_workers=1, **threads, loop=loop) as local,
        distributed.Client(local, timeout=120) as client,
    ):
        print(json.dumps([outcome(client, numbers()), outcome(client, range(COUNT))]))


if __name__ == "__main__":
    main()
