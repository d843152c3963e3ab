"""The paper's model with any networks N1, N2, N3, N4: what its theorems are about, and the material of the audit."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers import Optimizer, State
from sureprox.optimizers.base import resolve_step_size
from sureprox.problems import Problem


class Network(Protocol):
    """Features (B, d) -> (B, n)."""

    def __call__(self, z: Tensor, /) -> Tensor: ...

    @property
    def lipschitz(self) -> Tensor:
        """(B,): C with |J|_F <= C (or |J|_2 <= C) everywhere."""
        ...

    def select(self, index: Tensor, /) -> "Network":
        """The networks of the instances in `index`."""
        ...


class History(StrEnum):
    """What N4 reads and multiplies."""

    VARIABLE = "variable"  # P = N4(x, x_) o (x_ - x), x_ the point before x; features z = (x, grad f(x), P)
    GRADIENT = "gradient"  # P = N4(q, q_) o (q_ - q), q = grad f + subgradient; features z = (grad f(x), P)


def frobenius(matrix: Tensor) -> Tensor:
    """|M|_F of the last two dimensions."""
    return matrix.square().sum((-2, -1)).sqrt()


@dataclass(frozen=True)
class Affine:
    """N(z) = value + slope (z - at): the Jacobian is `slope` everywhere."""

    value: Tensor  # (B, n)
    slope: Tensor  # (B, n, d)
    at: Tensor  # (B, d)

    def __call__(self, z: Tensor) -> Tensor:
        return self.value + torch.einsum("bnd,bd->bn", self.slope, z - self.at)

    @property
    def lipschitz(self) -> Tensor:
        """(B,): the Frobenius norm of the Jacobian, the constant C of the paper."""
        return frobenius(self.slope)

    def select(self, index: Tensor) -> "Affine":
        return Affine(self.value[index], self.slope[index], self.at[index])


@dataclass(frozen=True)
class Sum:
    """N(z) = base(z) + extra(z)."""

    base: Network
    extra: Network

    def __call__(self, z: Tensor) -> Tensor:
        return self.base(z) + self.extra(z)

    @property
    def lipschitz(self) -> Tensor:
        """(B,): exact for two affine networks, else the sum of both constants."""
        base, extra = self.base, self.extra
        if isinstance(base, Affine) and isinstance(extra, Affine):
            return frobenius(base.slope + extra.slope)
        return base.lipschitz + extra.lipschitz

    def select(self, index: Tensor) -> "Sum":
        return Sum(self.base.select(index), self.extra.select(index))


@dataclass(frozen=True)
class MathState(State):
    """`gam` is a subgradient of r at x; `previous`, `grad_before`, `gam_before` belong to the point before x.

    The rest is for inspection: as applied in the last step.
    """

    gam: Vectors
    previous: Vectors
    grad_before: Vectors
    gam_before: Vectors
    N1: Vectors
    N2: Vectors
    N3: Vectors
    N4: Vectors
    P: Vectors
    features: Tensor  # z (B, d), explicit features only
    history: Tensor  # (B, 2n), what N4 has read
    difference: Vectors  # what N4 has multiplied


class MathL2O(Optimizer[MathState]):
    """x+ = prox_{r,N1}(x - N1 o grad f(x) - N2 - N3 o P),  P = N4 o difference; see `History`."""

    def __init__(
        self,
        N1: Network,
        N2: Network,
        N3: Network | None = None,
        N4: Network | None = None,
        history: str = "variable",
    ) -> None:
        self.N1, self.N2, self.N3, self.N4 = N1, N2, N3, N4
        self.history = History(history)

    def select(self, index: Tensor) -> "MathL2O":
        """The networks of the instances in `index`."""
        N3, N4 = (None if N is None else N.select(index) for N in (self.N3, self.N4))
        return MathL2O(self.N1.select(index), self.N2.select(index), N3, N4, self.history)

    def init(
        self,
        problem: Problem,
        x0: Vectors,
        *,
        generator: torch.Generator | None = None,
        step_size: Scalars | None = None,
        previous: Vectors | None = None,
    ) -> MathState:
        """`previous` stands for the point before x0; x0 itself by default."""
        x = problem.start(x0)
        before = x if previous is None else problem.start(previous)
        zeros = torch.zeros_like(x)
        width = 3 if self.history is History.VARIABLE else 2
        blank: dict[str, Any] = dict.fromkeys(("N1", "N2", "N3", "N4", "P", "difference"), zeros)
        return MathState(
            x=x,
            k=0,
            step_size=resolve_step_size(problem, step_size),
            gam=_middle(problem, x),
            previous=before,
            grad_before=problem.grad(before),
            gam_before=_middle(problem, before),
            features=torch.cat([zeros] * width, 1),
            history=torch.cat([zeros, zeros], 1),
            **blank,
        )

    def step(self, problem: Problem, state: MathState) -> MathState:
        x, g = state.x, problem.grad(state.x)
        if self.history is History.VARIABLE:
            now, before, shown = x, state.previous, [x, g]
        else:
            now, before, shown = g + state.gam, state.grad_before + state.gam_before, [g]
        history = torch.cat([now, before], 1)
        difference = before - now
        N4 = torch.zeros_like(x) if self.N4 is None else self.N4(history)
        P = N4 * difference
        features = torch.cat([*shown, P], 1)
        N1, N2 = self.N1(features), self.N2(features)
        N3 = torch.zeros_like(x) if self.N3 is None else self.N3(features)
        centre = x - N1 * g - N2 - N3 * P
        x_next = problem.prox(centre, N1)
        return replace(
            state,
            x=x_next,
            k=state.k + 1,
            gam=torch.where(N1 == 0, 0.0, (centre - x_next) / torch.where(N1 == 0, 1.0, N1)),
            previous=x,
            grad_before=g,
            gam_before=state.gam,
            N1=N1,
            N2=N2,
            N3=N3,
            N4=N4,
            P=P,
            features=features,
            history=history,
            difference=difference,
        )


def _middle(problem: Problem, x: Vectors) -> Vectors:
    low, high = problem.subdiff(x)
    return (low + high) / 2
