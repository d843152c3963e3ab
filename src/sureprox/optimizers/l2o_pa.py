"""L2O-PA: the strongest earlier math-inspired method, a learned preconditioner and a learned momentum."""

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Generator, Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import PER_COORDINATE, Seen, State
from sureprox.optimizers.go_math_l2o import Activation, activate
from sureprox.optimizers.learned import LearnedOptimizer, choice, lstm_names
from sureprox.optimizers.lstm import CoordinateNetwork, InitialState
from sureprox.problems import Problem


@dataclass(frozen=True)
class L2OPAState(State):
    """Here x is the extrapolated point: that is where the gradient is taken and F is evaluated."""

    z: Vectors  # the last proximal point
    h: Tensor = field(metadata=PER_COORDINATE)
    c: Tensor = field(metadata=PER_COORDINATE)
    P: Vectors  # for inspection, without gradient: as applied in the last step, zero before the first
    momentum: Vectors
    features: Tensor  # (B, n, 2), as last fed to the network


class L2OPA(LearnedOptimizer[L2OPAState]):
    """z+ = prox_{r,P}(x - P grad f(x)),  x+ = z+ + a (z+ - z),  coordinate-wise.

    P and a come from an LSTM on [grad f(x), x]. `activation="sigmoid"`: P = 2 sigmoid / L, a = 2 sigmoid;
    `"softplus"`: P = 2 softplus / L, a = 0.3 softplus.

    `detached=True` trains as the authors' released code does: no gradient flows back through the features. A step
    computes the same either way.
    """

    fails_at_bounds = "extrapolates the point it returns, which leaves the domain"

    same_every_step = True
    kind = "l2o-pa"

    def __init__(
        self,
        activation: str = "sigmoid",
        hidden: int = 20,
        layers: int = 2,
        *,
        initial_state: str = "zeros",
        detached: bool = False,
    ) -> None:
        super().__init__()
        self.detached = bool(detached)
        self.activation = choice(Activation, "activation", activation)
        self.initial_state = choice(InitialState, "initial_state", initial_state)
        self.network = CoordinateNetwork(2, hidden, layers, ("P", "a"))

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "activation": self.activation.value,
            "hidden": self.network.hidden,
            "layers": self.network.layers,
            "initial_state": self.initial_state.value,
            "detached": self.detached,
        }

    def released_names(self) -> dict[str, str]:
        return lstm_names(self.network.layers, inner="linear", heads__P="linear_p", heads__a="linear_a")

    @property
    def released_unused(self) -> frozenset[str]:
        return frozenset({"linear_b", "linear_b1", "linear_b2"})

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> L2OPAState:
        self.check_device(problem)
        x = problem.start(x0)
        h, c = self.network.initial_memory(problem, self.initial_state, generator)
        zeros = torch.zeros_like(x)
        return L2OPAState(
            x=x,
            k=0,
            step_size=self.own_step_size(problem, step_size),
            z=x,
            h=h,
            c=c,
            P=zeros,
            momentum=zeros,
            features=torch.stack([zeros, zeros], 2),
        )

    def move(self, problem: Problem, state: L2OPAState, seen: Seen) -> L2OPAState:
        g = seen.grad
        features = torch.stack([g, state.x], 2)
        if self.detached:
            features = features.detach()
        out, h, c = self.network(features, state.h, state.c)
        a_scale = 2.0 if self.activation is Activation.SIGMOID else 0.3
        P = 2 * activate(self.activation, out["P"]) * state.step_size.unsqueeze(1)
        momentum = a_scale * activate(self.activation, out["a"])
        z = problem.prox(state.x - P * g, P)
        x = z + momentum * (z - state.z)
        return replace(
            state,
            x=x,
            k=state.k + 1,
            z=z,
            h=h,
            c=c,
            P=P.detach(),
            momentum=momentum.detach(),
            features=features.detach(),
        )
