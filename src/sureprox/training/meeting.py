"""How processes that torchrun may have started anew find each other.

After a restart torchrun's store still holds the addresses of the processes before, and who reads those waits for the
dead. So every meeting has a number of its own, and keys under that number only.
"""

import time
import uuid

from torch.distributed.distributed_c10d import PrefixStore, Store

from sureprox.base.errors import ConfigError

PATIENCE = 600.0  # seconds until the others are given up
PAUSE = 0.02


def fresh_store(store: Store, rank: int, size: int, patience: float = PATIENCE) -> Store:
    """A part of `store` that nobody but the `size` processes now alive has seen."""
    deadline = time.monotonic() + patience
    number = _lead(store, size, deadline) if rank == 0 else _follow(store, rank, deadline)
    return PrefixStore(f"sureprox/{number}", store)


def _lead(store: Store, size: int, deadline: float) -> int:
    """Count the meeting, and answer whoever greets until all are known to have read the answer.

    A greeting may be that of a process long dead; its successor overwrites it, and is answered in turn.
    """
    number = int(store.add("sureprox/meetings", 1))
    waiting = set(range(1, size))
    while waiting:
        for rank in sorted(waiting):
            if store.check([f"sureprox/{number}/here/{rank}"]):
                waiting.discard(rank)
            elif store.check([f"sureprox/greeting/{rank}"]):
                store.set(f"sureprox/answer/{rank}", f"{number} {store.get(f'sureprox/greeting/{rank}').decode()}")
        _wait(deadline, f"processes {', '.join(map(str, sorted(waiting)))} of {size} have")
    return number


def _follow(store: Store, rank: int, deadline: float) -> int:
    name = uuid.uuid4().hex
    store.set(f"sureprox/greeting/{rank}", name)
    answered = ""
    while answered != name:
        _wait(deadline, "process 0 has")
        if store.check([f"sureprox/answer/{rank}"]):
            number, answered = store.get(f"sureprox/answer/{rank}").decode().split()
    store.set(f"sureprox/{number}/here/{rank}", "yes")
    return int(number)


def _wait(deadline: float, who: str) -> None:
    if time.monotonic() > deadline:
        raise ConfigError(f"{who} not come to train together; start all processes with torchrun")
    time.sleep(PAUSE)
