"""GO-Math-L2O: the paper's gradient-only learned proximal method."""

from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

import torch
from torch import Generator, Tensor
from torch.nn.functional import softplus

from sureprox.base.errors import WeightsError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import PER_COORDINATE, Seen, State
from sureprox.optimizers.learned import LearnedOptimizer, choice, lstm_names, xavier_
from sureprox.optimizers.lstm import CoordinateNetwork, InitialState
from sureprox.problems import Problem

FLOOR = 1e-20  # keeps the norms and R away from a division by zero


class GradientMap(StrEnum):
    """What the history v averages."""

    LHNOR = "lhnor"  # x - x+
    LH = "lh"  # R^-1 (x - x+)
    STD = "std"  # R^-1 (x - x+ - Q v)


class QShrink(StrEnum):
    """What Q is multiplied with."""

    NONE = "none"
    SQRT = "1/sqrtL"
    ONCE = "1/L"
    TWICE = "1/L^2"

    @property
    def power(self) -> float:
        """Q is multiplied with (1/L)^power."""
        return {QShrink.NONE: 0.0, QShrink.SQRT: 0.5, QShrink.ONCE: 1.0, QShrink.TWICE: 2.0}[self]


class Activation(StrEnum):
    """The ranges of the learned parameters: the paper's for LASSO (sigmoid) and for logistic (softplus)."""

    SIGMOID = "sigmoid"
    SOFTPLUS = "softplus"


def activate(kind: Activation, value: Tensor) -> Tensor:
    """sigmoid(value) or softplus(value)."""
    return torch.sigmoid(value) if kind is Activation.SIGMOID else softplus(value)


@dataclass(frozen=True)
class GoMathState(State):
    v: Vectors  # averaged gradient maps
    norms: Tensor  # (B, 3): norms of the three features at x_0
    h: Tensor = field(metadata=PER_COORDINATE)
    c: Tensor = field(metadata=PER_COORDINATE)
    R: Vectors  # R, Q, B and the features are for inspection, without gradient: as applied in the last step,
    Q: Vectors  # zero before the first
    B: Vectors
    features: Tensor  # (B, n, 3), as last fed to the network


class GoMathL2O(LearnedOptimizer[GoMathState]):
    """x+ = prox_{r,R}(x - R grad f(x) - Q v),  v+ = (1 - B) G + B v,  v_0 = 0, all products coordinate-wise.

    R, Q, B come from an LSTM on [g/|g_0|, lb/|lb_0|, ub/|ub_0|], where g = grad f(x) and [lb, ub] is the
    subdifferential of r at x, norms taken per instance at x_0. G is the gradient map (`GradientMap`). R is scaled by
    1/L and Q by a power of it (`QShrink`). `activation="sigmoid"`: R = 2 sigmoid / L, Q = 2 sigmoid, B = sigmoid;
    `"softplus"`: R = softplus / L, Q = 10 softplus, B = softplus.

    `biases=True` adds the paper's b_1 and b_2: x+ = prox_{r,R}(x - R g - Q v - b_1), v+ = (1 - B) G + B v - b_2
    (and STD subtracts b_1 too). They are not scaled with the problem, and off by default, as in the paper.
    """

    fails_at_bounds = "reads the ends of the subdifferential, which are infinite at a bound"

    same_every_step = True
    kind = "go-math-l2o"

    def __init__(
        self,
        gradient_map: str = "lhnor",
        q_shrink: str = "none",
        activation: str = "sigmoid",
        hidden: int = 20,
        layers: int = 2,
        *,
        biases: bool = False,
        initial_state: str = "zeros",
    ) -> None:
        super().__init__()
        self.gradient_map = choice(GradientMap, "gradient_map", gradient_map)
        self.q_shrink = choice(QShrink, "q_shrink", q_shrink)
        self.q_power = self.q_shrink.power
        self.activation = choice(Activation, "activation", activation)
        self.initial_state = choice(InitialState, "initial_state", initial_state)
        self.biases = bool(biases)
        self.network = CoordinateNetwork(3, hidden, layers, ("R", "Q", "B", *(("b1", "b2") if biases else ())))
        xavier_(self.network)

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "gradient_map": self.gradient_map.value,
            "q_shrink": self.q_shrink.value,
            "activation": self.activation.value,
            "hidden": self.network.hidden,
            "layers": self.network.layers,
            "biases": self.biases,
            "initial_state": self.initial_state.value,
        }

    def released_names(self) -> dict[str, str]:
        heads = {"heads__R": "linear_r", "heads__Q": "linear_q", "heads__B": "linear_b"}
        if self.biases:
            raise WeightsError("released go-math-l2o checkpoints are trained without biases; build with biases=False")
        return lstm_names(self.network.layers, inner="linear", **heads)

    @property
    def released_unused(self) -> frozenset[str]:
        return frozenset({"linear_b3", "linear_b4"})

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> GoMathState:
        self.check_device(problem)
        x = problem.start(x0)
        h, c = self.network.initial_memory(problem, self.initial_state, generator)
        zeros = torch.zeros_like(x)
        raw = torch.stack([problem.grad(x), *problem.subdiff(x)], 2)
        return GoMathState(
            x=x,
            k=0,
            step_size=self.own_step_size(problem, step_size),
            v=zeros,
            norms=torch.linalg.vector_norm(raw, dim=1).clamp(min=FLOOR),
            h=h,
            c=c,
            R=zeros,
            Q=zeros,
            B=zeros,
            features=torch.zeros_like(raw),
        )

    def move(self, problem: Problem, state: GoMathState, seen: Seen) -> GoMathState:
        x, v, g = state.x, state.v, seen.grad
        features = torch.stack([g, *problem.subdiff(x)], 2) / state.norms.unsqueeze(1)
        out, h, c = self.network(features, state.h, state.c)
        R, Q, B = self._diagonals(out, state.step_size.unsqueeze(1))
        pull = Q * v + out["b1"] if self.biases else Q * v
        x_next = problem.prox(x - R * g - pull, R)
        v_next = (1 - B) * self._map(x - x_next, pull, R) + B * v
        if self.biases:
            v_next = v_next - out["b2"]
        return replace(
            state,
            x=x_next,
            k=state.k + 1,
            v=v_next,
            h=h,
            c=c,
            R=R.detach(),
            Q=Q.detach(),
            B=B.detach(),
            features=features.detach(),
        )

    def _diagonals(self, out: dict[str, Tensor], inverse_L: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """R, Q, B as applied."""
        r_scale, q_scale = (2.0, 2.0) if self.activation is Activation.SIGMOID else (1.0, 10.0)
        R = r_scale * activate(self.activation, out["R"]) * inverse_L
        Q = q_scale * activate(self.activation, out["Q"])
        if self.q_shrink is not QShrink.NONE:
            Q = Q * inverse_L**self.q_power
        return R, Q, activate(self.activation, out["B"])

    def _map(self, move: Tensor, pull: Tensor, R: Tensor) -> Tensor:
        """The gradient map G from x - x+."""
        if self.gradient_map is GradientMap.LHNOR:
            return move
        if self.gradient_map is GradientMap.LH:
            return move / (R + FLOOR)
        return (move - pull) / (R + FLOOR)
