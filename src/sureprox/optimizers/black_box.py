"""Learned optimizers with no proximal structure: L2O-DM and RNNprop put an LSTM where the update rule was.

Both have three settings of the authors' released code, which are off by default. `detached`: in training no gradient
flows back through the subgradient that is fed to the network. `gradient_scale`: that subgradient times a number; the
released code differentiates the mean over a batch of 128 problems, which divides it by 128. `memory_scale`: the
standard deviation of a random memory.
"""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import elu

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import PER_COORDINATE, S, Seen, State, resolve_step_size
from sureprox.optimizers.learned import LearnedOptimizer, choice, lstm_names
from sureprox.optimizers.lstm import CoordinateNetwork, InitialState
from sureprox.problems import Problem


class BlackBox(LearnedOptimizer[S]):
    """A network that is fed a subgradient of F and returns the move."""

    fails_at_bounds = "takes subgradient steps, which leave the domain"
    uses_lipschitz = False
    network: CoordinateNetwork

    def _settings(
        self, step_size: float, initial_state: str, memory_scale: float, gradient_scale: float, detached: bool
    ) -> None:
        self.step_length = _positive("step_size", step_size)
        self.memory_scale = _positive("memory_scale", memory_scale)
        self.gradient_scale = _positive("gradient_scale", gradient_scale)
        self.detached = bool(detached)
        self.initial_state = choice(InitialState, "initial_state", initial_state)

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "step_size": self.step_length,
            "hidden": self.network.hidden,
            "layers": self.network.layers,
            "initial_state": self.initial_state.value,
            "memory_scale": self.memory_scale,
            "gradient_scale": self.gradient_scale,
            "detached": self.detached,
        }

    def fed(self, problem: Problem, state: State, seen: Seen) -> Vectors:
        """The subgradient at the point of `state`, as the network sees it."""
        g = problem.subgradient(state.x, seen.grad)
        g = g if self.gradient_scale == 1.0 else self.gradient_scale * g
        return g.detach() if self.detached else g


@dataclass(frozen=True)
class L2ODMState(State):
    h: Tensor = field(metadata=PER_COORDINATE)
    c: Tensor = field(metadata=PER_COORDINATE)
    features: Tensor  # (B, n, 2), as last fed to the network


class L2ODM(BlackBox[L2ODMState]):
    """x+ = x + step elu(LSTM([g, x])), g a subgradient of F at x."""

    same_every_step = True
    kind = "l2o-dm"

    def __init__(
        self,
        step_size: float = 0.1,
        hidden: int = 20,
        layers: int = 2,
        *,
        initial_state: str = "zeros",
        memory_scale: float = 1.0,
        gradient_scale: float = 1.0,
        detached: bool = False,
    ) -> None:
        super().__init__()
        self._settings(step_size, initial_state, memory_scale, gradient_scale, detached)
        self.network = CoordinateNetwork(2, hidden, layers, ("move",), inner=False)

    def released_names(self) -> dict[str, str]:
        return lstm_names(self.network.layers, heads__move="linear")

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> L2ODMState:
        self.check_device(problem)
        x = problem.start(x0)
        h, c = self.network.initial_memory(problem, self.initial_state, generator, self.memory_scale)
        features = torch.zeros_like(x).unsqueeze(2).expand(-1, -1, 2)
        return L2ODMState(x=x, k=0, step_size=unused_step_size(problem, step_size), h=h, c=c, features=features)

    def move(self, problem: Problem, state: L2ODMState, seen: Seen) -> L2ODMState:
        features = torch.stack([self.fed(problem, state, seen), state.x], 2)
        out, h, c = self.network(features, state.h, state.c)
        x = state.x + self.step_length * elu(out["move"])
        return replace(state, x=x, k=state.k + 1, h=h, c=c, features=features.detach())


@dataclass(frozen=True)
class RNNPropState(State):
    mean: Vectors  # running mean of the subgradient
    square: Vectors  # running mean of its square
    decay1: Scalars  # beta1^k and beta2^k, for the bias correction
    decay2: Scalars
    h: Tensor = field(metadata=PER_COORDINATE)
    c: Tensor = field(metadata=PER_COORDINATE)
    features: Tensor  # (B, n, 2), as last fed to the network


class RNNProp(BlackBox[RNNPropState]):
    """x+ = x - step tanh(LSTM([g / s, mhat / s])), s = sqrt(vhat) + eps: the features of Adam at a subgradient g."""

    same_every_step = True
    kind = "rnnprop"

    def __init__(
        self,
        beta1: float = 0.95,
        beta2: float = 0.95,
        step_size: float = 0.1,
        hidden: int = 20,
        layers: int = 2,
        *,
        eps: float = 1e-8,
        initial_state: str = "zeros",
        memory_scale: float = 1.0,
        gradient_scale: float = 1.0,
        detached: bool = False,
    ) -> None:
        super().__init__()
        if not (0 <= beta1 < 1 and 0 <= beta2 < 1):
            raise InputError(f"beta1 is {beta1} and beta2 {beta2}; both must lie in [0, 1)")
        self.beta1 = float(beta1)
        self.beta2 = float(beta2)
        self.eps = _positive("eps", eps)
        self._settings(step_size, initial_state, memory_scale, gradient_scale, detached)
        self.network = CoordinateNetwork(2, hidden, layers, ("move",), embed=True, inner=False)

    @property
    def arguments(self) -> dict[str, Any]:
        return {"beta1": self.beta1, "beta2": self.beta2, **super().arguments, "eps": self.eps}

    def released_names(self) -> dict[str, str]:
        return lstm_names(self.network.layers, embed="linear_in", heads__move="linear_out")

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> RNNPropState:
        self.check_device(problem)
        x = problem.start(x0)
        h, c = self.network.initial_memory(problem, self.initial_state, generator, self.memory_scale)
        zeros = torch.zeros_like(x)
        step = unused_step_size(problem, step_size)
        return RNNPropState(
            x=x,
            k=0,
            step_size=step,
            mean=zeros,
            square=zeros,
            decay1=torch.ones_like(step),
            decay2=torch.ones_like(step),
            h=h,
            c=c,
            features=torch.stack([zeros, zeros], 2),
        )

    def move(self, problem: Problem, state: RNNPropState, seen: Seen) -> RNNPropState:
        g = self.fed(problem, state, seen)
        mean = self.beta1 * state.mean + (1 - self.beta1) * g
        square = self.beta2 * state.square + (1 - self.beta2) * g.square()
        decay1, decay2 = self.beta1 * state.decay1, self.beta2 * state.decay2
        tiny = torch.finfo(square.dtype).tiny  # the derivative of sqrt at 0 is infinite
        scale = torch.sqrt((square / (1 - decay2).unsqueeze(1)).clamp(min=tiny)) + self.eps
        features = torch.stack([g / scale, mean / (1 - decay1).unsqueeze(1) / scale], 2)
        out, h, c = self.network(features, state.h, state.c)
        return replace(
            state,
            x=state.x - self.step_length * torch.tanh(out["move"]),
            k=state.k + 1,
            mean=mean,
            square=square,
            decay1=decay1,
            decay2=decay2,
            h=h,
            c=c,
            features=features.detach(),
        )


def _positive(name: str, value: float) -> float:
    if not 0 < value < float("inf"):
        raise InputError(f"{name} is {value}; it must be finite and > 0")
    return float(value)


def unused_step_size(problem: Problem, step_size: Scalars | None) -> Scalars:
    """The given step size, or ones: these methods do not use 1/L, so none is computed."""
    if step_size is not None:
        return resolve_step_size(problem, step_size)
    return torch.ones(problem.batch, dtype=problem.dtype, device=problem.device)
