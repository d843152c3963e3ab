"""Derivatives of solutions with respect to the data, whichever path has led there: the implicit function theorem."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Vectors
from sureprox.problems import Problem
from sureprox.problems.foreign import Foreign
from sureprox.problems.forms import Loss, Shape, form_of
from sureprox.problems.smooth import LinearModel
from sureprox.solve.solution import Solution
from sureprox.solve.stopping import StoppingRule
from sureprox.support.newton import is_lasso, polished

CHUNK = 2**22  # entries of gathered columns held at a time
FULL_RANK = 1e-12  # squared sine of the angle between a column of R A_S and the others; below, it depends on them


def differentiated(solution: Solution, rule: StoppingRule, x0: Vectors) -> Solution:
    """x with the derivatives of the solution of its instance, where that is converged and they exist.

    Elsewhere x keeps the derivatives of the iterations that led to it, also with respect to x0, on which a solution
    does not depend. All data that require gradients, and x0, are on the graph of x.
    """
    x = solution.x
    if has_derivatives(rule.problem):
        step, known = newton_step(rule.problem, _sharpened(rule, x.detach().double()))
        known = known & solution.converged.to(known.device)
        derived = _Carried.apply(x.detach(), step)
        x = derived if bool(known.all()) else torch.where(known.unsqueeze(1), derived, x)
    return replace(solution, x=_joined(x, [*_data(rule.given), x0]))


class _Carried(torch.autograd.Function):
    """The number x with the derivatives of `step`; second ones, which are not those of the solution, are refused."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, step: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, Tensor]:
        if torch.is_grad_enabled():
            raise InputError(
                "create_graph is True, but gradients of a converged solution cannot be differentiated again; "
                "differentiate a fixed number of steps instead (sureprox.iterate)"
            )
        return None, gradient.double()


def has_derivatives(problem: Problem) -> bool:
    """Whether `newton_step` applies: f and r of classes whose second derivatives are known."""
    form = form_of(problem)
    return form.loss in (Loss.SQUARES, Loss.LOGISTIC) and form.penalty in (Shape.L1, Shape.WEIGHTED_L1, Shape.ZERO)


def newton_step(problem: Problem, x: Vectors) -> tuple[Vectors, Tensor]:
    """(B, n) a step d from x, whose derivatives are those of the solution, and (B,) where it exists; all in float64.

    With S the coordinates at which r is smooth, y = x + t and G the Hessian of f,

        G_SS d_S = -(grad f(y) + grad r(y))_S,   d = -t + (a constant) elsewhere:

    at the solution d_S is zero for all data, so that its derivatives with x and G held fixed are those of the solution.
    It does not exist where A_S has no full rank, because the solution is then not unique or not smooth.
    """
    f, shift = problem.f, problem.shift
    assert isinstance(f, LinearModel)
    y = problem.centred(x).detach()
    low, high = problem.r.subdiff(y)
    inside = (low == high).detach()
    count = inside.sum(1)
    exists = count <= f.m
    widest = max(1, int(torch.where(exists, count, 0).max()))
    chosen = (~inside).long().sort(dim=1, stable=True).indices[:, :widest]
    on = inside.gather(1, chosen) & exists.unsqueeze(1)
    slope = (f.grad(y) + low).gather(1, chosen)
    factor, failed = _factors(f, y, chosen, on)
    step = torch.cholesky_solve(torch.where(on, -slope, 0.0).unsqueeze(2), factor).squeeze(2)
    move = torch.zeros_like(y).scatter(1, chosen, step)
    return move if shift is None else move - shift, exists & ~failed


@torch.no_grad()
def _factors(f: LinearModel, y: Vectors, chosen: Tensor, on: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors (B, k, k) of G_SS, S being those of the coordinates `chosen` (B, k) that are `on`; which failed.

    Rows and columns outside S, and of what failed, are those of the identity.
    """
    width = chosen.shape[1]
    identity = torch.eye(width, dtype=y.dtype, device=y.device)
    factors, failures = [], []
    for part in torch.arange(len(y), device=y.device).split(max(1, CHUNK // (width * max(f.m, width)))):
        index, mask = chosen[part], on[part]
        alone = f.select(part)
        root = alone.hessian_root(y[part], alone.map.columns(index)) * mask.unsqueeze(1)
        gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), root.mT @ root, identity)
        factor, info = torch.linalg.cholesky_ex(gram)
        pivots = factor.diagonal(dim1=1, dim2=2).square()
        failed = (info != 0) | ~(pivots > FULL_RANK * gram.diagonal(dim1=1, dim2=2)).all(1)
        factors.append(torch.where(failed.view(-1, 1, 1), identity, factor))
        failures.append(failed)
    return torch.cat(factors), torch.cat(failures)


def _sharpened(rule: StoppingRule, x: Vectors) -> Vectors:
    """x, or, where it is found, the point that x is near, with the support of the solution."""
    if not is_lasso(form_of(rule.problem)):
        return x
    with torch.no_grad():
        for _ in range(2):  # the second attempt corrects the first, see `polished`
            point = polished(rule.problem, x, rule.measure(x).grad)
            x = torch.where(rule.measure(point).converged.unsqueeze(1), point, x)
    return x


def _joined(x: Vectors, others: list[Tensor]) -> Vectors:
    """x, on the graph of all `others` that require gradients: zeros reach those on which it does not depend."""
    reached = [other.flatten()[:1].abs().to(x) for other in others if other.requires_grad]
    return torch.where(torch.ones_like(x, dtype=torch.bool), x, torch.cat(reached).sum()) if reached else x


def _data(problem: Problem) -> list[Tensor]:
    """The tensors of a problem, also of a user's own parts."""
    parts = [part.inner for part in (problem.f, problem.r) if isinstance(part, Foreign)]
    held = [value for part in parts for value in getattr(part, "__dict__", {}).values() if isinstance(value, Tensor)]
    return [*problem.tensors(), *held]
