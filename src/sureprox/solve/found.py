"""Points found by polish or path that are lower than those of the iterations but whose certificates do not pass."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sureprox.guarantee.guaranteed import TRACKS
from sureprox.solve.solution import Solution
from sureprox.solve.stopping import Measurement


@dataclass(frozen=True)
class Found:
    """The lowest of these points, for each instance."""

    x: Tensor  # (B, n) in float64
    track: Tensor  # (B,) index into TRACKS
    objective: Tensor  # (B,) in float64, as the following two; infinite before the first offer
    gap: Tensor
    kkt: Tensor

    def offer(self, rows: Tensor, points: Tensor, seen: Measurement, wanted: Tensor, track: int) -> None:
        """Keep the `wanted` (R,) of `points` (R, n), of the instances `rows`, that are lower than those kept so far.

        `seen` was measured at the points. In place: points are measured when a run needs the most memory.
        """
        lower = wanted & torch.isfinite(points).all(1) & (seen.objective < self.objective[rows])
        index = lower.nonzero()[:, 0]
        here = rows[index]
        self.x.index_copy_(0, here, points[index])
        self.track.index_fill_(0, here, track)
        for mine, values in ((self.objective, seen.objective), (self.gap, seen.gap), (self.kkt, seen.kkt)):
            mine.index_copy_(0, here, values[index])

    def lower_than(self, x: Tensor, objective: Tensor, rows: Tensor) -> Tensor:
        """x (R, n) of the instances `rows`, with the points found here where they are lower than `objective` (R,)."""
        lower = self.objective[rows] < objective
        return torch.where(lower.unsqueeze(1), self.x[rows], x.double()) if bool(lower.any()) else x

    def preferred(self, solution: Solution, unsolved: Tensor) -> Solution:
        """`solution` with these points where they are lower, if `unsolved` (B,).

        F(x) - F* is then below the gap that was known before, too.
        """
        lower = unsolved & (self.objective < solution.objective)
        if not bool(lower.any()):
            return solution
        track = solution.track.copy()
        for i in lower.nonzero()[:, 0].tolist():
            track[i] = TRACKS[int(self.track[i])]
        return replace(
            solution,
            x=torch.where(lower.unsqueeze(1), self.x, solution.x.double()),
            objective=torch.where(lower, self.objective, solution.objective),
            gap=torch.where(lower, torch.minimum(self.gap, solution.gap), solution.gap),
            kkt=torch.where(lower, self.kkt, solution.kkt),
            track=track,
            refined=solution.refined | (lower if solution.x.dtype == torch.float32 else torch.zeros_like(lower)),
        )

    def select(self, index: Tensor) -> "Found":
        """Of the instances in `index`."""
        return Found(self.x[index], self.track[index], self.objective[index], self.gap[index], self.kkt[index])


def nothing_found(x: Tensor) -> Found:
    """Nothing yet, for instances with points like x (B, n)."""
    none = torch.full((3, len(x)), torch.inf, dtype=torch.float64, device=x.device)
    return Found(torch.zeros_like(x, dtype=torch.float64), torch.zeros_like(none[0], dtype=torch.int64), *none)
