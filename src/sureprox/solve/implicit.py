"""Derivatives of solutions with respect to the data by the implicit function theorem, however they were found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.foreign import Foreign
from sureprox.problems.forms import form_of, has_second_derivatives, parts_of
from sureprox.problems.smooth import LinearModel
from sureprox.solve.solution import Solution
from sureprox.solve.stopping import StoppingRule
from sureprox.support.newton import is_lasso, polished
from sureprox.support.screening import proved

CHUNK = 2**22  # entries of gathered columns held at a time
NEWTON = 2  # steps from a point to a better one on its face
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
    """Whether `newton_step` applies: f and r of classes whose second derivatives are known, and a dense A."""
    return form_of(problem).separable and has_second_derivatives(problem)


def require_derivatives(problem: Problem) -> None:
    if not has_derivatives(problem):
        raise InputError(
            f"differentiable is 'implicit', but no derivatives are known for {type(problem.f).__name__} + "
            f"{type(problem.r).__name__}; use a loss of sureprox.losses with a dense A and a separable penalty, or True"
        )


@torch.no_grad()
def solved_without_graph(solve: Callable[..., Solution], options: dict[str, Any]) -> Solution:
    """What `solve` finds, without the graph of its iterations."""
    return solve(**options | {"differentiable": False})


def with_derivatives(solution: Solution, problem: Problem, x0: Any) -> Solution:
    """x with the derivatives of the solution, whether converged or not, and `Solution.derivative_error`.

    They are those at a point that two Newton steps on the face of x lead to, if its gap is smaller. The error of an
    instance is infinite where the gap of that point does not prove that the solution is on this face (`Proved.face`),
    or where no derivative exists, which is then zero.
    """
    exact = problem.to(dtype=torch.float64)
    x, gap = _by_newton(exact, solution.x.detach().double(), solution.gap)
    step, known = newton_step(exact, x)
    found = proved(exact, x, gap)
    size = torch.linalg.vector_norm(_point(exact, x), dim=1)
    away = torch.linalg.vector_norm(found.distance, dim=1)
    error = found.change + torch.where(away == 0, 0.0, away / size)
    error = torch.where(found.face & known, error, torch.inf)
    derived = _Carried.apply(solution.x.detach(), torch.where(known.unsqueeze(1), step, 0.0))
    others = [*_data(problem), *([x0] if isinstance(x0, Tensor) else [])]
    return replace(solution, x=_joined(derived, others), derivative_error=error)


def _point(problem: Problem, x: Vectors) -> Vectors:
    """x + t, without its graph."""
    return problem.centred(x).detach()


@torch.no_grad()
def _by_newton(problem: Problem, x: Vectors, gap: Scalars) -> tuple[Vectors, Scalars]:
    """x, or, where the gap is smaller, the points of two Newton steps on its face; and the gap there."""
    for _ in range(NEWTON):
        step, known = newton_step(problem, x)
        shift = 0.0 if problem.shift is None else problem.shift
        point = torch.where(known.unsqueeze(1), x + (step + shift), x)
        seen = problem.certificate(point).gap
        same = ((problem.centred(point) == 0) == (problem.centred(x) == 0)).all(1)
        better = same & (seen < gap)
        x, gap = torch.where(better.unsqueeze(1), point, x), torch.where(better, seen, gap)
    return x, gap


def newton_step(problem: Problem, x: Vectors) -> tuple[Vectors, Tensor]:
    """(B, n) a step d from x, whose derivatives are those of the solution, and (B,) where it exists; all in float64.

    With S the coordinates at which r is smooth, y = x + t and H the Hessian of f + r on S,

        H_SS d_S = -(grad f(y) + grad r(y))_S,   d = (the bound at which y is) - t + (a constant) elsewhere:

    at the solution d_S is zero for all data, so that its derivatives with x and H held fixed are those of the solution.
    It does not exist where H_SS has no full rank, because the solution is then not unique or not smooth.
    """
    f, shift = problem.f, problem.shift
    assert isinstance(f, LinearModel)
    held = problem.centred(x).detach()
    y = _at_its_bounds(problem, held)
    low, high = problem.r.subdiff(y)
    inside = (low == high).detach()
    curvature = problem.r.curvature(held).detach()
    count = inside.sum(1)
    exists = (count <= f.m) | ((curvature > 0) | ~inside).all(1)
    widest = max(1, int(torch.where(exists, count, 0).max()))
    chosen = (~inside).long().sort(dim=1, stable=True).indices[:, :widest]
    on = inside.gather(1, chosen) & exists.unsqueeze(1)
    slope = (f.grad(y) + torch.where(inside, low, 0.0)).gather(1, chosen)
    factor, failed = _factors(f, held, curvature, chosen, on)
    step = torch.cholesky_solve(torch.where(on, -slope, 0.0).unsqueeze(2), factor).squeeze(2)
    move = (y - held).scatter(1, chosen, torch.where(on, step, (y - held).gather(1, chosen)))
    return move if shift is None else move - shift, exists & ~failed


def _at_its_bounds(problem: Problem, y: Vectors) -> Vectors:
    """y as a function of the bounds that it is at."""
    parts = parts_of(problem)
    for name in ("low", "high"):
        bound = parts[name]
        if bound is not None and bound.requires_grad:
            y = torch.where(y.detach() == bound.detach(), bound.expand_as(y), y)
    return y


@torch.no_grad()
def _factors(f: LinearModel, y: Vectors, curvature: Vectors, chosen: Tensor, on: Tensor) -> tuple[Tensor, Tensor]:
    """Cholesky factors (B, k, k) of H_SS, S being those of the coordinates `chosen` (B, k) that are `on`; which failed.

    H is the Hessian of f plus the diagonal `curvature`. Rows and columns outside S, and of what failed, are those of
    the identity.
    """
    width = chosen.shape[1]
    identity = torch.eye(width, dtype=y.dtype, device=y.device)
    factors, failures = [], []
    for part in torch.arange(len(y), device=y.device).split(max(1, CHUNK // (width * max(f.m, width)))):
        index, mask = chosen[part], on[part]
        alone = f.select(part)
        root = alone.hessian_root(y[part], alone.map.columns(index)) * mask.unsqueeze(1)
        hessian = root.mT @ root + torch.diag_embed(curvature[part].gather(1, index))
        gram = torch.where(mask.unsqueeze(1) & mask.unsqueeze(2), hessian, identity)
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
