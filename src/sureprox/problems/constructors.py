"""The problems people name: one call each.

A number of the penalty, such as lam, is one for all problems or one for each. With one A and R responses b (R, m), K
numbers with K != R, or numbers (R, K) or (1, K), make the grid of all R x K problems: problem r K + k has response r.
"""

from typing import Any, TypeVar

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.problems import checks
from sureprox.problems.blocks import GroupL2
from sureprox.problems.losses import LeastSquares, Logistic
from sureprox.problems.problem import Problem
from sureprox.problems.separable import L1, ElasticNet, NonNegative
from sureprox.problems.smooth import LinearModel

M = TypeVar("M", bound=LinearModel)
Grid = tuple[int, ...]


def lasso(A: Any, b: Any, lam: Any) -> Problem:
    """min_x 1/2 |A x - b|^2 + lam |x|_1 for every instance.

    A: (B, m, n), or (m, n) shared by the batch; b: (B, m) or (m,); lam: a number or (B,). One A, one b and K values of
    lam are a regularisation path as one batch. One A, b (R, m), and lam (K,) with K != R, (1, K) or (R, K) are the
    R x K problems of all responses and values; `Solution.unflatten` gives their answers these two axes.
    """
    f, (weight,), grid = _spread(LeastSquares(A, b), lam=lam)
    return Problem(f, L1(weight), grid=grid)


def logistic(A: Any, y: Any, lam: Any, curvature: float = 0.25) -> Problem:
    """min_x mean_i [log(1 + e^{a_i'x}) - y_i a_i'x] + lam |x|_1 for every instance, y in {0, 1}.

    Shapes as in `lasso`. `curvature=1.0` gives the paper's L, four times larger than needed.
    """
    f, (weight,), grid = _spread(Logistic(A, y, curvature), lam=lam)
    return Problem(f, L1(weight), grid=grid)


def elastic_net(A: Any, b: Any, l1: Any, l2: Any) -> Problem:
    """min_x 1/2 |A x - b|^2 + l1 |x|_1 + l2/2 |x|^2 for every instance.

    A: (m, n), or (B, m, n), or an operator; b: (B, m) or (m,); l1 and l2: numbers, (B,), or grids as lam in `lasso`.
    """
    f, (first, second), grid = _spread(LeastSquares(A, b), l1=l1, l2=l2)
    return Problem(f, ElasticNet(first.unsqueeze(1), second.unsqueeze(1)), grid=grid)


def nonnegative(A: Any, b: Any, l1: Any = 0.0) -> Problem:
    """min_{x >= 0} 1/2 |A x - b|^2 + l1 sum_j x_j for every instance; shapes as in `elastic_net`."""
    f, (weight,), grid = _spread(LeastSquares(A, b), l1=l1)
    return Problem(f, NonNegative(weight.unsqueeze(1)), grid=grid)


def group_lasso(A: Any, b: Any, groups: Any, lam: Any, weights: Any = None) -> Problem:
    """min_x 1/2 |A x - b|^2 + lam sum_g w_g |x_g| for every instance; shapes as in `elastic_net`.

    `groups`: the group of each coordinate, (n,), or lists of coordinates; `weights` w (G,), by default 1 (`GroupL2`).
    """
    f, (weight,), grid = _spread(LeastSquares(A, b), lam=lam)
    return Problem(f, GroupL2(groups, weight, weights), grid=grid)


def _spread(f: M, **numbers: Any) -> tuple[M, list[Tensor], Grid]:
    """f for as many instances as the numbers ask for, each of the numbers as (B,), and the grid of these B."""
    R, shared = f.shape[0], f.map.shared
    shapes = {name: _shape(value) for name, value in numbers.items()}
    longest = [shape[0] for shape in shapes.values() if len(shape) == 1 and shape[0] not in (1, R)]
    wide = [shape for shape in shapes.values() if len(shape) == 2]
    if not shared or not (longest or wide):  # one for each instance
        return f, [checks.weight(value, R, f.like, name) for name, value in numbers.items()], (R,)
    K = longest[0] if longest else max(shape[1] for shape in wide)
    made = [_on_grid(name, value, shapes[name], R, K, f.like) for name, value in numbers.items()]
    grid = (K,) if R == 1 and not wide else (R, K)
    index = torch.arange(R, device=f.like.device).repeat_interleave(K)
    return (f.repeated(K) if R == 1 else f.select(index)), made, grid


def _shape(value: Any) -> tuple[int, ...]:
    return tuple(value.shape) if isinstance(value, Tensor) else checks.as_array(value).shape


def _on_grid(name: str, value: Any, shape: tuple[int, ...], R: int, K: int, like: Tensor) -> Tensor:
    """The number for response r and place k at r K + k, (R K,)."""
    known = {(): (1, 1), (1,): (1, 1), (K,): (1, K), (R,): (R, 1)}  # K != R, or all are given with two axes
    axes = known.get(shape, shape)
    if len(axes) != 2 or axes[0] not in (1, R) or axes[1] not in (1, K):
        raise InputError(
            f"{name} has shape {shape}; {R} right-hand sides need a number, ({R},), or a grid: (K,), (1, K) or ({R}, K)"
        )
    flat = value if isinstance(value, Tensor) else checks.numbers(name, value, like.dtype, like.device)
    return checks.weight(flat.reshape(axes).expand(R, K).reshape(-1), R * K, like, name)
