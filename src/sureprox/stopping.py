"""When an instance is solved: measured in float64, for each instance alone, against its own scale."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property

import torch
from torch import Tensor

from sureprox.operations import PLAIN, Operations
from sureprox.problems import Problem
from sureprox.problems.batch import taken
from sureprox.problems.penalties import HasPenaltyDual
from sureprox.problems.problem import Certificate


@dataclass(frozen=True)
class Measurement:
    """What is known about a point of each instance; all float64, shape (B,) but for the gradient."""

    objective: Tensor
    gap: Tensor  # upper bound on F - F*; infinite where no duality gap is known
    kkt: Tensor  # distance of -grad f to the subdifferential of r, largest coordinate
    converged: Tensor  # bool
    grad: Tensor  # (B, n) of the smooth part

    def put(self, rows: Tensor, mask: Tensor, other: "Measurement") -> "Measurement":
        """As `put`, for everything that is known."""
        return self._mixed(other, lambda mine, theirs: put(mine, rows, mask, theirs))

    def where(self, mask: Tensor, other: "Measurement") -> "Measurement":
        """That of `other` where `mask` (B,) holds."""
        return self._mixed(other, lambda mine, theirs: torch.where(_column(mask, mine), theirs, mine))

    def _mixed(self, other: "Measurement", mix: Callable[[Tensor, Tensor], Tensor]) -> "Measurement":
        names = [field.name for field in fields(self)]
        return Measurement(*(mix(getattr(self, name), getattr(other, name)) for name in names))


def put(whole: Tensor, rows: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    """`whole` (B, ...) with `values` (R, ...) in those of its `rows` (R,), all different, that `mask` (R,) chooses.

    Rows as many as B are all of them, in order. On a GPU nothing waits for the device.
    """
    mixed = torch.where(_column(mask, whole), values.to(whole.dtype), taken(whole, rows))
    return mixed if len(rows) == len(whole) else whole.index_copy(0, rows, mixed)


def _column(mask: Tensor, like: Tensor) -> Tensor:
    """mask (R,) as a tensor of as many dimensions as `like` has."""
    return mask.view(-1, *[1] * (like.ndim - 1))


class StoppingRule:
    """Converged: gap <= tol * max(F - gap, floor * F_0), where F - gap <= F* and F_0 = F at the origin.

    So (F - F*)/F* <= tol, except where F* is smaller than floor * F_0: there F - F* <= tol floor F_0. The floor is tol
    itself by default.

    Where no duality gap is known, or where r is flat at the origin (lam = 0) or leaves a coordinate free, so that the
    gap says nothing, the rule is kkt <= tol * max_j |grad_j f(0)| instead (relative to the gradient at the start if
    that one is zero). No point is converged where F is infinite, outside the domain of r.

    `start`: what is known about x0, zero if it is not given.
    """

    def __init__(
        self,
        problem: Problem,
        x0: Tensor | None,
        tol: float,
        floor: float | None = None,
        operations: Operations = PLAIN,
    ) -> None:
        self.given = problem
        self.operations = operations
        self.tol = tol
        self.recorded = torch.is_grad_enabled()
        r, shape = problem.r.to(dtype=torch.float64), (problem.batch, problem.n)
        zero = torch.zeros(shape, dtype=torch.float64, device=problem.device)
        at_origin = self._certificate(zero if problem.shift is None else -problem.shift.double())
        at_start = at_origin
        if x0 is not None or problem.shift is not None:
            at_start = self._certificate(zero if x0 is None else x0.detach().double())
        self.floor = (tol if floor is None else floor) * at_origin.objective
        steepest = at_origin.grad.abs().amax(1)
        self.gradient = torch.where(steepest > 0, steepest, at_start.grad.abs().amax(1))
        low, high = r.subdiff(zero)
        self.by_gap = ((high - low).amax(1) > 0) & problem.has_duality_gap
        if isinstance(r, HasPenaltyDual):
            # a coordinate that r leaves free allows no dual point but zero
            self.by_gap &= r.dual_range(torch.ones_like(low))[1] > 0
        self.start = self._judged(at_start)

    @cached_property
    def problem(self) -> Problem:
        """In float64, on the graph of the given one if gradients were enabled when the rule was made.

        The first to ask for it is often a measurement, which records nothing itself.
        """
        if self.given.dtype == torch.float64:
            return self.given
        with torch.set_grad_enabled(self.recorded):
            return self.given.to(dtype=torch.float64)

    @torch.no_grad()
    def _certificate(self, x: Tensor) -> Certificate:
        if self.operations.certificate is None:
            return self.problem.certificate(x)
        found: Certificate = self.operations.certificate(self.given, x)
        return found

    def measure(self, x: Tensor) -> Measurement:
        return self._judged(self._certificate(x.detach().double()))

    def _judged(self, seen: Certificate) -> Measurement:
        small_gap = seen.gap <= self.tol * torch.maximum(seen.objective - seen.gap, self.floor)
        small_kkt = seen.kkt <= self.tol * self.gradient
        converged = torch.where(self.by_gap, small_gap, small_kkt) & torch.isfinite(seen.objective)
        return Measurement(seen.objective, seen.gap, seen.kkt, converged, seen.grad)

    def select(self, index: Tensor) -> "StoppingRule":
        part = object.__new__(StoppingRule)
        part.given = self.given.select(index)
        if "problem" in vars(self) and self.problem is not self.given:
            part.problem = self.problem.select(index)
        part.tol, part.recorded, part.operations = self.tol, self.recorded, self.operations
        part.floor, part.gradient = self.floor[index], self.gradient[index]
        part.by_gap = self.by_gap[index]
        return part
