"""What a solve returns, and what its callback is given."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.guarantee.guaranteed import Track
from sureprox.problems.checks import numbers
from sureprox.solve.described import described
from sureprox.support.screening import Screening

V = TypeVar("V", Tensor, npt.NDArray[Any])
RECORDS = ("objective", "gap", "kkt", "step_norm")


class Status(StrEnum):
    """How the run of one instance ended."""

    CONVERGED = "converged"  # its certificate is below the tolerance; nothing else is called converged
    ITERATION_LIMIT = "iteration_limit"
    DIVERGED = "diverged"  # a point or its objective was not finite, x being the last one that was; or the precision
    # cannot hold 1/L, and x is x0


@dataclass(frozen=True)
class Progress:
    """What the callback is given at each check."""

    k: int
    max_iter: int
    unfinished: int
    worst_gap: float  # largest duality gap among the unfinished instances


@dataclass(frozen=True)
class Solution:
    """Per instance: x (B, n); objective, gap, kkt (B,) in float64; iterations (B,); status (B,) of `Status`.

    history[name] has shape (K + 1, B): row k describes the point that would be returned after k iterations.

    What a certified run adds: F(x) - F* <= rate (|x_0 - x*|^2 - credit), the rate being infinite without the guarantee,
    where x_0 is the start, or, if F is infinite there, its proximal point, which is `moved` away from it;
    `track` (B,) of `Track`, which method found x; how often the optimizer was pulled back; in how many iterations L
    proved too small; and whether the instance was finished in float64, by iterations or by a polished point, because
    float32 could not reach the tolerance: x is then float64.

    For an instance that has not converged x is the lowest point seen by any method, and gap the smallest bound proved.

    `derivative_error` (B,), after `solve(differentiable="implicit")`: an estimate, from the gap, of the relative error
    of the derivatives of x; infinite where it is not certified at which kinks and bounds the solution is.

    `rigorous`: `gap` is the bound of `solve(rigorous=True)`, with its own rounding.

    `engine`: what computed the steps, or the points without steps: "plain", "kernels" or "compiled". `guarantee`: the
    one the optimizer ran with, "tracks", "audit", "cheap" or "none".

    `grid`: (B,), or (R, K) for R responses and K values of lam; `unflatten` gives what is (B, ...) these axes.

    `screening`: what `inactive`, `active` and `support_certified` are computed from, when one of them is first read. It
    holds the problem until then; without it nothing is proved.
    """

    x: Tensor
    objective: Tensor
    gap: Tensor
    kkt: Tensor
    iterations: Tensor
    status: npt.NDArray[np.object_]
    history: dict[str, Tensor]
    rate: Tensor
    credit: Tensor
    moved: Tensor
    track: npt.NDArray[np.object_]
    pull_backs: Tensor
    rejected: Tensor
    refined: Tensor
    engine: str = "plain"
    guarantee: str = "none"
    grid: tuple[int, ...] = ()
    derivative_error: Tensor | None = None
    rigorous: bool = False
    screening: Screening | None = field(default=None, repr=False, compare=False)

    def __repr__(self) -> str:
        return described(self)

    def unflatten(self, values: V) -> V:
        """`values` (B, ...), such as `x` or `status`, on the axes of `grid`: (R, K, ...)."""
        if len(values) != len(self.status):
            raise InputError(f"values has length {len(values)}; pass what has an entry for each of {len(self.status)}")
        shape = (*(self.grid or (len(values),)), *values.shape[1:])
        return values.reshape(shape)

    @property
    def inactive(self) -> Tensor:
        """(B, n) bool: the coordinate is proved to be zero at every solution, by `gap`, whatever x has there.

        Where the problem is shifted by t, x + t is zero. For losses and penalties of this package that have a duality
        gap; False elsewhere. Theorem and rounding: `sureprox.support.screening`.
        """
        return torch.zeros_like(self.x, dtype=torch.bool) if self.screening is None else self.screening.proved.inactive

    @property
    def active(self) -> Tensor:
        """(B, n) bool: the coordinate is proved not to be zero at every solution, by `gap`.

        0 is out of its bounds, or it is farther from zero than l2, or the curvature of f on the coordinates that are
        not proved to be at rest, allows for. See `inactive`.
        """
        return torch.zeros_like(self.x, dtype=torch.bool) if self.screening is None else self.screening.proved.active

    @property
    def support_certified(self) -> Tensor:
        """(B,) bool: it is proved that every solution is zero exactly where x is (x + t, if shifted by t).

        Each zero of x is then `inactive`, and each other coordinate `active`; the curvature of f tells that only where
        the columns of A on the support are independent.
        """
        return torch.zeros_like(self.gap, dtype=torch.bool) if self.screening is None else self.screening.proved.support

    @property
    def converged(self) -> Tensor:
        """(B,) bool."""
        return torch.tensor([s is Status.CONVERGED for s in self.status])

    def bound(self, radius: float | Tensor) -> Tensor:
        """A bound on F(x) - F*, by the gap or by the rate, for a `radius` >= |x_0 - x*|, a number or (B,).

        x_0 is the start that was given, in the domain of r or not.
        """
        given = numbers("radius", radius, self.rate.dtype, self.rate.device)
        if given.shape not in ((), self.rate.shape) or not bool((given >= 0).all()):
            got = f"shape {tuple(given.shape)}" if given.ndim else f"value {float(given)}"
            raise InputError(f"radius has {got}; pass a number >= 0, or one for each of {len(self.rate)} instances")
        by_rate = self.rate * ((given + self.moved).square() - self.credit).clamp(min=0)
        return torch.where(torch.isinf(self.rate), self.gap, torch.minimum(self.gap, by_rate))

    def finished_by(self, more: "Solution", mask: Tensor) -> "Solution":
        """This solution, its instances in `mask` (B,) taken further by `more`, which holds these or the whole batch."""
        index = mask.nonzero()[:, 0]
        rows = torch.arange(len(index), device=index.device) if len(more.iterations) == len(index) else index

        def merged(mine: Tensor, theirs: Tensor) -> Tensor:
            return mine.to(theirs.dtype).index_copy(0, index, theirs[rows])

        iterations = self.iterations.index_add(0, index, more.iterations[rows])
        stop = int(iterations.max()) + 1
        status, track = self.status.copy(), self.track.copy()
        for i, row in zip(index.tolist(), rows.tolist(), strict=True):
            status[i] = more.status[row]
            track[i] = track[i] if more.track[row] is Track.START else more.track[row]
        return replace(
            self,
            x=merged(self.x, more.x),
            objective=merged(self.objective, more.objective),
            gap=merged(self.gap, more.gap),
            kkt=merged(self.kkt, more.kkt),
            iterations=iterations,
            status=status,
            history={
                name: _continued(values, more.history[name][:, rows], index, self.iterations, name)[:stop]
                for name, values in self.history.items()
            },
            track=track,
            pull_backs=self.pull_backs.index_add(0, index, more.pull_backs[rows]),
            rejected=self.rejected.index_add(0, index, more.rejected[rows]),
            refined=self.refined | mask,
        )


def _continued(values: Tensor, more: Tensor, index: Tensor, iterations: Tensor, name: str) -> Tensor:
    """Column i of `values` goes on with its column of `more` from row iterations[i] on, then with its last value."""
    length = max(len(values), *(int(iterations[i]) + len(more) for i in index))
    last = torch.zeros_like(values[-1:]) if name == "step_norm" else values[-1:]
    joined = torch.cat([values, last.expand(length - len(values), -1)])
    for column, i in enumerate(index.tolist()):
        first = int(iterations[i]) + 1
        joined[first : first + len(more) - 1, i] = more[1:, column]
        joined[first + len(more) - 1 :, i] = 0.0 if name == "step_norm" else more[-1, column]
    return joined


def named(codes: Tensor, names: tuple[StrEnum, ...]) -> npt.NDArray[np.object_]:
    """(B,) members of an enumeration from their indices."""
    made = np.empty(len(codes), dtype=object)
    made[:] = [names[code] for code in codes.tolist()]
    return made
