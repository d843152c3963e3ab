"""Total variation denoising, through its dual problem, which has a duality gap."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.defaults import MAX_ITER
from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.kernels.runtime.library import build_later, library
from sureprox.kernels.total_variation import cpu as total_variation
from sureprox.problems import LeastSquares, Problem, checks
from sureprox.problems.operators import Difference
from sureprox.problems.penalties import Box, GroupBall, Penalty
from sureprox.solve.options import check_calls, check_options
from sureprox.solve.plan import Engine, chosen_engine
from sureprox.solve.solution import Progress, Solution
from sureprox.solve.solve import solve
from sureprox.support.total_variation import dual_steps, from_zero, pixels, total

ROUNDS = 4  # solves of the dual problem, each to a smaller gap where the one before was not enough
CHECK = 16  # steps between two looks at the gap
SINGLE = 1e-5  # from this tolerance on float32 is enough for the steps
FAR = 1e12  # times the largest pixel: no dual point is as large
SPARE = 0.8  # of the tolerance, so that rounding does not undo what was reached


@dataclass(frozen=True)
class Denoised:
    """x, of the shape of y; the objective there and an upper bound of its distance to the minimum, (B,) in float64."""

    x: Tensor
    objective: Tensor
    gap: Tensor
    converged: Tensor  # (B,) bool: gap <= tol * objective
    dual: Solution  # of the dual problem; its x are the dual points p


@torch.no_grad()
def tv_denoise(
    y: Any,
    lam: Any,
    *,
    dims: int | None = None,
    isotropic: bool = True,
    tol: float = 1e-4,
    max_iter: int = MAX_ITER,
    **options: Any,
) -> Denoised:
    """argmin_x 1/2 |x - y|^2 + lam TV(x), for signals (n,), (B, n) and images (h, w), (B, h, w).

    TV(x) = sum_i |D_i x|, D_i x being the forward differences at i: one for a signal, two for an image, of which
    |.| is the Euclidean norm if `isotropic`, else the sum of absolute values. lam: a number or (B,). `dims`: 1 for
    signals, 2 for images; by default 2 where y has two dimensions or three.

    Its dual is min_p 1/2 |D'p - y|^2 over |p_i| <= lam, a problem with a `Difference` operator, and x = y - D'p. With
    this x and p, objective minus dual value is the duality gap of p, so that gap <= tol * objective is proved.

    The steps are those of restarted FISTA (`sureprox.support.total_variation`), by a kernel on a CPU; what they leave,
    and whatever has other `options` of `solve` than `engine` and `callback`, is left to `solve`.
    """
    signal = checks.as_tensor("y", y)
    dims = min(signal.ndim, 2) if dims is None else dims
    if dims not in (1, 2) or signal.ndim not in (dims, dims + 1):
        raise InputError(f"y has shape {tuple(signal.shape)}; pass (n,) or (B, n) with dims=1, (h, w) or (B, h, w)")
    if 0 in signal.shape[-dims:]:
        raise InputError(f"y has shape {tuple(signal.shape)}: it is empty; pass at least two points")
    if "x0" in options:
        raise InputError("tv_denoise solves the dual problem, which starts from zero; leave out x0")
    check_options(None, max_iter, tol)
    check_calls(callback=options.get("callback"))
    size = tuple(signal.shape[-dims:])
    rows = signal.reshape(-1, *size).flatten(1)
    checks.require_finite("y", rows)
    weight = checks.weight(lam, len(rows), rows)
    D = Difference(size)
    centred = rows - rows.mean(1, keepdim=True)  # TV does not see the mean, and the gap is relative to |x|
    problem = Problem(LeastSquares(D.T, centred), _ball(size, weight, isotropic))
    wanted, start = torch.tensor(tol, dtype=torch.float64), None
    steps = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    if options.keys() <= {"engine", "callback"}:
        way = _way(rows.device, options.get("engine", "auto"))
        start, steps = _descended(
            problem, centred, weight, size, isotropic, tol, max_iter, way, options.get("callback")
        )
        options["floor"] = 1.0  # |y|^2 / 2 is no less than the objective of x, by which the gap is judged here
    for _ in range(ROUNDS):
        left = max_iter - int(steps.max())
        dual = solve(problem, x0=start, tol=float(wanted), max_iter=left, **options)
        steps = steps + dual.iterations
        x = centred.double() - D.adjoint(dual.x.double())
        objective = _objective(x, centred.double(), D, weight.double(), isotropic)
        enough = dual.gap <= tol * objective
        if bool((enough | ~dual.converged.to(enough.device)).all()):
            break
        start, problem = dual.x, problem.to(dtype=dual.x.dtype)
        wanted = wanted.cpu() * float((tol * objective / dual.gap)[~enough].min()) / 2
    x = x + rows.double().mean(1, keepdim=True)
    dual = replace(dual, iterations=steps)
    return Denoised(x.to(rows.dtype).reshape(signal.shape), objective, dual.gap, enough, dual)


Way = Callable[..., Any]  # `dual_steps`, or the kernel for it


def _way(device: torch.device, engine: str) -> Way:
    """What takes the steps."""
    chosen = chosen_engine(engine)
    if device.type != "cpu" or chosen not in (Engine.AUTO, Engine.KERNELS):
        return dual_steps
    if library(build=chosen is Engine.KERNELS) is not None:
        return total_variation.dual_steps
    build_later()
    return dual_steps


def _descended(
    problem: Problem,
    y: Vectors,
    lam: Scalars,
    size: tuple[int, ...],
    isotropic: bool,
    tol: float,
    max_iter: int,
    way: Way,
    callback: Callable[[Progress], None] | None,
) -> tuple[Tensor, Tensor]:
    """Dual points whose gap is `tol` times the objective of x; the steps of each (B,)."""
    h, w = (1, *size)[-2:]
    largest = y.abs().amax(1)
    unit = torch.where(largest > 0, largest, 1.0)
    dtype = torch.float32 if tol >= SINGLE else y.dtype
    images, limits = (y / unit.unsqueeze(1)).to(dtype), (lam / unit).clamp(max=FAR).to(dtype)
    dual, live = from_zero(images, (h, w)), torch.arange(len(y), device=y.device)
    steps = torch.zeros_like(live)
    for k in range(0, max_iter, CHECK):
        count = min(CHECK, max_iter - k)
        part, seen = way(images[live], limits[live], (h, w), dual.select(live), count, isotropic)
        dual.put(live, part)
        steps[live] += count
        gap, objective = seen.unbind(1)
        left = gap > SPARE * tol * objective
        worst = (gap * unit[live].double().square())[left]
        live = live[left]
        if callback is not None:
            callback(Progress(k + count, max_iter, len(live), float(worst.max()) if len(live) else 0.0))
        if not len(live):
            break
    p = dual.p.to(y.dtype) * unit.unsqueeze(1)
    return problem.prox(p, torch.ones_like(p[:, :1])), steps


def _ball(size: tuple[int, ...], lam: Scalars, isotropic: bool) -> Penalty:
    """|p_i| <= lam: of each difference, or of those of a pixel together."""
    if len(size) == 1 or not isotropic:
        bound = lam.unsqueeze(1)
        return Box(-bound, bound)
    return GroupBall(pixels(size), lam)


def _objective(x: Vectors, y: Vectors, D: Difference, lam: Scalars, isotropic: bool) -> Scalars:
    return (x - y).square().sum(1) / 2 + lam * total(D.forward(x), D.size, isotropic)
