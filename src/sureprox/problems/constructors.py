"""The problems people name: one call each."""

from typing import Any, TypeVar

import numpy as np
from torch import Tensor

from sureprox.problems import checks
from sureprox.problems.blocks import GroupL2
from sureprox.problems.losses import LeastSquares, Logistic
from sureprox.problems.problem import Problem
from sureprox.problems.separable import L1, ElasticNet, NonNegative
from sureprox.problems.smooth import LinearModel

M = TypeVar("M", bound=LinearModel)


def lasso(A: Any, b: Any, lam: Any) -> Problem:
    """min_x 1/2 |A x - b|^2 + lam |x|_1 for every instance.

    A: (B, m, n), or (m, n) shared by the batch; b: (B, m) or (m,); lam: a number or (B,). One A, one b and many lam
    are a regularisation path as one batch.
    """
    f = _spread(LeastSquares(A, b), lam)
    return Problem(f, L1(checks.weight(lam, f.shape[0], f.like)))


def logistic(A: Any, y: Any, lam: Any, curvature: float = 0.25) -> Problem:
    """min_x mean_i [log(1 + e^{a_i'x}) - y_i a_i'x] + lam |x|_1 for every instance, y in {0, 1}.

    Shapes as in `lasso`. `curvature=1.0` gives the paper's L, four times larger than needed.
    """
    f = _spread(Logistic(A, y, curvature), lam)
    return Problem(f, L1(checks.weight(lam, f.shape[0], f.like)))


def elastic_net(A: Any, b: Any, l1: Any, l2: Any) -> Problem:
    """min_x 1/2 |A x - b|^2 + l1 |x|_1 + l2/2 |x|^2 for every instance.

    A: (B, m, n), or (m, n) shared by the batch, or an operator; b: (B, m) or (m,); l1 and l2: numbers or (B,).
    """
    f = _spread(_spread(LeastSquares(A, b), l1), l2)
    return Problem(f, ElasticNet(_each("l1", l1, f), _each("l2", l2, f)))


def nonnegative(A: Any, b: Any, l1: Any = 0.0) -> Problem:
    """min_{x >= 0} 1/2 |A x - b|^2 + l1 sum_j x_j for every instance; shapes as in `elastic_net`."""
    f = _spread(LeastSquares(A, b), l1)
    return Problem(f, NonNegative(_each("l1", l1, f)))


def group_lasso(A: Any, b: Any, groups: Any, lam: Any, weights: Any = None) -> Problem:
    """min_x 1/2 |A x - b|^2 + lam sum_g w_g |x_g| for every instance; shapes as in `elastic_net`.

    `groups`: the group of each coordinate, (n,), or lists of coordinates; `weights` w (G,), by default 1 (`GroupL2`).
    """
    f = _spread(LeastSquares(A, b), lam)
    return Problem(f, GroupL2(groups, checks.weight(lam, f.shape[0], f.like), weights))


def _each(name: str, value: Any, f: LinearModel) -> Tensor:
    """One for each instance, as (B, 1), which is never taken for one for each coordinate."""
    return checks.weight(value, f.shape[0], f.like, name).unsqueeze(1)


def _spread(f: M, lam: Any) -> M:
    """f with its single right-hand side repeated for every value of lam, where A is shared; else f as it is."""
    count = len(lam) if isinstance(lam, Tensor | np.ndarray | list | tuple) and np.ndim(lam) == 1 else 1
    if f.map.shared and f.shape[0] == 1 and count > 1:
        return f.repeated(count)
    return f
