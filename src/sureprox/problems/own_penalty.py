"""Whether a penalty of somebody's own is what `Penalty` asks for, tried at a few points before it is relied on."""

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Vectors
from sureprox.problems.blocks import BLOCKS
from sureprox.problems.penalty import Penalty
from sureprox.problems.problem import Problem
from sureprox.problems.separable import is_separable

SCALES = (1e-3, 1.0, 1e3)
ROUNDING = 1e-6  # relative, far above that of sums in float64


@torch.no_grad()
def require_separable(problem: Problem) -> None:
    """Refuse an r that is no sum of functions of one coordinate, or whose subdiff does not belong to it.

    With u and v in the domain, and p, q the two points that take every other coordinate from u and the rest from v,
    r(u) + r(v) = r(p) + r(q). And r(v) >= r(u) + <s, v - u> for both corners s of the box `subdiff(u)`. The penalties
    of this package, of exactly their classes, are not tried.
    """
    if is_separable(problem.r) or type(problem.r) in BLOCKS:
        return
    r = problem.r.to(dtype=torch.float64)
    zero = torch.zeros(problem.batch, problem.n, dtype=torch.float64, device=problem.device)
    generator = torch.Generator().manual_seed(0)
    swap = torch.arange(zero.shape[1], device=zero.device) % 2 == 0
    for scale in SCALES:
        drawn = scale * torch.randn(2, zero.shape[1], generator=generator, dtype=torch.float64).to(zero.device)
        step = torch.full_like(zero[:, :1], scale)
        u, v = (r.prox(row.expand_as(zero), step) for row in drawn)
        mixed = torch.where(swap, u, v), torch.where(swap, v, u)
        _require_sum(r, (u, v), mixed)
        for at, there in ((torch.zeros_like(u), u), (u, v), (v, u)):
            _require_slopes(r, at, there)


def _require_sum(r: Penalty, points: tuple[Tensor, Tensor], mixed: tuple[Tensor, Tensor]) -> None:
    (one, other), (p, q) = ([r.value(point) for point in pair] for pair in (points, mixed))
    error, size = (one + other) - (p + q), one.abs() + other.abs() + p.abs() + q.abs()
    equal = torch.isfinite(size) & (error.abs() <= ROUNDING * size)
    if bool((torch.isfinite(one + other) & ~equal).any()):
        raise InputError(
            f"{_name(r)} is not separable, and subdiff cannot say what its subdifferential is: "
            "r(x) must be a sum of functions of one coordinate each"
        )


def _require_slopes(r: Penalty, at: Vectors, there: Vectors) -> None:
    here, value, move = r.value(at), r.value(there), there - at
    for corner in r.subdiff(at):
        terms = torch.where(move == 0, 0.0, corner * move)
        below = value - here - terms.sum(1)
        doubt = ROUNDING * (value.abs() + here.abs() + terms.abs().sum(1))
        if bool((torch.isfinite(here) & torch.isfinite(value) & (below < -doubt)).any()):
            raise InputError(
                f"{_name(r)}.subdiff returns slopes that {_name(r)}.value does not have; check both, for separable r "
                "the box is [left derivative, right derivative] of each coordinate"
            )


def _name(r: Penalty) -> str:
    return type(getattr(r, "inner", r)).__name__
