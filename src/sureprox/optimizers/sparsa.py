"""SpaRSA: proximal gradient steps of Barzilai-Borwein length."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, State, resolve_step_size
from sureprox.problems import Problem

KEPT = 5  # values of F that a new one is compared with
DECREASE = 0.005  # part of |x+ - x|^2 / alpha by which F has to fall
LONGEST = 1e6  # a step, in units of 1/L
ROUNDING = 8  # units of roundoff of its terms by which a value of F may be wrong


@dataclass(frozen=True)
class SpaRSAState(State):
    grad: Vectors  # grad f(x)
    values: Tensor  # (B, 5) F at the last accepted points, the first one repeated; before that the largest number
    length: Scalars  # alpha of the trial that comes next; 0 before anything was evaluated


class SpaRSA(Optimizer[SpaRSAState]):
    """x+ = prox_{alpha r}(x - alpha grad f(x)),  alpha = |s|^2 / <s, y>,

    s and y being the last changes of x and of grad f (Barzilai and Borwein), at least 1/L. It is accepted if
    F(x+) <= max(the last five values of F) - 0.005 |x+ - x|^2 / alpha: F need not fall at every step. The first step
    evaluates x_0, the next has alpha = 1/L.

    A step evaluates f and its gradient once, at x+: where the trial is rejected, x stays and alpha is halved.
    """

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> SpaRSAState:
        x = problem.start(x0)
        step = resolve_step_size(problem, step_size)
        values = torch.full_like(step, torch.finfo(step.dtype).max).unsqueeze(1).repeat(1, KEPT)
        return SpaRSAState(
            x=x, k=0, step_size=step, grad=torch.zeros_like(x), values=values, length=torch.zeros_like(step)
        )

    def step(self, problem: Problem, state: SpaRSAState) -> SpaRSAState:
        begun = state.length > 0
        length = torch.where(begun, state.length, state.step_size)
        trial = problem.descended(state.x, state.grad, length.unsqueeze(1))
        x = torch.where(begun.unsqueeze(1), trial, state.x)
        y = problem.centred(x)
        smooth, grad = problem.f.value_and_grad(y)
        penalty = problem.r.value(y)
        value, doubt = smooth + penalty, ROUNDING * torch.finfo(x.dtype).eps * (smooth.abs() + penalty.abs())
        move, turn = x - state.x, grad - state.grad
        size = move.square().sum(1)
        finite = torch.isfinite(value) & torch.isfinite(grad).all(1)
        accepted = finite & (value <= state.values.amax(1) - DECREASE * size / length + doubt)
        # a start outside the domain of r is left by the first proximal step, whatever F is there
        accepted = accepted | ~begun
        curvature = (move * turn).sum(1)
        known = begun & (size > 0)
        shortest = state.step_size.reciprocal() / LONGEST
        curvature = torch.where(known, curvature / torch.where(known, size, 1.0), 0.0).clamp(min=shortest)
        following = torch.where(known, 1 / curvature, torch.where(begun, length, state.step_size))
        known_value = _finite(value).unsqueeze(1)
        first = state.values[:, :1] == torch.finfo(value.dtype).max
        kept = torch.where(first, known_value, torch.cat([state.values[:, 1:], known_value], 1))
        take = accepted.unsqueeze(1)
        return replace(
            state,
            x=torch.where(take, x, state.x),
            k=state.k + 1,
            grad=torch.where(take, grad, state.grad),
            values=torch.where(take, kept, state.values),
            length=torch.where(accepted, following, length / 2),
        )


def _finite(value: Scalars) -> Scalars:
    """The largest number in place of an infinite one."""
    return value.nan_to_num(nan=torch.finfo(value.dtype).max)
