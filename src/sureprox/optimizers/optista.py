"""OptISTA: the fixed-step proximal gradient method with the best worst-case bound after a given number of steps."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, Seen, State, resolve_step_size
from sureprox.problems import Problem

LONGEST = 1_000_000


@dataclass(frozen=True)
class OptISTAState(State):
    """x is y_i, the proximal point."""

    v: Vectors  # x_i, where the gradient is taken
    z: Vectors  # z_i
    theta: Scalars  # theta_i
    place: Tensor  # (B,) i: steps since the last beginning


class OptISTA(Optimizer[OptISTAState]):
    """For i = 0, ..., N - 1, N = `steps`:

        y_{i+1} = prox_{gamma_i r / L}(y_i - gamma_i grad f(x_i) / L)
        z_{i+1} = x_i + (y_{i+1} - y_i) / gamma_i
        x_{i+1} = z_{i+1} + (theta_i - 1)/theta_{i+1} (z_{i+1} - z_i) + theta_i/theta_{i+1} (z_{i+1} - x_i)

    with y_0 = z_0 = x_0, theta_0 = 1, theta_{i+1} = (1 + sqrt(1 + 4 theta_i^2))/2, with 8 in place of 4 for theta_N,
    and gamma_i = 2 theta_i (theta_N^2 - 2 theta_i^2 + theta_i) / theta_N^2. Then

        F(y_N) - F* <= L |x_0 - x*|^2 / (2 (theta_N^2 - 1)) <= L |x_0 - x*|^2 / (N + 1)^2,

    half of FISTA's bound, and no fixed-step method has a smaller one. It holds for y_N alone, so N is the number of
    steps that will be taken; to go on is to begin anew from y_N. x is y_i.
    """

    def __init__(self, steps: int) -> None:
        if isinstance(steps, bool) or not isinstance(steps, int) or not 1 <= steps <= LONGEST:
            raise InputError(f"steps is {steps!r}; pass the number of steps you will take, from 1 to {LONGEST:,}")
        self.steps = steps
        theta = 1.0
        for _ in range(steps - 1):
            theta = (1 + (1 + 4 * theta**2) ** 0.5) / 2
        self.last = (1 + (1 + 8 * theta**2) ** 0.5) / 2  # theta_N

    def rate(self) -> float:
        """c with F(y_N) - F* <= c L |x_0 - x*|^2."""
        return float(1 / (2 * (self.last**2 - 1)))

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> OptISTAState:
        x = problem.start(x0)
        step = resolve_step_size(problem, step_size)
        place = torch.zeros_like(step, dtype=torch.int64)
        return OptISTAState(x=x, k=0, step_size=step, v=x, z=x, theta=torch.ones_like(step), place=place)

    def query(self, state: OptISTAState) -> Vectors:
        return state.v

    def move(self, problem: Problem, state: OptISTAState, seen: Seen) -> OptISTAState:
        theta, place = state.theta, state.place + 1
        over = place == self.steps
        square = theta.square()
        gamma = (2 * theta * (1 - (2 * square - theta) / self.last**2)).unsqueeze(1)
        y = problem.descended(state.x, seen.grad, gamma * state.step_size.unsqueeze(1))
        z = state.v + (y - state.x) / gamma
        theta_next = (1 + torch.sqrt(1 + 4 * square)) / 2
        v = z + ((theta - 1) / theta_next).unsqueeze(1) * (z - state.z)
        v = v + (theta / theta_next).unsqueeze(1) * (z - state.v)
        begin = over.unsqueeze(1)
        return replace(
            state,
            x=y,
            k=state.k + 1,
            v=torch.where(begin, y, v),
            z=torch.where(begin, y, z),
            theta=torch.where(over, 1.0, theta_next),
            place=torch.where(over, 0, place),
        )
