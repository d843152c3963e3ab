"""Proximal Newton: the Hessian of f as the metric of the proximal step."""

from dataclasses import replace

import torch
from torch import Generator, Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, State, resolve_step_size
from sureprox.optimizers.classical import FISTA
from sureprox.problems import Problem
from sureprox.problems.smooth import LinearModel, Smooth
from sureprox.problems.spectrum import largest_eigenvalue

LENGTHS = 30  # powers of 1/2 that are tried
DECREASE = 1e-4  # part of the decrease that the model promises
ROUNDING = 8  # units of roundoff of its terms by which a value of F may be wrong


class ProxNewton(Optimizer[State]):
    """x+ = x + tau (v - x),  v = argmin_v <grad f(x), v - x> + 1/2 <v - x, H (v - x)> + r(v),  H = Hessian of f at x.

    tau is the first of 1, 1/2, 1/4, ... with F(x+) <= F(x) + 1e-4 tau (<grad f(x), v - x> + r(v) - r(x)), for each
    instance alone; where there is none, x stays. v is the point after `inner` steps of restarted FISTA on the model, or
    after the first of them if that is lower: so a rough v is a direction of descent too.

    For f(x) = phi(A x) with a dense A. A step is one Newton step. It costs two products with A and one with A', the
    Hessian's root R A (as large as A, for every instance), where n <= m its Gram matrix (m n^2), and `inner` products
    with either: worth it where a product with A is cheap beside everything else, or where m is much larger than n.
    """

    uses_lipschitz = False

    def __init__(self, inner: int = 100) -> None:
        if isinstance(inner, bool) or not isinstance(inner, int) or inner < 1:
            raise InputError(f"inner is {inner!r}; pass a whole number >= 1: steps of FISTA for each Newton step")
        self.inner = inner

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> State:
        _linear(problem)
        x = problem.start(x0)
        step = torch.ones_like(x[:, 0]) if step_size is None else resolve_step_size(problem, step_size)
        return State(x=x, k=0, step_size=step)  # 1/L plays no part here

    def step(self, problem: Problem, state: State) -> State:
        f, x = _linear(problem), state.x
        y = problem.centred(x)
        image = f.inner(y)
        value, penalty, grad = f.value_at(image), problem.r.value(y), f.grad_at(image)
        model, gentle = _model(f, y, grad)
        best = self._lowest(Problem(model, problem.r, problem.shift), x, gentle)
        there = problem.centred(best)
        turn = f.inner(there) - image
        rise = (grad * (best - x)).sum(1) + problem.r.value(there) - penalty
        start, doubt = value + penalty, ROUNDING * torch.finfo(x.dtype).eps * (value.abs() + penalty.abs())
        found, reached = torch.zeros_like(value, dtype=torch.bool), x
        for i in range(LENGTHS):
            tau = 0.5**i
            point = best if i == 0 else x + tau * (best - x)  # the whole step keeps its zeros
            lower = f.value_at(image + tau * turn) + problem.r.value(problem.centred(point))
            enough = (lower <= start + DECREASE * tau * rise + doubt) | ~torch.isfinite(start)
            take = ~found & enough & torch.isfinite(lower)
            reached = torch.where(take.unsqueeze(1), point, reached)
            found = found | take
        return replace(state, x=reached, k=state.k + 1)

    def _lowest(self, model: Problem, x: Vectors, step_size: Scalars) -> Vectors:
        solver = FISTA(restart=True)
        first = state = solver.step(model, solver.init(model, x, step_size=step_size))
        for _ in range(self.inner - 1):
            state = solver.step(model, state)
        value, before = model.objective(state.x), model.objective(first.x)
        # a tie is the last one's, so that rounding does not choose
        rises = value > before + ROUNDING * torch.finfo(x.dtype).eps * (value.abs() + before.abs())
        return torch.where(rises.unsqueeze(1), first.x, state.x)


class _Model(Smooth):
    """q(v) = <g, v - y> + 1/2 |R (v - y)|^2, or 1/2 <v - y, H (v - y)> with a square H = R'R."""

    def __init__(self, y: Vectors, g: Vectors, root: Tensor, gram: Tensor | None) -> None:
        self.y, self.g, self.root, self.gram = y, g, root, gram

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0], self.y.shape[1]

    def value(self, v: Vectors) -> Scalars:
        move = v - self.y
        return (move * (self.g + self._bent(move) / 2)).sum(1)

    def grad(self, v: Vectors) -> Vectors:
        return self.g + self._bent(v - self.y)

    def _bent(self, move: Vectors) -> Vectors:
        """H move."""
        column = move.unsqueeze(2)
        bent = self.root.mT @ (self.root @ column) if self.gram is None else self.gram @ column
        return bent.squeeze(2)

    def lipschitz(self, exact: bool = False) -> Scalars:
        return largest_eigenvalue(self.root)


def _linear(problem: Problem) -> LinearModel:
    f = problem.f
    if isinstance(f, LinearModel) and isinstance(f.A, Tensor):
        return f
    got = f"{type(f).__name__} with a {type(f.A).__name__}" if isinstance(f, LinearModel) else type(f).__name__
    raise InputError(f"ProxNewton needs f(x) = phi(A x) with a dense A, got {got}; take PANOC instead")


def _model(f: LinearModel, y: Vectors, grad: Vectors) -> tuple[_Model, Scalars]:
    """The model of f at y, and a step size for it."""
    columns = f.map.dense()
    root = f.hessian_root(y, columns.expand(y.shape[0], *columns.shape[-2:]))
    gram = root.mT @ root if root.shape[2] <= root.shape[1] else None
    model = _Model(y, grad, root, gram)
    L = model.lipschitz()
    return model, 1 / torch.where(L > 0, L, 1.0)
