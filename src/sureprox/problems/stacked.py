"""Several points of every instance evaluated together: they share each read of A."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.problems.penalties import Penalty
from sureprox.problems.problem import Problem
from sureprox.problems.smooth import LinearModel

# Multiples of the unit roundoff. ERROR times the norms of the terms exceeds the rounding error of a comparison (at most
# 0.12 of it was seen), VALUE_ERROR is the same for values of an unknown f; a move of relative size TRIVIAL or less
# tells nothing about the curvature of f; one of STILL or less is no move.
ERROR = 1
VALUE_ERROR = 8
TRIVIAL = 16
STILL = 8


@dataclass(frozen=True)
class Points:
    """Points x (B, K, n) and their images z under the affine map that f depends on (x + t itself if none is known)."""

    x: Tensor
    z: Tensor


@dataclass(frozen=True)
class Comparison:
    """What a step from `base` to `new` shows, each (B, K)."""

    above: Tensor  # F(new) - F(best), rounded up by the possible rounding error; infinite for lost points
    curvature: Tensor  # a lower bound on L: 2 [f(new) - f(base) - <grad f(base), new - base>] / |new - base|^2; NaN
    # for lost points
    move: Tensor  # |new - base| / |new|
    flat: Tensor | None = None  # bool: the curvature is at most L/2 beyond doubt; only for an f without known structure


def is_still(move: Tensor) -> Tensor:
    """Whether relative moves are nothing but rounding."""
    return move <= STILL * torch.finfo(move.dtype).eps


class Stacked:
    """K points for every instance of a problem. For f(x) = phi(A x) of this package every method reads A at most once.

    A user's own f and r are called K times instead.
    """

    def __init__(self, problem: Problem, count: int, operations: Operations = PLAIN) -> None:
        f = problem.f
        self.problem = problem
        self.operations = operations
        self.count = count
        self.knows_images = isinstance(f, LinearModel) and f.can_stack

    @cached_property
    def linear(self) -> LinearModel | None:
        """f for all points of an instance together; None where images are not known."""
        f = self.problem.f
        if not isinstance(f, LinearModel) or not self.knows_images:
            return None
        return f if self.count == 1 else f.stacked(self.count)

    @cached_property
    def r(self) -> Penalty | None:
        """The penalty for all points together; None where it takes one point at a time."""
        r = self.problem.r
        if not r.can_stack:
            return None
        return r if self.count == 1 else r.stacked(self.count)

    def prox(self, v: Tensor, step: Tensor) -> Tensor:
        """The proximal operator, v (B, K, n), step (B,)."""
        shift, y = self.problem.shift, self.centred(v)
        if self.r is not None:
            moved = self._rows(self.r.prox, y, step.unsqueeze(1).expand(-1, self.count).unsqueeze(2))
        else:
            r, column = self.problem.r, step.unsqueeze(1)
            moved = torch.stack([r.prox(part, column) for part in y.unbind(1)], 1)
        return moved if shift is None else moved - shift.unsqueeze(1)

    def proximal_step(self, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
        """prox_{s r}(x - s g), step s (B,)."""
        return self.prox(torch.addcmul(x, step.unsqueeze(1).unsqueeze(2), g, value=-1), step)

    def image(self, x: Tensor) -> Tensor:
        """z of x (B, K, n): (B, K, m), or (B, K, n) for an f without known structure."""
        y = self.centred(x)
        return y if self.linear is None else self._rows(self.linear.inner, y)

    def ahead(self, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Images z of x (B, K, n), those of x + momentum (x - x_before), and the gradients there.

        before (B, K, m): the images of x_before, momentum (B, K). Since images are affine, z of a combination is the
        combination of the z.
        """
        if self.operations.ahead is not None:
            found: tuple[Tensor, Tensor, Tensor] = self.operations.ahead(self, x, before, momentum)
            return found
        z, there = self.beyond(x, before, momentum)
        return z, there, self.grad(there)

    def beyond(self, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor]:
        """The first two results of `ahead`."""
        z = self.image(x)
        return z, torch.addcmul(z, momentum.unsqueeze(2), z - before)

    def look(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Images z of x (B, K, n), and the gradients there."""
        if self.operations.look is not None:
            found: tuple[Tensor, Tensor] = self.operations.look(self, x)
            return found
        z = self.image(x)
        return z, self.grad(z)

    def grad(self, z: Tensor) -> Tensor:
        """Gradients of f at the points with image z."""
        if self.linear is not None:
            return self._rows(self.linear.grad_at, z)
        return torch.stack([self.problem.f.grad(part) for part in z.unbind(1)], 1)

    def compare(self, new: Points, base: Points, g: Tensor, best: Points, L: Tensor) -> Comparison:
        """`new` (B, K) against the step's own `base` (B, K), gradients g there, and against `best` (B, 1)."""
        if self.operations.compare is not None:
            found: Comparison = self.operations.compare(self, new, base, g, best, L)
            return found
        with torch.no_grad():  # inside, where torch.compile can follow
            eps, tiny = torch.finfo(new.x.dtype).eps, torch.finfo(new.x.dtype).tiny
            length, step = _norm(new.x), _norm(new.x - base.x)
            flat = None
            if self.linear is not None:
                above, bend = self._linear_change(self.linear, new, base, g, best, L, length)
            else:
                above, bend, flat = self._plain_change(new, base, g, best, L)
            penalty = self._penalty_change(new.x, best.x)
            above = above + penalty + VALUE_ERROR * eps * penalty.abs()
            above = torch.where((above + length).abs() < torch.inf, above, torch.inf)
            move = step / length.clamp(min=tiny)
            return Comparison(above, torch.where(move <= TRIVIAL * eps, 0.0, bend / step.square()), move, flat)

    def _linear_change(
        self, f: LinearModel, new: Points, base: Points, g: Tensor, best: Points, L: Tensor, length: Tensor
    ) -> tuple[Tensor, Tensor]:
        """f(new) - f(best) = <g, new - best> + D(new, base) - D(best, base), D the Bregman divergence of phi.

        All terms are small when the three points are close, so digits survive that f itself does not have.
        """
        whole = self.problem.f  # f before it was stacked: its numbers per instance go with (B, K)
        assert isinstance(whole, LinearModel)
        eps, c = torch.finfo(g.dtype).eps, whole.steepness
        lead = new.x - best.x
        bent, bent_best = (self._rows(f.bregman, z - base.z, base.z) for z in (new.z, best.z))
        # |grad phi(z) - grad phi(at)| <= sqrt(2 c D(z, at)): by how much D changes with an error of z
        turn, turn_best = bent.sqrt() * (2 * c) ** 0.5, bent_best.sqrt() * (2 * c) ** 0.5
        spread = (L.unsqueeze(1) / c).sqrt()  # |A|, or more
        reach, size = spread * _norm(lead), _norm(base.z)
        if self.problem.shift is not None:
            length = length + _norm(self.centred(new.x))
        slope = whole.slope_bound(size)
        scale = size + slope / c + 2 * spread * length + reach  # what the errors of the images are relative to
        error = ERROR * eps * (slope * reach + (turn + turn_best) * scale)
        change = (g * lead).sum(2) + (bent - bent_best) + error
        return change, (turn - TRIVIAL * eps * c * scale).clamp(min=0).square() / c

    def _plain_change(
        self, new: Points, base: Points, g: Tensor, best: Points, L: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The same for an f of which nothing else is known: the smaller of two upper bounds on f(new) - f(best).

        One is the difference of the values, the other <g, new - best> + L/2 |new - base|^2, which has more digits for
        close points and holds where the curvature seen is at most L.
        """
        step, lead = new.x - base.x, new.x - best.x
        eps = torch.finfo(step.dtype).eps
        value, start = self._values(new.z), self._values(base.z)
        lowest = self.problem.f.value(best.z[:, 0]).unsqueeze(1)
        linear = (g * step).sum(2)
        doubt = VALUE_ERROR * eps * (value.abs() + start.abs() + linear.abs())
        rise = value - start - linear
        bend = 2 * (rise - doubt).clamp(min=0)
        above = value - lowest + VALUE_ERROR * eps * (value.abs() + lowest.abs())
        roof = L.unsqueeze(1) * step.square().sum(2)
        local = (g * lead).sum(2) + roof / 2
        known = torch.isfinite(start)  # else f is infinite at the base, and no gradient there bounds it elsewhere
        return torch.where(known & (bend <= roof) & (local < above), local, above), bend, 2 * (rise + doubt) <= roof / 2

    def _penalty_change(self, x: Tensor, best: Tensor) -> Tensor:
        y, origin = self.centred(x), self.centred(best)
        if self.r is not None:
            return self._rows(self.r.difference, y, origin.expand_as(y))
        return torch.stack([self.problem.r.difference(part, origin[:, 0]) for part in y.unbind(1)], 1)

    def _values(self, z: Tensor) -> Tensor:
        return torch.stack([self.problem.f.value(part) for part in z.unbind(1)], 1)

    def centred(self, x: Tensor) -> Tensor:
        return x if self.problem.shift is None else x + self.problem.shift.unsqueeze(1)

    def _rows(self, function: Callable[..., Tensor], *stacks: Tensor) -> Tensor:
        return self._per_point(function(*(stack.flatten(0, 1) for stack in stacks)))

    def _per_point(self, rows: Tensor) -> Tensor:
        return rows.reshape(-1, self.count, *rows.shape[1:])


def _norm(vectors: Tensor) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=2)
    return norm
