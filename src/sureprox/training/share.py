"""Which part of every batch is whose, so that many processes compute what one would."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import ConfigError
from sureprox.optimizers import Optimizer, State
from sureprox.problems import Problem
from sureprox.training.team import Team


class Share:
    """The rows of one process in a batch of `total`.

    Everybody draws the whole batch from the same generator and keeps rows [rank B / size, (rank + 1) B / size); a mean
    over the batch is sum_r (b_r / B) mean_r, b_r rows of process r. A process alone has all rows, and nothing here
    changes a bit of what it does.
    """

    def __init__(self, team: Team, name: str, total: int) -> None:
        if total < team.size:
            raise ConfigError(f"{name} is {total}; {team.size} processes need at least {team.size}, one for each")
        self.team = team
        self.total = total
        self.first, self.end = (rank * total // team.size for rank in (team.rank, team.rank + 1))
        self.weight = (self.end - self.first) / total

    @property
    def size(self) -> int:
        return self.end - self.first

    def rows(self, tensor: Tensor) -> Tensor:
        return tensor[self.first : self.end]

    def index(self, device: torch.device) -> Tensor:
        return torch.arange(self.first, self.end, device=device)

    def part(self, problem: Problem) -> Problem:
        if self.team.alone:
            return problem
        if not problem.selectable:
            raise ConfigError(f"{problem!r} cannot be divided among {self.team.size} processes; train with one")
        return problem.select(self.index(problem.device))

    def begin(
        self,
        optimizer: Optimizer[Any],
        whole: Problem,
        mine: Problem,
        x0: Tensor,
        step_size: Tensor | None = None,
        **options: Any,
    ) -> State:
        """The states of the rows `mine` when the whole batch starts at x0; `step_size` (rows,), by default 1/L.

        The memory of a network is drawn for the batch as one, so the whole of it is begun; only L, the costly part,
        is computed for these rows alone.
        """
        state: State
        if self.team.alone:
            state = optimizer.init(whole, x0, step_size=step_size, **options)
            return state
        spread = torch.ones(self.total, dtype=whole.dtype, device=whole.device)
        self.rows(spread).copy_(mine.step_size() if step_size is None else step_size)
        state = optimizer.init(whole, x0, step_size=spread, **options)
        return state.select(self.index(whole.device))

    def mean(self, *means: Tensor) -> list[Tensor]:
        """Means over the batch from the means over these rows, all in one exchange."""
        if self.team.alone:
            return list(means)
        message = self.pack(means)
        self.team.sum_(message)
        return unpack(message, means)

    def pack(self, means: Sequence[Tensor]) -> Tensor:
        """One vector whose sum over the processes holds all means; float64, so that their number matters little."""
        return self.weight * torch.cat([value.detach().reshape(-1).double() for value in means])

    def gather(self, mine: Tensor) -> Tensor:
        """The whole of a tensor of which every process has its rows, bit by bit."""
        if self.team.alone:
            return mine
        own = mine.contiguous().view(torch.uint8).view(self.size, -1)
        whole = torch.zeros(self.total, own.shape[1], dtype=torch.uint8, device=mine.device)
        self.rows(whole).copy_(own)
        self.team.sum_(whole)
        return whole.view(mine.dtype).view(self.total, *mine.shape[1:])


def unpack(message: Tensor, like: Sequence[Tensor]) -> list[Tensor]:
    """The parts of a message, in the shapes and precisions of `like`."""
    parts = message.split([value.numel() for value in like])
    return [part.view(value.shape).to(value.dtype) for part, value in zip(parts, like, strict=True)]
