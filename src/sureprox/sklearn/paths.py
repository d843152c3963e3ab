"""`enet_path` and `lasso_path`: all alphas for all columns of y, as batches that share X; the alphas of a path."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.validation import check_array, check_consistent_length
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import Problem
from sureprox.problems.checks import require_unmasked
from sureprox.sklearn import linear
from sureprox.sklearn.compat import FLOATS
from sureprox.sklearn.elastic_net import check_precompute
from sureprox.sklearn.engine import Array, array, checked, chosen_device, fitted, number, tensor
from sureprox.sklearn.folds import parts, room_for
from sureprox.sklearn.linear import Design
from sureprox.sklearn.tensors import tensors_too


@tensors_too
def enet_path(
    X: Any,
    y: Any,
    *,
    l1_ratio: float = 0.5,
    eps: float = 1e-3,
    alphas: Any = 100,
    precompute: Any = "auto",
    positive: bool = False,
    return_n_iter: bool = False,
    max_iter: int = 100_000,
    tol: float = 1e-10,
    optimizer: Any = None,
    device: str | None = None,
    engine: str = "auto",
) -> tuple[Any, ...]:
    """(alphas, coefs, dual_gaps): min_w 1/(2n) |y - X w|^2 + alpha l1_ratio |w|_1 + alpha (1 - l1_ratio)/2 |w|^2.

    For every one of the `alphas`, a number of them or the alphas themselves, largest first; there is no intercept, as
    in scikit-learn. coefs (n_features, n_alphas), dual_gaps (n_alphas,) and, with `return_n_iter`, the iterations. The
    columns of a y (n_samples, n_targets) are problems of their own with the same alphas: coefs (n_targets, n_features,
    n_alphas), dual_gaps (n_targets, n_alphas). All other parameters are those of `ElasticNet`.
    """
    require_unmasked("X", X)
    require_unmasked("y", y)
    X = check_array(X, accept_sparse="csr", dtype=FLOATS, input_name="X")
    y = check_array(y, ensure_2d=False, dtype=np.float64, input_name="y")
    check_consistent_length(X, y)
    checked(max_iter, tol)
    check_precompute(precompute, X.shape[1])
    ratio, where = number("l1_ratio", l1_ratio, most=1), chosen_device(device)
    targets = tensor(y.reshape(len(y), -1), where)
    made = linear.design(X, None, False, where)
    f = linear.squares(made, targets, None)
    grid = alpha_grid(made, targets, None, ratio, alphas, eps, positive=positive, centre=False, alone=False)[0]
    (t, n), K = f.shape, len(grid)
    each = torch.arange(t, device=where).repeat_interleave(K)
    size = (len(y) * grid).repeat(t)
    whole = Problem(f.select(each), made.penalty(ratio * size, (1 - ratio) * size, positive))
    found = [
        fitted(whole.select(torch.arange(len(each), device=where)[some]), optimizer, tol, max_iter, engine=engine)
        for some in parts(len(each), room_for(whole))
    ]
    coefs = torch.cat([made.coefficients(one.x) for one in found]).reshape(t, K, n).mT
    gaps = torch.cat([one.seen.gap for one in found]).reshape(t, K) / len(y)
    counts = torch.cat([one.iterations for one in found]).clamp(min=1).reshape(t, K)
    if y.ndim == 1:
        coefs, gaps, counts = coefs[0], gaps[0], counts[0]
    made_path = array(grid), array(coefs, X.dtype), array(gaps)
    return (*made_path, counts.tolist()) if return_n_iter else made_path


def lasso_path(X: Any, y: Any, **options: Any) -> tuple[Any, ...]:
    """(alphas, coefs, dual_gaps): min_w 1/(2n) |y - X w|^2 + alpha |w|_1. `enet_path` with l1_ratio = 1."""
    if "l1_ratio" in options:
        raise InputError("lasso_path has no l1_ratio; use enet_path")
    return enet_path(X, y, l1_ratio=1.0, **options)


def alpha_grid(
    made: Design,
    targets: Tensor,
    weights: Tensor | None,
    ratio: float,
    alphas: Any,
    eps: float,
    *,
    positive: bool,
    centre: bool,
    alone: bool,
) -> Tensor:
    """The alphas (targets, n_alphas), largest first: from the least with coef = 0 down to its part `eps`.

    For each target `alone`, or the same for all.
    """
    R = targets.shape[1]
    if not isinstance(alphas, int | np.integer):
        listed = np.asarray(alphas, dtype=np.float64).ravel()
        if not len(listed):
            raise InputError("alphas must be a whole number >= 1, or numbers >= 0; it is empty")
        for k, alpha in enumerate(listed):
            if not 0 <= alpha < np.inf:
                raise InputError(f"alphas[{k}] == {alpha:g}, must be >= 0.0 and finite")
        given: Array = np.sort(listed)[::-1].copy()
        return tensor(given, targets.device).expand(R, -1)
    if alphas < 1 or not 0 < number("eps", eps) <= 1:
        raise InputError(f"alphas is {alphas} and eps {eps}; need alphas >= 1 and 0 < eps <= 1")
    if ratio == 0:
        raise InputError("l1_ratio is 0: no alpha makes coef_ zero, so that a path needs alphas=[...]")
    pulled = targets - linear.average(targets, weights) if centre else targets
    if weights is not None:
        pulled = weights.unsqueeze(1) * pulled
    total = linear.objective_scale(weights, len(targets))
    slopes = made.map.adjoint(pulled.mT.contiguous()) * made.scale
    largest = (slopes if positive else slopes.abs()).amax(1).clamp(min=0) / total / ratio
    if not alone:
        largest = largest.amax().expand(R)
    tiny = float(np.finfo(np.float64).resolution)
    size = targets.abs().amax(0) * (made.scale.amax() / total**0.5)
    grid = largest.unsqueeze(1) * tensor(np.geomspace(1, eps, alphas), targets.device)
    # rounding, or nothing at all
    return torch.where((largest <= tiny * size).unsqueeze(1), torch.full_like(grid, tiny), grid)
