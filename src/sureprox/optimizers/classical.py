"""Hand-made first-order methods: ISTA, FISTA with or without adaptive restart, Adam, AdamHD."""

from dataclasses import dataclass, replace

import torch
from torch import Generator

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, Seen, State, resolve_step_size
from sureprox.problems import Problem


class ISTA(Optimizer[State]):
    """x+ = prox_{r/L}(x - grad f(x)/L)."""

    same_every_step = True

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> State:
        return State(x=problem.start(x0), k=0, step_size=resolve_step_size(problem, step_size))

    def move(self, problem: Problem, state: State, seen: Seen) -> State:
        return state.changed(x=problem.descended(state.x, seen.grad, state.step_size.unsqueeze(1)), k=state.k + 1)


@dataclass(frozen=True)
class FISTAState(State):
    y: Vectors  # the extrapolated point, where the gradient is taken
    t: Scalars  # t_k of the momentum (t_{k-1} - 1) / t_k


class FISTA(Optimizer[FISTAState]):
    """x+ = prox_{r/L}(y - grad f(y)/L), t+ = (1 + sqrt(1 + 4 t^2))/2, y+ = x+ + (t - 1)/t+ (x+ - x).

    `restart=True`: t is set back to 1, and y+ = x+, for each instance alone whenever <y - x+, x+ - x> > 0, that is
    when the last step points against the momentum (the gradient scheme of adaptive restart).
    """

    same_every_step = True

    def __init__(self, restart: bool = False) -> None:
        self.restart = restart

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> FISTAState:
        x = problem.start(x0)
        step = resolve_step_size(problem, step_size)
        return FISTAState(x=x, k=0, step_size=step, y=x, t=torch.ones_like(step))

    def query(self, state: FISTAState) -> Vectors:
        return state.y

    def move(self, problem: Problem, state: FISTAState, seen: Seen) -> FISTAState:
        x = problem.descended(state.y, seen.grad, state.step_size.unsqueeze(1))
        move = x - state.x
        t = state.t
        if self.restart:
            against = ((state.y - x) * move).sum(1) > 0
            t = torch.where(against, 1.0, t)
        t_next = (1 + torch.sqrt(1 + 4 * t.square())) / 2
        y = x + ((t - 1) / t_next).unsqueeze(1) * move
        return state.changed(x=x, k=state.k + 1, y=y, t=t_next)


@dataclass(frozen=True)
class AdamState(State):
    mean: Vectors  # running mean of the subgradient
    square: Vectors  # running mean of its square
    direction: Vectors  # bias-corrected mean / (sqrt(bias-corrected square) + eps), as last applied
    rate: Scalars  # step length of each instance


class AdamHD(Optimizer[AdamState]):
    """Adam on a subgradient g of F whose step length follows its own hypergradient.

    a+ = a + hyper_step <g, u>,  u+ = mhat / (sqrt(vhat) + eps),  x+ = x - a+ u+,
    where u is the direction of the step before and <g, u> is taken for each instance alone.
    """

    fails_at_bounds = "takes subgradient steps, which leave the domain"

    uses_lipschitz = False

    def __init__(
        self,
        step_size: float = 0.1,
        beta1: float = 0.001,
        beta2: float = 0.1,
        eps: float = 1e-8,
        hyper_step: float = 1e-7,
    ) -> None:
        if not (step_size > 0 and eps > 0):
            raise InputError(f"step_size is {step_size} and eps {eps}; both must be > 0")
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise InputError(f"beta1 is {beta1} and beta2 {beta2}; both must lie in [0, 1)")
        self.step_size = step_size
        self.beta1 = beta1
        self.beta2 = beta2
        self.eps = eps
        self.hyper_step = hyper_step

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> AdamState:
        x = problem.start(x0)
        zeros = torch.zeros_like(x)
        rate = torch.full_like(x[:, 0], self.step_size)
        return AdamState(
            x=x,
            k=0,
            step_size=rate if step_size is None else resolve_step_size(problem, step_size),  # 1/L plays no part here
            mean=zeros,
            square=zeros,
            direction=zeros,
            rate=rate,
        )

    def move(self, problem: Problem, state: AdamState, seen: Seen) -> AdamState:
        g = problem.subgradient(state.x, seen.grad)
        k = state.k + 1
        rate = state.rate + self.hyper_step * (g * state.direction).sum(1)
        mean = self.beta1 * state.mean + (1 - self.beta1) * g
        square = self.beta2 * state.square + (1 - self.beta2) * g.square()
        corrected = torch.sqrt(square / (1 - self.beta2**k)) + self.eps
        direction = mean / (1 - self.beta1**k) / corrected
        x = state.x - rate.unsqueeze(1) * direction
        return replace(state, x=x, k=k, mean=mean, square=square, direction=direction, rate=rate)


class Adam(AdamHD):
    """Adam on a subgradient of F: AdamHD with a constant step length."""

    def __init__(self, step_size: float = 0.01, beta1: float = 0.1, beta2: float = 0.1, eps: float = 1e-8) -> None:
        super().__init__(step_size=step_size, beta1=beta1, beta2=beta2, eps=eps, hyper_step=0.0)
