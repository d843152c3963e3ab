"""A problem in the terms of other packages: a loss, a target, l1 and l2, bounds or groups."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from sureprox.problems import Problem
from sureprox.problems.losses import Huber, LeastSquares, Logistic, Poisson, Quantile, Softmax, SquaredHinge
from sureprox.problems.operators import Operator, Sparse
from sureprox.problems.penalties import GroupL2
from sureprox.problems.separable import is_separable

Numbers = npt.NDArray[np.float64]
NAMES: dict[type, str] = {
    LeastSquares: "squares",
    Logistic: "logistic",
    Huber: "huber",
    SquaredHinge: "squared hinge",
    Poisson: "poisson",
    Quantile: "quantile",
    Softmax: "softmax",
}


@dataclass(frozen=True)
class Question:
    """`bounds`: none, nonnegative or box. `sizes`: l1 and l2 (B,), low and high (B, n), lam of the groups (B,)."""

    loss: str
    A: Tensor | Sparse
    target: Tensor  # (B, m)
    bounds: str
    sizes: Mapping[str, Tensor]
    groups: list[list[int]] | None = None
    group_weights: Numbers | None = None

    @property
    def sparse(self) -> bool:
        return isinstance(self.A, Sparse)

    @property
    def one_dense(self) -> bool:
        """One matrix for all problems, as a tensor."""
        return isinstance(self.A, Tensor) and self.A.ndim == 2

    def has(self, name: str) -> bool:
        """Whether l1, or l2, is positive in all problems."""
        return name in self.sizes and bool((self.sizes[name] > 0).all())

    def lacks(self, name: str) -> bool:
        """Whether it is zero in all problems."""
        return name not in self.sizes or bool((self.sizes[name] == 0).all())


def question(problem: Problem) -> Question | None:
    """None for what no other package solves: weights or offsets of rows, weights of coordinates, operators."""
    f, r = problem.f, problem.r
    if type(problem) is not Problem or type(f) not in NAMES or getattr(f, "weights", None) is not None:
        return None
    A: Any = f.A  # type: ignore[attr-defined]
    if isinstance(A, Operator) and type(A) is not Sparse:
        return None
    target = _target(f)
    if target is None:
        return None
    name = NAMES[type(f)]
    if type(r) is GroupL2:
        if not bool(r.grouped.all()):
            return None
        groups = [(r.groups == g).nonzero()[:, 0].tolist() for g in range(r.count)]
        sizes = {"lam": r.lam.expand(problem.batch)}
        return Question(name, A, target, "none", sizes, groups, r.weights.double().cpu().numpy())
    if not is_separable(r):
        return None
    l1, l2 = (_each(size, problem.batch) for size in (r.l1, r.l2))
    if l1 is None or l2 is None:
        return None
    low, high = _bound(r.low, problem, -torch.inf), _bound(r.high, problem, torch.inf)
    open_above = bool(torch.isinf(high).all())
    bounds = "box"
    if open_above and bool(torch.isinf(low).all()):
        bounds = "none"
    elif open_above and bool((low == 0).all()):
        bounds = "nonnegative"
    return Question(name, A, target, bounds, {"l1": l1, "l2": l2, "low": low, "high": high})


def _target(f: Any) -> Tensor | None:
    """(B, m): b or y; None where an offset makes the problem another one."""
    if getattr(f, "offset", None) is not None:
        return None
    if isinstance(f, SquaredHinge):
        return (f.b > 0).to(f.b.dtype) if bool((f.b.abs() == 1).all()) else None
    target: Tensor = f.y if isinstance(f, Logistic | Poisson | Softmax) else f.b
    return target


def _each(size: Tensor | None, batch: int) -> Tensor | None:
    """(B,), zeros for no part; None for a weight of its own for each coordinate."""
    if size is None:
        return torch.zeros(batch)
    return None if size.ndim > 1 and size.shape[1] > 1 else size.reshape(-1).expand(batch)


def _bound(size: Tensor | None, problem: Problem, none: float) -> Tensor:
    if size is None:
        return torch.full((problem.batch, 1), none).expand(problem.batch, problem.n)
    return (size.unsqueeze(1) if size.ndim == 1 else size).expand(problem.batch, problem.n)


def matrices(A: Tensor | Sparse) -> list[Any]:
    """One for each problem, or a single one that is shared; a sparse one as SciPy's, by columns."""
    if isinstance(A, Sparse):
        from scipy.sparse import csr_matrix

        parts = (part.detach().cpu().numpy() for part in (A.values.double(), A.places, A.starts))
        return [csr_matrix(tuple(parts), shape=A.shape).tocsc()]
    dense = A.detach().cpu().double().numpy()
    return [np.asfortranarray(one) for one in (dense if dense.ndim == 3 else dense[None])]
