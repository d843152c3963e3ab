"""Newton's method on the face: what finishes a solve for every loss and separable penalty of this package.

The face of a point holds the coordinates at which r is smooth; the others rest at a kink or a bound. With z = A x,
H = A' diag(phi''(z)) A and g = grad f(x), the model

    q(d) = <g, d> + 1/2 <d, H d> + r(x + d)

is minimised by the primal-dual active set method, which is Newton's on x = prox(x - grad q): on the face a linear
system, then coordinates that pass the end of their piece rest there, and those whose slope allows a descent move again.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, Pieces, Shape, form_of, pieces_of
from sureprox.problems.smooth import LinearModel
from sureprox.support.faces import RIDGE, SLACK, parts, width_of
from sureprox.support.group_face import group_minima

ROUNDS = 8  # faces that are tried one after the other
STEPS = 12  # models, one after the other, for a loss that is not quadratic
LENGTHS = 8  # powers of 1/2 of a step, of which the one with the lowest F is taken
SOFTEST, HARDEST = 1e-6, 1e3  # damping of a model: the first, and the last that is tried
HARDER, SOFTER = 30.0, 10.0  # how it grows after a step in vain, and falls after another one
ROUNDING = 1e-12  # relative to the largest slope, where there is no l1
FLAT = 4e-15  # relative: differences of F that are rounding


@torch.no_grad()
def newton_points(problem: Problem, x: Vectors) -> Vectors:
    """(B, n) points with F no higher than at x but for rounding, all in float64: a few Newton steps from x on the face.

    Squares are their own model, so that one step is exact once the face is right; for other losses each step is cut to
    the length, among 1, 1/2, 1/4, ..., that lowers F most. Where none does, as where H is flat in some direction or
    knows nothing of rows that are about to bend, damping times its diagonal is added to it (Levenberg and Marquardt).
    An instance whose system cannot be solved stays where it is.
    """
    f = problem.f
    assert isinstance(f, LinearModel)
    y = problem.centred(x)
    damping = torch.zeros_like(y[:, 0])
    live = torch.ones_like(damping, dtype=torch.bool)
    form = form_of(problem)
    minima = group_minima if form.penalty is Shape.GROUPS else _model_minima
    if form.loss in (Loss.SQUARES, Loss.WEIGHTED_SQUARES) and minima is _model_minima:
        return problem.uncentred(_model_minima(problem, y, damping, live))
    for _ in range(STEPS):
        new, fallen = _searched(problem, y, minima(problem, y, damping, live))
        still = (new == y).all(1)
        damping = torch.where(still, (damping * HARDER).clamp(min=SOFTEST), damping / SOFTER)
        live = live & torch.where(still, damping <= HARDEST, fallen)
        y = new
        if not bool(live.any()):
            break
    return problem.uncentred(y)


def _searched(problem: Problem, y: Vectors, there: Vectors) -> tuple[Vectors, Tensor]:
    """The point of the segment from y to `there` with the lowest F of those tried, y where none is lower.

    And whether F has fallen by more than rounding (B,).

    `there` itself is taken if F tells no difference, and nothing shorter then: near the solution x has more digits than
    F can judge, and rounding, which neighbours may change, must not choose.
    """
    f, r = problem.f, problem.r
    assert isinstance(f, LinearModel)
    z, move = f.inner(y), there - y
    turn = f.inner(there) - z
    first = f.value_at(z) + r.value(y)
    best, value = y, first
    for k in range(LENGTHS):
        t = 0.5**k
        point = there if k == 0 else y + t * move
        new = f.value_at(z + t * turn) + r.value(point)
        flat = FLAT * value.abs()
        lower = new <= value + flat if k == 0 else new < value - flat
        best, value = torch.where(lower.unsqueeze(1), point, best), torch.where(lower, new, value)
    return best, value < first - FLAT * first.abs()


def _model_minima(problem: Problem, y: Vectors, damping: Scalars, live: Tensor) -> Vectors:
    """The minima of the models with `damping` times the diagonal of H added to it, of the instances `live` (B,)."""
    f, pieces = problem.f, pieces_of(problem)
    assert isinstance(f, LinearModel)
    slope = f.grad(y)
    low, high = problem.r.subdiff(y)
    inside = low == high
    size = inside.sum(1)
    limit = problem.n if bool((pieces.l2 > 0).all()) else f.m
    width = torch.where(live & (size <= limit), width_of(size, problem.n), 0)
    beyond = torch.where(inside, torch.inf, torch.maximum(low + slope, -slope - high))
    ranked = beyond.nan_to_num(nan=-torch.inf).sort(dim=1, descending=True, stable=True).indices
    found = y.clone()
    for part, widest in parts(width, f.m):
        chosen = ranked[part, :widest]
        face = _face(problem, y, slope + pieces.l2 * y, inside, pieces, part, chosen, damping)
        point = face.minimum()
        good = torch.isfinite(point).all(1, keepdim=True)
        found[part] = torch.where(good, found[part].scatter(1, chosen, point), found[part])
    return found


def _face(
    problem: Problem,
    y: Vectors,
    g: Vectors,
    inside: Tensor,
    pieces: Pieces,
    part: Tensor,
    chosen: Tensor,
    damping: Scalars,
) -> "Face":
    """What is known about the candidates `chosen` (R, k) of the instances `part`."""
    f = problem.f.select(part)
    assert isinstance(f, LinearModel)

    def picked(value: Tensor) -> Tensor:
        return value.expand_as(y)[part].gather(1, chosen)

    root = f.hessian_root(y[part], f.map.columns(chosen))
    H = root.mT @ root
    l1, l2, low, high, x = (picked(value) for value in (pieces.l1, pieces.l2, pieces.low, pieces.high, y))
    diagonal = H.diagonal(dim1=1, dim2=2)
    top = diagonal.amax(1, keepdim=True)
    diagonal.add_(l2 + RIDGE * top + damping[part].unsqueeze(1) * diagonal)
    kink = l1 > 0
    return Face(
        H=H,
        x=x,
        g=picked(g),
        l1=l1,
        low=low,
        high=high,
        on=picked(inside),
        slope=l1 * torch.sign(x),
        least=torch.where(kink & (x > 0), low.clamp(min=0), low),
        most=torch.where(kink & (x < 0), high.clamp(max=0), high),
        rest=x,
    )


@dataclass(frozen=True)
class Face:
    """Candidates of R instances, all (R, k) but H, and where each is: on a piece of r, or at rest at its end."""

    H: Tensor  # (R, k, k), with l2
    x: Tensor
    g: Tensor  # gradient of f and of the square at x
    l1: Tensor
    low: Tensor
    high: Tensor
    on: Tensor  # bool: moves on a piece
    slope: Tensor  # of l1 |.| on the piece
    least: Tensor  # the piece
    most: Tensor
    rest: Tensor  # where it rests, if not on a piece

    def minimum(self) -> Tensor:
        """The minimum of the model; NaN where a system could not be solved."""
        face, there = self, self.x
        identity = torch.eye(self.x.shape[1], dtype=self.x.dtype, device=self.x.device)
        for _ in range(ROUNDS):
            there, slope = face._solved(identity)
            new = face._moved(there, slope)
            if torch.equal(new.on, face.on) and torch.equal(new.slope, face.slope):
                break
            face = new
        return torch.minimum(torch.maximum(there, self.low), self.high)

    def _solved(self, identity: Tensor) -> tuple[Tensor, Tensor]:
        """The point with the linear system on the face solved, cut to the pieces; and the slopes g + H d there."""
        still = torch.where(self.on, 0.0, self.rest - self.x)
        right = -(self.g + self.slope) - _times(self.H, still)
        matrix = torch.where(self.on.unsqueeze(1) & self.on.unsqueeze(2), self.H, identity)
        factor, failed = torch.linalg.cholesky_ex(matrix)
        d = torch.cholesky_solve(torch.where(self.on, right, 0.0).unsqueeze(2), factor).squeeze(2)
        d = torch.where(self.on, d, still).masked_fill((failed != 0).unsqueeze(1), torch.nan)
        return self.x + d, self.g + _times(self.H, d)

    def _moved(self, there: Tensor, slope: Tensor) -> "Face":
        """What passes the end of its piece rests there; what rests and can descend moves."""
        below, above = self.on & (there < self.least), self.on & (there > self.most)
        rest = torch.where(below, self.least, torch.where(above, self.most, self.rest))
        left = torch.where(self.rest <= self.low, -torch.inf, torch.where(self.rest > 0, self.l1, -self.l1))
        right = torch.where(self.rest >= self.high, torch.inf, torch.where(self.rest >= 0, self.l1, -self.l1))
        slack = SLACK * self.l1 + ROUNDING * self.g.abs().amax(1, keepdim=True)
        up, down = ~self.on & (-slope > right + slack), ~self.on & (-slope < left - slack)
        kink = self.l1 > 0
        next_up = torch.where(kink & (self.rest < 0), self.high.clamp(max=0), self.high)
        next_down = torch.where(kink & (self.rest > 0), self.low.clamp(min=0), self.low)
        return replace(
            self,
            on=(self.on & ~below & ~above) | up | down,
            rest=rest,
            slope=torch.where(up, right, torch.where(down, left, self.slope)),
            least=torch.where(up, self.rest, torch.where(down, next_down, self.least)),
            most=torch.where(down, self.rest, torch.where(up, next_up, self.most)),
        )


def _times(H: Tensor, v: Tensor) -> Tensor:
    return (H @ v.unsqueeze(2)).squeeze(2)
