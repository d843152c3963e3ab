"""What a duality gap proves about every solution: which coordinates are zero, and where the support is known.

Let f(x) = sum_i o_i phi_i(z_i), z affine in x, and let G >= F(x) - F*. For any solution x* with -g* in dr(x*),

    F(x) - F* = [f(x) - f(x*) - <g*, x - x*>] + [r(x) - r(x*) + <g*, x - x*>],

two terms that are not negative. The first is sum_i o_i D_i, D_i = phi_i(z_i) + phi_i*(u*_i) - u*_i z_i, so that
D_i <= G / o_i, which bounds phi_i'' between z_i and z*_i: least_i <= phi_i'' <= most_i (`curvature_within`). Then

    D_i >= (phi_i'(z_i) - u*_i)^2 / (2 most_i),    D_i >= least_i / 2 (z_i - z*_i)^2,

and with w_i the weight of row i, g = A' diag(w) u up to signs, Cauchy's inequality gives

    |g_j - g*_j| <= sqrt(2 G sum_i w_i most_i a_ij^2)                                                    (1)
    (x - x*)' H (x - x*) <= 2 G,   H = A' diag(w_i least_i) A + diag(l2).                                (2)

(1) is a sphere around the slopes at x itself: no feasible dual point is needed, and any proof of G will do.

`rest`: x*_j = x_j, because (1) leaves -g*_j strictly inside the subdifferential of r_j at x_j: at a kink or a bound.
`inactive`: the penalty says which x*_j must be 0 for all g* that (1) allows. With l1, |g_j| + (1) < l1_j; with a bound
at 0 one side of that; with groups |S(|g_g| + (1), l1)| < lam w_g.

Let S be the coordinates that are not at `rest`: outside of S, x - x* is zero, so that H_SS will do in (2), and

    |x_j - x*_j| <= `distance`_j, the smaller one of sqrt(2 G / l2_j) and sqrt(2 G (H_SS^-1)_jj), j in S.     (3)

`active`: x*_j is not 0, since 0 is out of its bounds, or |x_j| is more than (3).
`support`: every coordinate of x that is zero is inactive, and every other one active: all solutions have its support.
`face`: every coordinate is at rest, or farther than (3) from all kinks and bounds of r_j: x is on the piece of r on
which the solution is. H_SS is then positive definite, and the solution unique.
`change`: with most_i in place of least_i H_SS grows to M, and the Hessian of F on S lies between both, at x, at x* and
between. It is tr(H_SS^-1 (M - H_SS)), no less than the relative difference of any two of them in the norm of H_SS, plus
sqrt(2 G) relative to the length of u in the metric of (1), which is how far the slopes are from those at x*.

Zero means that x + t is zero where the problem is shifted by t. All is computed in float64, for the numbers that the
problem holds. Rounding is counted to first order: (m + n) roundings in every product, relative to the norms of its
factors, of what is added up in G, and of each entry of H_SS. It is no interval arithmetic.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import can_screen
from sureprox.problems.free import Loss

CHUNK = 2**22  # entries of A, or of gathered columns, held at a time
LARGEST = 2**24  # entries of A_S and H_SS that are worth it
MARGIN = 1e-9  # of F, by which G may grow when rounding is counted
INVERSE = 1.01  # more than what rounding may change of sqrt((H_SS^-1)_jj)


class Proved(NamedTuple):
    """See above."""

    inactive: Tensor  # (B, n) bool
    active: Tensor  # (B, n) bool
    support: Tensor  # (B,) bool
    face: Tensor  # (B,) bool
    distance: Tensor  # (B, n), infinite where nothing is known, as is
    change: Tensor  # (B,)


@dataclass(frozen=True)
class Around:
    """Where all solutions are, seen from y = x + t."""

    y: Vectors
    g: Vectors
    reach: Vectors  # (1), and what rounding may have changed of g
    gap: Scalars  # G, and what rounding may have taken from it
    slope: Scalars  # the length of u in the metric of (1)
    bends: Rows  # w least
    spread: Rows  # w (most - least)
    eps: float  # (m + n) units of rounding


class Screening:
    """`Proved` of the points x (B, n) with F(x) - F* <= gap (B,), computed when first asked for.

    Until then the problem is kept, which may be large; its data must not be written on meanwhile.
    """

    def __init__(self, problem: Problem, x: Vectors, gap: Scalars) -> None:
        self._given: tuple[Problem, Tensor, Tensor] | None = (problem, x.detach(), gap.detach())
        self._versions = _versions(problem)

    @cached_property
    def proved(self) -> Proved:
        assert self._given is not None
        problem, x, gap = self._given
        if _versions(problem) != self._versions:
            raise InputError("the data of the problem were changed in place after the solve; solve it again")
        found = proved(problem, x, gap)
        self._given = None
        return found

    def __getstate__(self) -> dict[str, object]:
        """What is copied or pickled is the proof, and not the problem."""
        return {"_given": None, "_versions": (), "proved": self.proved}


def _versions(problem: Problem) -> tuple[int, ...]:
    """How often each tensor was written on."""
    return tuple(0 if tensor.is_inference() else tensor._version for tensor in problem.tensors())


@torch.no_grad()
def proved(problem: Problem, x: Vectors, gap: Scalars) -> Proved:
    """What F(x) - F* <= gap (B,) proves; nothing for an f or r that is not of this package, and without a gap."""
    batch = problem.batch
    if not can_screen(problem) or not bool(torch.isfinite(gap).any()):
        no = torch.zeros_like(x, dtype=torch.bool)
        unknown = torch.full_like(x, torch.inf, dtype=torch.float64)
        return Proved(no, no, no[:, 0], no[:, 0], unknown, unknown[:, 0])
    f = problem.f
    assert isinstance(f, Loss)
    shared = f.map.shared
    each = 4 * (f.m + problem.n) if shared else f.m * problem.n
    size = max(1, CHUNK // each) if problem.selectable else batch
    whole = problem.to(dtype=torch.float64) if shared or size >= batch else problem
    parts = []
    for index in torch.arange(batch, device=x.device).split(size):
        part = whole if size >= batch else whole.select(index).to(dtype=torch.float64)
        parts.append(_proved(part, x[index].double(), gap[index].double()))
    return Proved(*(torch.cat(of) for of in zip(*parts, strict=True)))


def _proved(problem: Problem, x: Vectors, gap: Scalars) -> Proved:
    r, around = problem.r, _around(problem, x, gap)
    inactive = r.certain_zeros(around.g, around.reach)
    rest = r.certain_rest(around.y, around.g, around.reach)
    distance, change = _distance(problem, around, ~rest)
    active = (around.y.abs() > distance) | r.excludes_zero(around.y)
    on = around.y != 0
    support = ((inactive != on) & (active | ~on)).all(1)
    return Proved(inactive, active, support, (rest | (r.room(around.y) > distance)).all(1), distance, change)


def _around(problem: Problem, x: Vectors, gap: Scalars) -> Around:
    f = problem.f
    assert isinstance(f, Loss)
    y = problem.centred(x)
    z = f.inner(y)
    u, g, F = f.slopes(z), f.grad_at(z), f.value_at(z) + problem.r.value(y)
    eps = (f.m + problem.n) * f.map.roundoff(x.dtype)
    share = f.row_shares
    counted = share > 0
    weights = torch.where(counted, torch.as_tensor(f.row_factors, dtype=x.dtype).square() / share, 0.0)
    most_gap = 2 * gap + MARGIN * F
    least, most = f.curvature_within(z, most_gap.unsqueeze(1) / share)
    norms = f.map.column_squares(torch.where(counted, weights * most, 0.0)).sqrt()
    length = (norms * y.abs()).sum(1)
    slope, size = (
        torch.where(counted, share * of.square(), 0.0).sum(1).sqrt() for of in (u / most.sqrt(), z * most.sqrt())
    )
    astray = eps * (size + 2 * length)  # how far z may be from its place, in the metric of (1), and A z with it
    gap = ((2 * gap).sqrt() + 2 * astray).square() / 2 + eps * (F + slope * length)
    gap = torch.where(gap <= most_gap, gap, torch.inf)
    reach = (1 + eps) * ((2 * gap).sqrt() + astray + eps * slope).unsqueeze(1) * norms
    bends, spread = (torch.where(counted, weights * of, 0.0) for of in (least, most - least))
    return Around(y, g, reach, gap, slope, bends, spread, eps)


def _distance(problem: Problem, around: Around, S: Tensor) -> tuple[Vectors, Scalars]:
    """(3), S (B, n) bool; 0 outside of S; and `change`."""
    l2 = problem.r.curvature(around.y)
    bent = torch.where(l2 > 0, (2 * (1 + around.eps) * around.gap.unsqueeze(1) / l2).sqrt(), torch.inf)
    distance = torch.where(S, bent, 0.0)
    sizes = S.sum(1)
    change = torch.where(sizes == 0, 0.0, torch.inf).to(distance)
    if not problem.selectable:
        return distance, change
    assert isinstance(problem.f, Loss)
    regular = torch.isfinite(around.gap) & ((sizes <= problem.f.m) | (~S | (l2 > 0)).all(1))
    for index, width in _parts(regular & (sizes > 0), sizes, problem):
        near, change[index] = _near(problem.select(index), around, index, S[index], width)
        distance[index] = torch.minimum(distance[index], near)
    return distance, change


def _parts(worth: Tensor, sizes: Tensor, problem: Problem) -> list[tuple[Tensor, int]]:
    """Instances `worth` (B,) their H_SS, some at a time, and the largest of the `sizes` (B,) of S among them."""
    assert isinstance(problem.f, Loss)
    m = problem.f.m
    index = (worth & (sizes * (m + sizes) <= LARGEST)).nonzero()[:, 0]
    falling = sizes[index].sort(descending=True, stable=True)
    parts, start = [], 0
    while start < len(index):
        width = int(falling.values[start])
        stop = start + max(1, CHUNK // (width * (m + width)))
        parts.append((index[falling.indices[start:stop]], width))
        start = stop
    return parts


def _near(problem: Problem, around: Around, index: Tensor, S: Tensor, width: int) -> tuple[Vectors, Scalars]:
    """(R, n) sqrt(2 G (H_SS^-1)_jj), j in S, of the instances `index`, which `problem` holds; 0 outside of S (R, n).

    And `change` (R,).

    Of H_SS with unit diagonal, less twice what rounding may have added to it and its Cholesky factors, so that these
    are below the true ones. Infinite where that is not positive definite.
    """
    f, y = problem.f, around.y[index]
    assert isinstance(f, Loss)
    on, order = S.sort(dim=1, descending=True, stable=True)
    on, order = on[:, :width], order[:, :width]
    chosen = f.map.columns(order) * on.unsqueeze(1)
    columns = chosen * around.bends[index].sqrt().unsqueeze(2)
    l2 = problem.r.curvature(y).gather(1, order)
    H = columns.mT @ columns + torch.diag_embed(torch.where(on, l2, 1.0))
    unit = H.diagonal(dim1=1, dim2=2).sqrt()
    scaled = H / (unit.unsqueeze(1) * unit.unsqueeze(2))
    lost = 2 * width * around.eps + 2 * width**2 * torch.finfo(y.dtype).eps
    identity = torch.eye(width, dtype=y.dtype, device=y.device)
    factor, failed = torch.linalg.cholesky_ex(scaled - lost * identity)
    inverse = torch.linalg.solve_triangular(factor, identity.expand_as(factor), upper=False)
    reach = (2 * around.gap[index]).sqrt()
    distance = reach.unsqueeze(1) * inverse.square().sum(1).sqrt() / unit
    known = (failed == 0).unsqueeze(1) & (distance >= 0)
    near = torch.where(on, torch.where(known, INVERSE * distance, torch.inf), 0.0)
    leverage = ((chosen / unit.unsqueeze(1)) @ inverse.mT).square().sum(2)
    change = (around.spread[index] * leverage).sum(1) + reach / around.slope[index]
    change = torch.where((failed == 0) & (change >= 0), change, torch.inf)
    return torch.zeros_like(y).scatter(1, order, near), change
