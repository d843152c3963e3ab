"""Newton steps on the support: the last digits of a solution whose nonzero coordinates are already known."""

import torch
from torch import Tensor

from sureprox.problems import Problem
from sureprox.problems.smooth import LinearModel
from sureprox.solve.stopping import StoppingRule

RIDGE = 1e-14  # of the largest curvature: keeps dependent columns solvable, and costs a Newton step no digit it has
CHUNK = 2**24  # entries of the largest intermediate array


@torch.no_grad()
def polished(problem: Problem, x: Tensor, rule: StoppingRule, steps: int = 20) -> Tensor:
    """x, or the best of some Newton steps on its support where they bring a smaller certificate.

    For problems without shift whose f is a `LinearModel`; each instance alone.
    """
    f = problem.f
    assert isinstance(f, LinearModel)
    assert problem.shift is None
    best = rule.measure(x)
    tried = x
    for _ in range(steps):
        todo = (~best.converged).nonzero()[:, 0]
        if not len(todo):
            break
        tried = tried.index_copy(0, todo, _newton(problem.select(todo), tried[todo]))
        seen = rule.measure(tried)
        better = torch.where(rule.by_gap, seen.gap < best.gap, seen.kkt < best.kkt) & ~best.converged
        if not bool(better.any()):
            break
        x = torch.where(better.unsqueeze(1), tried, x)
        best = rule.measure(x)
    return x


def _newton(problem: Problem, x: Tensor) -> Tensor:
    """x_S - H_SS^{-1} (g_S + r'_S), S the coordinates where r has a slope; those that change sign become zero."""
    low, high = problem.subdiff(x)
    active = low == high
    size = max(1, int(active.sum(1).max()))
    slope = torch.where(active, problem.grad(x) + low, 0.0)
    order = active.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
    f = problem.f
    assert isinstance(f, LinearModel)
    rows = max(1, CHUNK // (size * max(f.m, size)))
    moves = [
        _solved(problem.select(part), x[part], active[part], slope[part], order[part])
        for part in torch.arange(len(x), device=x.device).split(rows)
    ]
    moved = x.scatter_add(1, order, -torch.cat(moves))
    penalised = low.abs() > 0
    moved = torch.where(penalised & (moved * x < 0), 0.0, moved)
    return torch.where(torch.isfinite(moved).all(1, keepdim=True), moved, x)


def _solved(problem: Problem, x: Tensor, active: Tensor, slope: Tensor, order: Tensor) -> Tensor:
    """H_SS^{-1} slope_S for every instance, in the coordinates of `order` (B, k); zero beyond its own support."""
    f = problem.f
    assert isinstance(f, LinearModel)
    inside = active.gather(1, order)
    columns = f.map.columns(order)
    root = f.hessian_root(x, columns * inside.unsqueeze(1))
    H = root.mT @ root
    diagonal = H.diagonal(dim1=1, dim2=2)
    top = diagonal.amax(1, keepdim=True)
    diagonal += torch.where(inside & (diagonal > 0), RIDGE * top, 1.0)
    factor, failed = torch.linalg.cholesky_ex(H)
    step = torch.cholesky_solve(slope.gather(1, order).unsqueeze(2), factor).squeeze(2)
    return torch.where((failed == 0).unsqueeze(1) & inside, step, 0.0)
