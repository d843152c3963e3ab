"""Total variation denoising, through its dual problem, which has a duality gap."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sureprox.base.defaults import MAX_ITER
from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.problems import LeastSquares, Problem, checks
from sureprox.problems.operators import Difference
from sureprox.problems.penalties import Box, GroupBall, Penalty
from sureprox.solve.options import check_options
from sureprox.solve.solution import Solution
from sureprox.solve.solve import solve

ROUNDS = 4  # solves of the dual problem, each to a smaller gap where the one before was not enough


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
    `options` are those of `solve`.
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
    size = tuple(signal.shape[-dims:])
    rows = signal.reshape(-1, *size).flatten(1)
    checks.require_finite("y", rows)
    weight = checks.weight(lam, len(rows), rows)
    D = Difference(size)
    centred = rows - rows.mean(1, keepdim=True)  # TV does not see the mean, and the gap is relative to |x|
    problem = Problem(LeastSquares(D.T, centred), _ball(size, weight, isotropic))
    wanted, start = torch.tensor(tol, dtype=torch.float64), None
    for _ in range(ROUNDS):
        dual = solve(problem, x0=start, tol=float(wanted), max_iter=max_iter, **options)
        x = centred.double() - D.adjoint(dual.x.double())
        objective = _objective(x, centred.double(), D, weight.double(), isotropic)
        enough = dual.gap <= tol * objective
        if bool((enough | ~dual.converged.to(enough.device)).all()):
            break
        start, problem = dual.x, problem.to(dtype=dual.x.dtype)
        wanted = wanted.cpu() * float((tol * objective / dual.gap)[~enough].min()) / 2
    x = x + rows.double().mean(1, keepdim=True)
    return Denoised(x.to(rows.dtype).reshape(signal.shape), objective, dual.gap, enough, dual)


def _ball(size: tuple[int, ...], lam: Scalars, isotropic: bool) -> Penalty:
    """|p_i| <= lam: of each difference, or of those of a pixel together."""
    if len(size) == 1 or not isotropic:
        bound = lam.unsqueeze(1)
        return Box(-bound, bound)
    return GroupBall(_pixels(size), lam)


def _pixels(size: tuple[int, ...]) -> Tensor:
    """The pixel at which each difference of `Difference` starts."""
    h, w = size
    pixel = torch.arange(h * w).reshape(h, w)
    return torch.cat([pixel[:-1].flatten(), pixel[:, :-1].flatten()])


def _objective(x: Vectors, y: Vectors, D: Difference, lam: Scalars, isotropic: bool) -> Scalars:
    differences = D.forward(x)
    if len(D.size) == 1 or not isotropic:
        variation = differences.abs().sum(1)
    else:
        pixels = _pixels(D.size).to(x.device)
        squares = x.new_zeros(x.shape).index_add(1, pixels, differences.square())
        variation = squares.sqrt().sum(1)
    return (x - y).square().sum(1) / 2 + lam * variation
