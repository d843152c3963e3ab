"""When an instance is solved: measured in float64, for each instance alone, against its own scale."""

from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars
from sureprox.problems import Problem
from sureprox.problems.forms import value_at_zero
from sureprox.problems.free import free_gap, has_free_gap
from sureprox.problems.own_penalty import require_separable
from sureprox.problems.penalty import HasLooseCoordinates, HasPenaltyDual, Penalty
from sureprox.problems.problem import Certificate
from sureprox.problems.separable import is_separable

LEAST = 1e-290  # below, a gap of squares may be nothing but underflow
ROUNDING = 64  # units of roundoff that count as zero


class Measurement(NamedTuple):
    """What is known about a point of each instance; all float64, shape (B,) but for the gradient; NaN counts as inf."""

    objective: Tensor
    gap: Tensor  # upper bound on F - F*; infinite where no duality gap is known
    kkt: Tensor  # distance of -grad f to the subdifferential of r, its largest coordinate
    converged: Tensor  # bool
    grad: Tensor  # (B, n) of the smooth part

    def put(self, rows: Tensor, mask: Tensor, other: "Measurement") -> "Measurement":
        """As `put`, for everything that is known."""
        return Measurement(*[put(mine, rows, mask, theirs) for mine, theirs in zip(self, other, strict=True)])

    def where(self, mask: Tensor, other: "Measurement") -> "Measurement":
        """That of `other` where `mask` (B,) holds."""
        return self.put(mask, mask, other)


def put(whole: Tensor, rows: Tensor, mask: Tensor, values: Tensor) -> Tensor:
    """`whole`, (B,) or (B, n), with `values`, (R,) or (R, n), in those of its `rows` that `mask` (R,) chooses.

    `rows` (R,) are all different; as many as B are all of them, in order. On a GPU nothing waits for the device.
    """
    all_rows = rows.shape[0] == whole.shape[0]
    chosen = mask if whole.ndim == 1 else mask.unsqueeze(1)
    mixed = torch.where(chosen, values.to(whole.dtype), whole if all_rows else whole[rows])
    return mixed if all_rows else whole.index_copy(0, rows, mixed)


class ByGap(NamedTuple):
    """Which instances are judged by their duality gap alone."""

    each: Tensor  # (B,) bool
    all: bool


def judged_by_gap(problem: Problem) -> ByGap:
    """Where a gap is known, and the penalty leaves no coordinate free: such a one allows no dual point but zero.

    It waits for a GPU: call it before much work is queued there.
    """
    if not problem.has_duality_gap:
        each = torch.zeros(problem.batch, dtype=torch.bool, device=problem.device)
        return ByGap(each, False)
    each = _scalable(problem.r, torch.ones(problem.batch, problem.n, dtype=problem.dtype, device=problem.device))
    return ByGap(each, bool(each.all()))


def _scalable(r: Penalty, one: Tensor) -> Tensor:
    """(B,) bool: -s g is in the domain of r* for every g and some s > 0."""
    if is_separable(r) or isinstance(r, HasLooseCoordinates):
        up, down = r.loose(one)
        return ~(up | down).any(1)
    assert isinstance(r, HasPenaltyDual)
    r, one = r.to(dtype=torch.float64), one.double()
    return (r.dual_range(one)[1] > 0) & (r.dual_range(-one)[1] > 0)


class StoppingRule:
    """Converged: gap <= tol * max(F - gap, floor * F_0), where F - gap <= F* and F_0 = F at the origin.

    So (F - F*)/F* <= tol, except where F* is smaller than floor * F_0: there F - F* <= tol floor F_0. The floor is tol
    itself by default. Where r leaves coordinates free (a weight or lam of zero), kkt <= tol * max_j |grad_j f(0)| is
    asked for too, and the gap is that of `free_gap`, which is computed only then.

    Where no duality gap is known, all that convexity gives is F - F* <= sum_j v_j |x_j - x*_j|, v_j being the distance
    of -grad_j f(x) to the subdifferential. With kappa_j the slope of r_j at the origin, so that
    r(x*) - r(0) >= sum_j kappa_j |x*_j|, the rule is

        v_j <= tol/2 kappa_j for all j with kappa_j > 0,   v_j <= tol |grad_j f(0)| for all others,
        and sum_j v_j |x_j| <= tol/2 max(|F|, floor |F_0|),

    none of which changes with the unit of a coordinate. If every kappa_j > 0, then F - F* <= tol max(|F|, floor |F_0|)
    follows for f >= 0 = r(0), and F - F* <= tol/2 [max(|F|, floor |F_0|) + r(x*) - r(0)] for any convex f and r. A
    coordinate with kappa_j = 0 adds v_j |x*_j|, which nothing bounds: for these the rule is a convention.

    (If the gradient at the origin is zero, gradient and F at the start stand in for those at the origin. In
    v_j <= tol |grad_j f(0)|, 64 roundings of the largest gradient count as zero.) An instance whose F is so small that
    squares underflow converges only by kkt = 0, one whose F is not finite never.
    """

    def __init__(
        self,
        problem: Problem,
        x0: Tensor | None,
        tol: float,
        floor: float | None = None,
        operations: Operations = PLAIN,
        by_gap: "ByGap | None" = None,
    ) -> None:
        self.given = problem
        self.operations = operations
        self.tol = tol
        self.recorded = torch.is_grad_enabled()
        require_separable(problem)
        self.by_gap, self.all_by_gap = by_gap or judged_by_gap(problem)
        self.free_gap = False
        scale = None
        if operations.solved is not None and self.all_by_gap and x0 is None:
            scale = value_at_zero(problem)
        if scale is None:
            scale = self._looked(x0)
        self.floor = (tol if floor is None else floor) * torch.where(torch.isfinite(scale), scale, 0.0)

    @torch.no_grad()
    def _looked(self, x0: Tensor | None) -> Scalars:
        """F at the origin, from what is known there and at the start."""
        given, shift = self.given, self.given.shift
        zero = torch.zeros(given.batch, given.n, dtype=torch.float64, device=given.device)
        origin = zero if shift is None else -shift.double()
        at_origin = self._certificate(origin)
        start, at_start = origin, at_origin
        if x0 is not None or shift is not None:
            start = zero if x0 is None else x0.detach().double()
            at_start = self._certificate(start)
        scale = at_origin.objective.abs()
        if not self.all_by_gap:  # else it is not needed, and as large as x
            steep = at_origin.grad.abs().amax(1, keepdim=True) > 0
            self.gradient = torch.where(steep, at_origin.grad, at_start.grad).abs()
            self.free_gap = has_free_gap(self.problem)
            slopes = given.r.to(dtype=torch.float64).least_slope(zero)
            self.slope = torch.where(torch.isfinite(scale).unsqueeze(1), slopes, 0.0)
            scale = torch.where(self.by_gap | steep.squeeze(1), scale, at_start.objective.abs())
        self._start = start, at_start
        return scale

    @cached_property
    def start(self) -> Measurement:
        """What is known about x0, zero if it is not given."""
        if "_start" not in vars(self):
            return self.measure(torch.zeros(self.given.batch, self.given.n, dtype=torch.float64))
        x, seen = vars(self).pop("_start")
        with torch.no_grad():
            return self.judged(x, seen)

    @cached_property
    def problem(self) -> Problem:
        """In float64, on the graph of the given one if gradients were enabled when the rule was made.

        It is often first needed by a measurement, in which gradients are disabled.
        """
        if self.given.dtype == torch.float64:
            return self.given
        with torch.set_grad_enabled(self.recorded):
            return self.given.to(dtype=torch.float64)

    def _certificate(self, x: Tensor) -> Certificate:
        if self.operations.certificate is None:
            return self.problem.certificate(x)
        found: Certificate = self.operations.certificate(self.given, x)
        return found

    def measure(self, x: Tensor) -> Measurement:
        with torch.set_grad_enabled(False):  # fewer calls in Python than no_grad
            x = x.detach().double()
            return self.judged(x, self._certificate(x))

    def judged(self, x: Tensor, seen: Certificate) -> Measurement:
        """`measure` of x in float64, where its certificate is known; for callers that keep no gradients."""
        gap, converged = seen.gap, self._small_gap(seen, seen.gap)
        if not self.all_by_gap:
            if self.free_gap:
                small = seen.kkt <= self.tol * self.gradient.amax(1)
                gap = self._with_free_gap(x, gap, small & ~self.by_gap)
                small = small & self._small_gap(seen, gap)
            else:
                small = self._small_residuals(x, seen)
            converged = torch.where(self.by_gap, converged, small)
        converged = converged & torch.isfinite(seen.objective)
        inf = torch.inf
        objective, gap, kkt = [of.nan_to_num(inf, inf, -inf) for of in (seen.objective, gap, seen.kkt)]
        return Measurement(objective, gap, kkt, converged, seen.grad)

    def _small_gap(self, seen: Certificate, gap: Tensor) -> Tensor:
        enough = self.tol * torch.maximum(seen.objective - gap, self.floor)
        return (gap <= enough) & ((enough >= LEAST) | (seen.kkt == 0))

    def _with_free_gap(self, x: Tensor, gap: Tensor, where: Tensor) -> Tensor:
        """`gap` with that of `free_gap` in those instances."""
        index = where.nonzero()[:, 0]
        return gap.index_copy(0, index, free_gap(self.problem.select(index), x[index])) if len(index) else gap

    def _small_residuals(self, x: Tensor, seen: Certificate) -> Tensor:
        """The rule where no gap is known."""
        v = self.problem.residuals(x, seen.grad)
        zero = ROUNDING * torch.finfo(v.dtype).eps * self.gradient.amax(1, keepdim=True)
        free = torch.maximum(self.tol * self.gradient, zero)
        small = (v <= torch.where(self.slope > 0, self.tol / 2 * self.slope, free)).all(1)
        moved = (v * self.problem.centred(x)).abs().sum(1)
        return small & (moved <= self.tol / 2 * torch.maximum(seen.objective.abs(), self.floor))

    def select(self, index: Tensor) -> "StoppingRule":
        part = object.__new__(StoppingRule)
        part.given = self.given.select(index)
        if "problem" in vars(self) and self.problem is not self.given:
            part.problem = self.problem.select(index)
        part.tol, part.recorded, part.operations = self.tol, self.recorded, self.operations
        part.all_by_gap, part.free_gap = self.all_by_gap, self.free_gap
        for name in ("floor", "by_gap", "gradient", "slope"):
            if name in vars(self):
                setattr(part, name, getattr(self, name)[index])
        return part
