"""The processes that train together, as torchrun starts them; a process alone is a team of one."""

import atexit
import hashlib
import os
from collections.abc import Callable, Mapping
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor

from sureprox.base.errors import ConfigError, TrainingError

# What was exchanged last. The threads of gloo let go of it a little after the call that sent it; were they the last
# to hold it, they would have to ask the interpreter, and a process that is just ending would be aborted.
_last: list[Tensor] = []


class Team:
    """`size` processes, of which the one of rank 0 leads: it alone reads and writes files and tells how it goes.

    All of them must call the same methods in the same order. Alone, none of them does anything.
    """

    def __init__(self, rank: int = 0, size: int = 1, device: torch.device | str = "cpu") -> None:
        self.rank = rank
        self.size = size
        self.device = torch.device(device)
        self.calls = 0  # exchanges so far

    @property
    def alone(self) -> bool:
        return self.size == 1

    @property
    def leads(self) -> bool:
        return self.rank == 0

    def sum_(self, values: Tensor) -> None:
        """In place of `values` their sum over all processes: the same bits everywhere, NaN where anybody has one."""
        if not self.alone:
            self._exchange(dist.all_reduce, values)

    def broadcast_(self, values: Tensor) -> None:
        """In place of `values` those of the leader."""
        if not self.alone:
            self._exchange(partial(dist.broadcast, src=0), values)

    def any(self, flag: bool) -> bool:
        """Whether `flag` holds anywhere. Nobody goes on before all have come here."""
        if self.alone:
            return flag
        count = torch.tensor(int(flag), device=self.device)
        self.sum_(count)
        return bool(count)

    def bytes_of_leader(self, read: Callable[[], bytes | None]) -> bytes | None:
        """What `read` gives where the leader is; it is not called elsewhere."""
        if self.alone:
            return read()
        data = read() if self.leads else None
        length = torch.tensor(-1 if data is None else len(data), device=self.device)
        self.broadcast_(length)
        if int(length) < 0:
            return None
        content = torch.empty(int(length), dtype=torch.uint8)
        if data is not None:
            content.copy_(torch.frombuffer(bytearray(data), dtype=torch.uint8))
        content = content.to(self.device)
        self.broadcast_(content)
        return content.cpu().numpy().tobytes()

    def check_same(self, what: str, value: object) -> None:
        """Refuse to begin where the processes were told different things."""
        if self.alone:
            return
        digest = hashlib.sha256(repr(value).encode()).digest()
        mine = torch.frombuffer(bytearray(digest), dtype=torch.uint8).to(self.device)
        first = mine.clone()
        self.broadcast_(first)
        if self.any(not torch.equal(mine, first)):
            raise ConfigError(f"the {self.size} processes have different {what}; give all of them the same command")

    def _exchange(self, work: Callable[[Tensor], object], values: Tensor) -> None:
        self.calls += 1
        _last[:] = [values]
        try:
            work(values)
        except RuntimeError as error:  # what gloo and NCCL raise when the other end has gone
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise TrainingError(
                f"process {self.rank} of {self.size} has lost another one ({reason}); "
                "the same command goes on from the last checkpoint"
            ) from None


def launched(environment: Mapping[str, str] = os.environ) -> tuple[int, int, int]:
    """(rank, number of processes, rank on this machine) as torchrun tells them; (0, 1, 0) without it."""
    if "RANK" not in environment or "WORLD_SIZE" not in environment:
        return 0, 1, 0
    try:
        return int(environment["RANK"]), int(environment["WORLD_SIZE"]), int(environment.get("LOCAL_RANK", "0"))
    except ValueError:
        raise ConfigError(
            "RANK, WORLD_SIZE and LOCAL_RANK in the environment are not all whole numbers; start with torchrun"
        ) from None


def join(device: torch.device) -> Team:
    """The team of this process. Processes are connected once, by NCCL on GPUs and gloo on CPUs.

    A group that the caller has made beforehand (`torch.distributed.init_process_group`) is used as it is.
    """
    if not dist.is_available():  # so is PyTorch built for some systems
        return Team()
    from torch.distributed.rendezvous import rendezvous

    from sureprox.training.meeting import fresh_store

    rank, size, _ = launched()
    if not dist.is_initialized():
        if size == 1:
            return Team()
        on_gpu = device.type == "cuda"
        if on_gpu:
            torch.cuda.set_device(device)
        try:
            store = fresh_store(next(rendezvous("env://"))[0], rank, size)
            dist.init_process_group(
                "nccl" if on_gpu else "gloo",
                store=store,
                rank=rank,
                world_size=size,
                device_id=device if on_gpu else None,
            )
        except ConfigError:
            raise
        except (RuntimeError, ValueError) as error:
            reason = str(error).splitlines()[0]
            raise ConfigError(f"process {rank} of {size} cannot join the others: {reason}; use torchrun") from None
        atexit.register(_leave)
    return Team(dist.get_rank(), dist.get_world_size(), device)


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()
