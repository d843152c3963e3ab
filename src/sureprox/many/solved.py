"""Results of some of the problems."""

from collections import Counter
from collections.abc import Sequence
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


def joined(parts: Sequence[Solution | Solved], index: int, first: int = 0) -> Solved:
    """Successive parts as one, in the finest precision of any of them."""
    tensors = {
        name: torch.cat([getattr(part, name).detach().cpu() for part in parts])
        for name in ("objective", "gap", "kkt", "iterations")
    }
    finest = torch.float64 if any(part.x.dtype == torch.float64 for part in parts) else parts[0].x.dtype
    x = torch.cat([part.x.detach().cpu().to(finest) for part in parts])
    return Solved(index=index, first=first, x=x, status=np.concatenate([part.status for part in parts]), **tensors)


def largest_relative(gap: Tensor, objective: Tensor) -> float:
    """max gap/F, infinite where no gap is known."""
    scale = objective.abs()
    relative = torch.where(scale > 0, gap / scale, gap)
    return float(torch.nan_to_num(relative, nan=float("inf"), posinf=float("inf")).max())
