"""Newton's method on the groups that are not zero: what finishes a solve with a penalty of groups.

r(x) = sum_g c_g |x_g| + l1 |x|_1 is smooth where no x_g is zero, and with l1 no x_j: its gradient is
c_g x_g / |x_g| + l1 sign(x_g), its Hessian (c_g / |x_g|) (I - u u'), u = x_g / |x_g|. There a Newton step of F is one
linear system. What it turns round rests at zero: a group, or with l1 a coordinate. What is zero and can descend begins
with a proximal step of its own: S(-g_g, l1) shortened by c_g and divided by the trace of its block of the Hessian of f.
"""

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import groups_of
from sureprox.problems.separable import soft_threshold
from sureprox.problems.smooth import LinearModel
from sureprox.support.faces import RIDGE, SLACK, parts, width_of


def group_minima(problem: Problem, y: Vectors, damping: Scalars, live: Tensor) -> Vectors:
    """Where a Newton step from y (B, n) ends, for the instances `live` (B,); `damping` as in `newton_points`."""
    f, r = problem.f, groups_of(problem)
    assert isinstance(f, LinearModel)
    slope, l1 = f.grad(y), r.floor_slope(y)
    beyond = soft_threshold(-slope, l1)
    active = r.norms(y) > 0
    enters = ~active & (r.norms(beyond) > (1 + SLACK) * r.size)
    moves = r.spread((active | enters).to(y.dtype), 1.0) > 0
    on = moves & ((y != 0) | (l1 == 0) | (beyond.abs() > SLACK * l1))
    size = on.sum(1)
    ranked = on.to(torch.uint8).sort(dim=1, descending=True, stable=True).indices
    found = y.clone()
    for part, widest in parts(torch.where(live & (size > 0), width_of(size, problem.n), 0), f.m):
        chosen = ranked[part, :widest]
        there = _stepped(problem.select(part), y[part], beyond[part], on[part], enters[part], chosen, damping[part])
        good = torch.isfinite(there).all(1, keepdim=True)
        found[part] = torch.where(good, there, y[part])
    return found


def _stepped(
    problem: Problem, y: Vectors, beyond: Vectors, on: Tensor, enters: Tensor, chosen: Tensor, damping: Scalars
) -> Vectors:
    """The Newton step on the coordinates `chosen` (R, k) that are `on` (R, n)."""
    f, r = problem.f, groups_of(problem)
    assert isinstance(f, LinearModel)
    columns = f.map.columns(chosen)
    root = f.hessian_root(y, columns)
    H = root.mT @ root
    if bool(enters.any()):
        diagonal = torch.zeros_like(y).scatter(1, chosen, H.diagonal(dim1=1, dim2=2))
        trace, norm = r.summed(diagonal * on), r.norms(beyond)
        count = enters.sum(
            1, keepdim=True
        )  # the mean of steps of single groups, none of which raises the model, is safe
        length = torch.where(enters & (trace > 0), (norm - r.size) / (norm * trace * count), 0.0)
        y = y + r.spread(length, 0.0) * beyond
    norm = r.norms(y)
    bend = r.spread(torch.where(norm > 0, r.size / norm, 0.0), 0.0).gather(1, chosen)
    unit = (y / r.spread(torch.where(norm > 0, norm, 1.0), 1.0)).gather(1, chosen)
    group = r.groups[chosen]
    same = group.unsqueeze(1) == group.unsqueeze(2)
    H = H - same * (bend * unit).unsqueeze(2) * unit.unsqueeze(1)
    sign = torch.where(y == 0, torch.sign(beyond), torch.sign(y))
    pull = -(f.grad(y) + r.floor_slope(y) * sign).gather(1, chosen) - bend * y.gather(1, chosen)
    diagonal = H.diagonal(dim1=1, dim2=2)
    diagonal.add_(bend)
    diagonal.add_(RIDGE * diagonal.amax(1, keepdim=True) + damping.unsqueeze(1) * diagonal)
    held = on.gather(1, chosen)
    identity = torch.eye(chosen.shape[1], dtype=y.dtype, device=y.device)
    factor, failed = torch.linalg.cholesky_ex(torch.where(held.unsqueeze(1) & held.unsqueeze(2), H, identity))
    d = torch.cholesky_solve(torch.where(held, pull, 0.0).unsqueeze(2), factor).squeeze(2)
    d = torch.where(held, d, 0.0).masked_fill((failed != 0).unsqueeze(1), torch.nan)
    there = y.scatter_add(1, chosen, d)
    turned = r.grouped & (r.spread(r.summed(there * y), 1.0) <= 0)
    passed = (r.floor_slope(y) > 0) & (there * sign < 0)
    return torch.where(turned | passed, 0.0, there)
