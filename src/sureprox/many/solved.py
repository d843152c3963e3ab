"""Results of some of the problems."""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sureprox.solve.solution import Solution, Status


@dataclass(frozen=True)
class Solved:
    """Problems first, first + 1, ... of the source: names as in `Solution`, on the CPU."""

    index: int  # of the shard
    first: int
    x: Tensor
    objective: Tensor
    gap: Tensor
    kkt: Tensor
    iterations: Tensor
    status: npt.NDArray[np.object_]

    def __len__(self) -> int:
        return len(self.iterations)

    @property
    def converged(self) -> Tensor:
        """(B,) bool."""
        return torch.tensor([status is Status.CONVERGED for status in self.status])

    @property
    def counts(self) -> Counter[str]:
        return Counter(str(status) for status in self.status)


def joined(solutions: list[Solution], index: int) -> Solved:
    """The solutions of successive chunks as one."""
    tensors = {
        name: torch.cat([getattr(solution, name).detach().cpu() for solution in solutions])
        for name in ("objective", "gap", "kkt", "iterations")
    }
    x = [solution.x.detach().cpu() for solution in solutions]
    finest = torch.float64 if any(part.dtype == torch.float64 for part in x) else x[0].dtype
    return Solved(
        index=index,
        first=0,
        x=torch.cat([part.to(finest) for part in x]),
        status=np.concatenate([solution.status for solution in solutions]),
        **tensors,
    )


def largest_relative(gap: Tensor, objective: Tensor) -> float:
    """max gap/F, infinite where no gap is known."""
    scale = objective.abs()
    relative = torch.where(scale > 0, gap / scale, gap)
    return float(torch.nan_to_num(relative, nan=float("inf"), posinf=float("inf")).max())
