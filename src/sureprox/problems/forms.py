"""What a problem is: the one place that asks. Everybody else reads a `Form` and, for its numbers, `dense`."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from math import log
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.problems.blocks import BLOCKS, GroupBall, Groups, SparseGroup
from sureprox.problems.losses import Huber, LeastSquares, Logistic, Poisson, Quantile, Softmax, SquaredHinge
from sureprox.problems.operators import Operator, Sparse
from sureprox.problems.problem import Problem
from sureprox.problems.separable import L1, Separable, column, is_separable
from sureprox.problems.smooth import LinearModel
from sureprox.problems.weighted import WeightedLeastSquares


class Loss(StrEnum):
    SQUARES = "least squares"
    WEIGHTED_SQUARES = "weighted least squares"
    LOGISTIC = "logistic"
    POINTWISE = "pointwise"  # another one of this package, one number for each row
    SOFTMAX = "softmax"
    OWN = "own"


class Shape(StrEnum):
    """Of the penalty."""

    L1 = "l1"  # one number for each instance
    WEIGHTED_L1 = "weighted l1"
    ZERO = "zero"
    SEPARABLE = "separable"  # with l2 or bounds
    GROUPS = "groups"
    BALLS = "balls"
    OWN = "own"


SCREENED = (LeastSquares, Huber, Quantile, SquaredHinge, Logistic, Poisson, Softmax)
LOSSES = {
    LeastSquares: Loss.SQUARES,
    WeightedLeastSquares: Loss.WEIGHTED_SQUARES,
    Logistic: Loss.LOGISTIC,
    **dict.fromkeys((Huber, Quantile, SquaredHinge, Poisson), Loss.POINTWISE),
    Softmax: Loss.SOFTMAX,
}
PLAINLY_DENSE = (Loss.SQUARES, Loss.WEIGHTED_SQUARES, Loss.LOGISTIC)  # whose products kernels take


@dataclass(frozen=True)
class Form:
    """One instance of a problem, without its numbers: what decides how it is solved. The batch size is no part of it.

    Only exactly the classes of this package have a name here: a subclass may mean something else, and is OWN.
    """

    loss: Loss  # of a dense A, else OWN
    penalty: Shape
    shared: bool  # one A for all instances
    contiguous: bool  # A lies in one piece, on a GPU at a multiple of 16 bytes
    weighted: bool  # rows of the loss have weights
    shifted: bool
    m: int  # rows of A; 0 where there is none, or no dense one
    n: int
    dtype: torch.dtype
    device: torch.device
    differentiable: bool  # some of its tensors require a gradient
    sparse_loss: Loss = Loss.OWN  # of a sparse A with numbers of 32 bits for its places

    @property
    def lasso(self) -> bool:
        """1/2 |A x - b|^2 + lam |x|_1."""
        return self.loss is Loss.SQUARES and self.penalty is Shape.L1

    @property
    def separable(self) -> bool:
        """The penalty is a sum over coordinates of this package."""
        return self.penalty in (Shape.L1, Shape.WEIGHTED_L1, Shape.ZERO, Shape.SEPARABLE)

    @property
    def own_matrices(self) -> bool:
        """An A for each instance, in one piece."""
        return self.loss in PLAINLY_DENSE and not self.shared and self.contiguous


def loss_of(problem: Problem) -> Loss:
    """Of f alone, whatever the problem makes of it; only with a dense A, which all that asks for a loss reads."""
    f = problem.f
    if not isinstance(f, LinearModel) or not isinstance(f.A, Tensor):
        return Loss.OWN
    if type(f) is LeastSquares and f.root is not None:
        return Loss.WEIGHTED_SQUARES
    if type(f) is Logistic and f.offset is not None:
        return Loss.POINTWISE
    return LOSSES.get(type(f), Loss.OWN)


def sparse_loss_of(problem: Problem) -> Loss:
    """The same with a sparse A."""
    f = problem.f
    if not isinstance(f, LinearModel) or type(f.A) is not Sparse or f.A.starts.dtype != torch.int32:
        return Loss.OWN
    if getattr(f, "root", None) is not None or getattr(f, "offset", None) is not None:
        return Loss.OWN
    return LOSSES.get(type(f), Loss.OWN)


def has_dense(problem: Problem) -> bool:
    """Whether no operator takes the place of A."""
    return not isinstance(getattr(problem.f, "A", None), Operator)


def sparse_entries(problem: Problem) -> int | None:
    """How many numbers a sparse A of a loss of this package holds; None where A is something else."""
    f = problem.f
    known = type(f) in SCREENED and isinstance(f, LinearModel) and f.copies == 1 and type(f.A) is Sparse
    return len(f.A.values) if known else None  # type: ignore[attr-defined]


def can_screen(problem: Problem) -> bool:
    """Whether f and r are of classes of this package that say what a duality gap proves (`sureprox.support.screening`).

    `WeightedLeastSquares` does not: its intercept is in every column.
    """
    known = problem.has_duality_gap and type(problem.f) in SCREENED
    return known and (is_separable(problem.r) or type(problem.r) in BLOCKS)


def has_second_derivatives(problem: Problem) -> bool:
    """Whether f is a loss of this package whose Hessian is made of columns of a dense A."""
    return type(problem) is Problem and loss_of(problem) is not Loss.OWN


def shape_of(problem: Problem) -> Shape:
    """Of r alone, whatever name it was made by."""
    r = problem.r
    if isinstance(r, Separable) and is_separable(r):
        if r.l2 is not None or r.low is not None or r.high is not None:
            return Shape.SEPARABLE
        if r.l1 is None:
            return Shape.ZERO
        return Shape.L1 if r.l1.ndim < 2 else Shape.WEIGHTED_L1
    if type(r) is GroupBall:
        return Shape.BALLS
    return Shape.GROUPS if type(r) in BLOCKS else Shape.OWN


def form_of(problem: Problem) -> Form:
    f = problem.f
    plain = type(problem) is Problem and getattr(f, "copies", 1) == 1
    A = f.A if plain and isinstance(f, LinearModel) and isinstance(f.A, Tensor) else None
    return Form(
        loss=loss_of(problem) if plain else Loss.OWN,
        penalty=shape_of(problem) if plain else Shape.OWN,
        shared=A is not None and A.ndim == 2,
        contiguous=A is not None and A.is_contiguous() and (A.device.type == "cpu" or A.data_ptr() % 16 == 0),
        weighted=type(f) is WeightedLeastSquares or getattr(f, "weights", None) is not None,
        shifted=problem.shift is not None,
        m=0 if A is None else A.shape[-2],
        n=problem.n,
        dtype=problem.dtype,
        device=problem.device,
        differentiable=problem.requires_grad,
        sparse_loss=sparse_loss_of(problem) if plain else Loss.OWN,
    )


class Dense(NamedTuple):
    """The numbers of a loss with a dense A."""

    A: Tensor  # (B, m, n), or (m, n) shared by all
    target: Tensor  # (B, m): b, or the labels y


def dense(problem: Problem) -> Dense:
    """Of a problem whose form says that it has them."""
    f = problem.f
    assert isinstance(f, LeastSquares | Logistic)
    assert isinstance(f.A, Tensor)
    return Dense(f.A, f.b if isinstance(f, LeastSquares) else f.y)


def sparse(problem: Problem) -> tuple[Sparse, Tensor]:
    """A and the target of a problem whose form has a `sparse_loss`."""
    f = problem.f
    assert isinstance(f, LeastSquares | Logistic)
    assert isinstance(f.A, Sparse)
    return f.A, f.b if isinstance(f, LeastSquares) else f.y


def is_logistic(problem: Problem) -> bool:
    return isinstance(problem.f, Logistic)


def curvature_of(problem: Problem) -> float | None:
    """The bound on the second derivative of a logistic loss that its L is made of; None for other losses."""
    return problem.f.curvature if isinstance(problem.f, Logistic) else None


def hessian_diagonal(problem: Problem) -> Vectors | None:
    """(B, n) h_j >= d^2f/dx_j^2 everywhere, as far as L is a bound too: (A' diag(c) A)_jj, c = `row_curvature`.

    Where the columns of A are not at hand, the mean of h, as far as one product tells it: |diag(c)^1/2 A v|^2 / n for a
    fixed v of signs. None where f is no linear model.
    """
    f = problem.f
    if not isinstance(f, LinearModel):
        return None
    A, c = f.map, f.row_curvature
    if A.knows_columns and f.copies == 1:
        return A.column_squares(c)
    signs = torch.randint(2, (f.n,), generator=torch.Generator().manual_seed(0)).to(c) * 2 - 1
    mean = (c * A.forward(signs.expand(len(c), -1)).square()).sum(1, keepdim=True) / f.n
    return mean.expand(-1, f.n)


def repeated(problem: Problem, count: int) -> Problem | None:
    """One instance of a linear model with an L1 penalty as a batch of equal ones that share its matrix."""
    f = problem.f
    if not isinstance(f, LinearModel) or not isinstance(f.A, Tensor) or shape_of(problem) is not Shape.L1:
        return None
    shared = f._map(lambda name, value: value.reshape(value.shape[-2:]) if name == "A" else value)
    return Problem(shared.repeated(count), L1.trusted(lam=lam_of(problem).reshape(-1)[:1].expand(count)))


def lam_of(problem: Problem) -> Tensor:
    """lam, () or (B,), of a penalty lam |x|_1."""
    assert isinstance(problem.r, Separable)
    assert problem.r.l1 is not None
    return problem.r.l1


class Pieces(NamedTuple):
    """The numbers of a separable penalty, each () or broadcastable to (B, n): zero and infinite where it has none."""

    l1: Tensor
    l2: Tensor
    low: Tensor
    high: Tensor


def parts_of(problem: Problem) -> dict[str, Tensor | None]:
    """l1, l2, low and high of a separable penalty, broadcastable to (B, n), None for what it does not have."""
    r = problem.r
    assert isinstance(r, Separable)
    given = {name: getattr(r, name) for name in Pieces._fields}
    return {name: None if value is None else column(value) for name, value in given.items()}


def pieces_of(problem: Problem) -> Pieces:
    default = {"l1": 0.0, "l2": 0.0, "low": -torch.inf, "high": torch.inf}
    nothing = {
        name: torch.full((1, 1), value, dtype=problem.dtype, device=problem.device) for name, value in default.items()
    }
    given = parts_of(problem).items()
    return Pieces(**{name: nothing[name] if value is None else value for name, value in given})


def groups_of(problem: Problem) -> SparseGroup:
    """The penalty of a problem whose `Form.penalty` is `Shape.GROUPS`."""
    assert isinstance(problem.r, SparseGroup)
    return problem.r


def value_at_zero(problem: Problem) -> Scalars | None:
    """F(0) in float64, where that takes no product with A: for squares and the logistic loss, without weights."""
    f, r = problem.f, problem.r
    weighted = getattr(f, "weights", None) is not None or getattr(f, "offset", None) is not None
    if type(f) not in (LeastSquares, Logistic) or weighted or problem.shift is not None or not is_separable(r):
        return None
    if isinstance(f, LeastSquares):
        value = 0.5 * f.b.double().square().sum(1)
    else:
        value = torch.full((problem.batch,), log(2), dtype=torch.float64, device=problem.device)
    if not r.restricts:
        return value
    zero = torch.zeros(problem.batch, problem.n, dtype=problem.dtype, device=problem.device)
    return torch.where(r.excludes_zero(zero).any(1), torch.inf, value)


def scaled(problem: Problem, scale: Scalars) -> Problem:
    """f + t r, t = `scale` (B,), for a penalty of this package."""
    r = problem.r
    assert isinstance(r, Separable | Groups)
    return Problem(problem.f, r.scaled(scale), problem.shift)


def spread_over(problem: Problem, count: int) -> Problem:
    """Every instance `count` times in a row; an A that all share is not copied."""
    index = torch.arange(problem.batch, device=problem.device).repeat_interleave(count)
    return problem.select(index)


def along(problem: Problem, scales: Tensor) -> Problem:
    """f + t r for every t of `scales` (B, K), rows i K + k, without a copy of any A; for linear models."""
    f, r = problem.f, problem.r
    assert isinstance(f, LinearModel)
    assert isinstance(r, Separable)
    count = scales.shape[1]
    index = torch.arange(problem.batch, device=problem.device).repeat_interleave(count)
    return Problem(f.stacked(count), r.select(index).scaled(scales.reshape(-1).to(problem.dtype)))


def largest_scale(problem: Problem, solved: Callable[[Problem], Tensor]) -> Scalars:
    """t_max (B,): for t >= t_max zero solves f + t r, with the best values of the coordinates without a penalty.

    `solved` solves the problem in which all others are held at zero.
    """
    r = problem.r
    assert isinstance(r, Separable | Groups)
    x = torch.zeros(problem.batch, problem.n, dtype=problem.dtype, device=problem.device)
    up, down = r.loose(x)
    free = up | down
    if bool(free.any()):
        held = torch.where(free, torch.inf, 0.0).to(problem.dtype)
        x = solved(Problem(problem.f, Separable(low=torch.where(down, -held, 0.0), high=torch.where(up, held, 0.0))))
        x = x.to(problem.dtype)
    g = torch.where(free, 0.0, problem.grad(x))
    s = r.flat_range(g)[1]
    if bool((s == 0).any()):
        raise InputError("no size of this penalty makes zero a solution; a path needs l1 > 0, or groups")
    return torch.where(torch.isfinite(s), 1 / s, torch.ones_like(s))
