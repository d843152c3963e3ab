"""Reference solutions: x* and F* with a duality gap small enough to measure everything else against."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.errors import SureproxError
from sureprox.base.words import require_whole
from sureprox.optimizers import FISTA
from sureprox.problems import Problem
from sureprox.problems.smooth import LinearModel
from sureprox.problems.trial import require_shapes
from sureprox.solve.options import check_options, require_problem
from sureprox.solve.solve import solve
from sureprox.solve.stopping import StoppingRule

LENGTHS = 8  # how many powers of 1/2, and how many sign changes, a Newton step is cut at
ROUNDING = 1e-15  # a coordinate that has come this close to zero, relatively, is meant to be zero


@dataclass(frozen=True)
class Reference:
    """x (B, n), objective F(x) and its duality gap (B,), all float64: F* lies in [objective - gap, objective]."""

    x: Tensor
    objective: Tensor
    gap: Tensor


@torch.no_grad()
def reference(problem: Problem, tol: float = 1e-12, rounds: int = 60, sweep: int = 1000) -> Reference:
    """Solve to a relative duality gap of `tol` in float64.

    Alternates `sweep` iterations of restarted FISTA, which find the support, with Newton steps on it: with the signs
    s of the nonzero coordinates S held fixed, f(x) + r(x) is smooth there and x_S - H_SS^{-1} (g_S + r'_S) solves it.
    Newton steps first lower F, shortened where signs change, then, at full length, the duality gap; a step that does
    not is undone. Raises if `rounds` alternations are not enough.
    """
    require_problem(problem)
    check_options(None, sweep, tol)
    require_whole("rounds", rounds, 1)
    exact = problem.to(dtype=torch.float64)
    x = exact.start()
    require_shapes(exact, x)
    rule = StoppingRule(exact, None, tol)
    optimizer = FISTA(restart=True)
    step_size = exact.step_size()
    for _ in range(rounds):
        x = solve(exact, optimizer, x, max_iter=sweep, tol=tol, certify=False, step_size=step_size, check_every=25).x
        if isinstance(exact.f, LinearModel):
            x = _descended(exact, exact.f, x, ~rule.measure(x).converged)
            x = _polished(exact, exact.f, x, rule)
        seen = rule.measure(x)
        if bool(seen.converged.all()):
            return Reference(x, seen.objective, seen.gap)
    worst = float((seen.gap / seen.objective.clamp(min=torch.finfo(torch.float64).tiny)).max())
    raise SureproxError(
        f"the reference solver reached a relative gap of {worst:.1e}, not {tol:.1e}, in {rounds * sweep} iterations; "
        "raise rounds or tol"
    )


def _descended(problem: Problem, f: LinearModel, x: Tensor, todo: Tensor, steps: int = 50) -> Tensor:
    """x after Newton steps on its support, each of the length in (0, 1] that lowers F most, while F falls.

    The lengths tried are powers of 1/2 and those at which the first coordinates reach zero: these then leave the
    support, and since F is smooth up to the first of them, it falls there (feature-sign search).
    """
    halves = 0.5 ** torch.arange(LENGTHS, dtype=x.dtype, device=x.device).expand(problem.batch, LENGTHS)
    value = problem.objective(x)
    for _ in range(steps):
        if not bool(todo.any()):
            return x
        y = problem.centred(x)
        move = _newton_on_support(problem, f, x, todo) - x
        to_zero = torch.where(move * y < 0, -y / move, torch.inf).sort(1).values[:, :LENGTHS].clamp(max=1)
        before = value
        for length in torch.cat([halves, to_zero], 1).unsqueeze(2).unbind(1):
            there = y + length * move
            there = torch.where(there.abs() <= ROUNDING * y.abs(), 0.0, there)
            candidate = problem.uncentred(there)
            seen = problem.objective(candidate)
            better = todo & (seen < value)
            x = torch.where(better.unsqueeze(1), candidate, x)
            value = torch.where(better, seen, value)
        todo = value < before
    return x


def _polished(problem: Problem, f: LinearModel, x: Tensor, rule: StoppingRule, steps: int = 4) -> Tensor:
    """x, or a few Newton steps on its support where they bring a smaller duality gap."""
    best = rule.measure(x)
    for _ in range(steps):
        candidate = _newton_on_support(problem, f, x, ~best.converged)
        seen = rule.measure(candidate)
        better = torch.where(rule.by_gap, seen.gap < best.gap, seen.kkt < best.kkt) & ~best.converged
        if not bool(better.any()):
            return x
        x = torch.where(better.unsqueeze(1), candidate, x)
        best = rule.measure(x)
    return x


def _newton_on_support(problem: Problem, f: LinearModel, x: Tensor, todo: Tensor) -> Tensor:
    """x_S - H_SS^{-1} (g_S + r'_S) on S = {j : the subdifferential of r at x_j is a single slope}, where `todo`."""
    low, high = problem.subdiff(x)
    slope, y = problem.grad(x) + low, problem.centred(x)
    result = x.clone()
    for i in todo.nonzero()[:, 0].tolist():
        support = (low[i] == high[i]).nonzero()[:, 0]
        if len(support):
            alone = f.select(torch.tensor([i], device=x.device))
            root = alone.hessian_root(y[i : i + 1], alone.map.columns(support.unsqueeze(0)))[0]
            step = torch.linalg.lstsq(root.mT @ root, slope[i, support].unsqueeze(1), driver=_driver(x)).solution
            result[i, support] -= step[:, 0]
    return torch.where(torch.isfinite(result), result, x)


def _driver(x: Tensor) -> str:
    return "gelsd" if x.device.type == "cpu" else "gels"
