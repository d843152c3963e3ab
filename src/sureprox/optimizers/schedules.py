"""Proximal gradient steps whose lengths are fixed beforehand: the silver schedule, and any other, made or learned."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, Seen, State, resolve_step_size
from sureprox.problems import Problem

SILVER_RATIO = 1 + 2**0.5


@dataclass(frozen=True)
class SilverState(State):
    place: Tensor  # (B,) steps taken since the start of each instance


class Silver(Optimizer[SilverState]):
    """x_k = prox_{a_k r/L}(x_{k-1} - a_k grad f(x_{k-1})/L), a_k = 1 + rho^(v(k) - 1), rho = 1 + sqrt 2.

    v(k) is the exponent of 2 in k = 1, 2, ...: a_k = 1.41, 2, 1.41, 3.41, 1.41, 2, 1.41, 6.83, ...; no momentum.
    F(x_k) - F* falls as k^(-1.27) where k + 1 is a power of two; after a long step F may rise for a while.
    """

    same_every_step = True

    def init(
        self,
        problem: Problem,
        x0: Vectors,
        *,
        generator: torch.Generator | None = None,
        step_size: Scalars | None = None,
    ) -> SilverState:
        step = resolve_step_size(problem, step_size)
        return SilverState(x=problem.start(x0), k=0, step_size=step, place=torch.zeros_like(step, dtype=torch.int64))

    def move(self, problem: Problem, state: SilverState, seen: Seen) -> SilverState:
        place = state.place + 1
        exponent = torch.log2((place & -place).to(torch.float64))
        length = (1 + SILVER_RATIO ** (exponent - 1)).to(state.step_size.dtype) * state.step_size
        return replace(state, x=problem.descended(state.x, seen.grad, length.unsqueeze(1)), k=state.k + 1, place=place)


@dataclass(frozen=True)
class ScheduleState(State):
    y: Vectors  # where the gradient is taken
    t: Scalars  # FISTA's t_k, for the steps after the schedule
    place: Tensor  # (B,) steps taken since the start of each instance


class StepSchedule(Optimizer[ScheduleState]):
    """x_{k+1} = prox_{a_k r/L}(y_k - a_k grad f(y_k)/L), y_{k+1} = x_{k+1} + b_k (x_{k+1} - x_k), y_0 = x_0.

    `steps` are a_0, ..., a_{H-1} > 0, in units of 1/L; `momenta` are b_0, ..., b_{H-1}, None: all zero. Gradients reach
    both, so they can be learned from a few problems. What follows the schedule converges from any point: with momenta
    the steps number H, H + 1, ... of FISTA, without them steps of length `last`/L, 0 < last < 2.
    """

    same_every_step = True

    def __init__(self, steps: Any, momenta: Any = None, last: float | Tensor = 1.0) -> None:
        self.steps = _checked("steps", steps, positive=True)
        self.momenta = None if momenta is None else _checked("momenta", momenta)
        self.last = last
        if self.momenta is not None and self.momenta.shape != self.steps.shape:
            raise InputError(f"momenta has {len(self.momenta)} numbers; {len(self.steps)} steps need as many")
        after = float(last.detach()) if isinstance(last, Tensor) else last
        if not 0 < after < 2:
            raise InputError(f"last is {after:g}; the steps after the schedule converge with 0 < last < 2")

    def init(
        self,
        problem: Problem,
        x0: Vectors,
        *,
        generator: torch.Generator | None = None,
        step_size: Scalars | None = None,
    ) -> ScheduleState:
        x, step = problem.start(x0), resolve_step_size(problem, step_size)
        place = torch.zeros_like(step, dtype=torch.int64)
        return ScheduleState(x=x, k=0, step_size=step, y=x, t=torch.ones_like(step), place=place)

    def query(self, state: ScheduleState) -> Vectors:
        return state.y

    def move(self, problem: Problem, state: ScheduleState, seen: Seen) -> ScheduleState:
        step, inside = state.step_size, state.place < len(self.steps)
        index = state.place.clamp(max=len(self.steps) - 1)
        after = self.last if self.momenta is None else 1.0
        length = torch.where(inside, self.steps.to(step)[index], after) * step
        x = problem.descended(state.y, seen.grad, length.unsqueeze(1))
        t = (1 + torch.sqrt(1 + 4 * state.t.square())) / 2
        y = x
        if self.momenta is not None:
            momentum = torch.where(inside, self.momenta.to(step)[index], (state.t - 1) / t)
            y = x + momentum.unsqueeze(1) * (x - state.x)
        return replace(state, x=x, k=state.k + 1, y=y, t=t, place=state.place + 1)


def _checked(name: str, values: Any, positive: bool = False) -> Tensor:
    """(H,), finite."""
    found = values if isinstance(values, Tensor) else torch.tensor(values, dtype=torch.float64)
    if found.ndim != 1 or not len(found) or not found.is_floating_point():
        raise InputError(f"{name} is {values!r}; pass one number a step, as a tensor or a list of floats")
    wrong = ~torch.isfinite(found.detach()) | (found.detach() <= 0 if positive else False)
    if bool(wrong.any()):
        first = int(wrong.nonzero()[0, 0])
        raise InputError(f"{name}[{first}] is {float(found[first]):g}; it must be finite{' and > 0' * positive}")
    return found
