"""One step of an optimizer, written as the paper writes it: x+ = x - N1 o (grad f(x) + gam) - N2 - N3 o P."""

from dataclasses import dataclass
from functools import singledispatch
from typing import Any

import torch
from torch import Tensor

from sureprox.audit.math_l2o import History, MathL2O, MathState
from sureprox.base.errors import InputError
from sureprox.optimizers import ISTA, L2OPA, GoMathL2O, Optimizer, State
from sureprox.optimizers.go_math_l2o import GoMathState
from sureprox.optimizers.l2o_pa import L2OPAState
from sureprox.problems import Problem


@dataclass(frozen=True)
class Parts:
    """See `Trajectory`; each (B, n) unless said otherwise."""

    grad: Tensor
    gam: Tensor
    N1: Tensor
    N2: Tensor
    N3: Tensor
    P: Tensor
    z: Tensor  # (B, d)
    membership: Tensor  # (B,)
    N4: Tensor
    history: Tensor  # (B, 2n)
    difference: Tensor
    previous: Tensor
    explicit: Tensor  # (B, 2n)


@singledispatch
def decompose(optimizer: Optimizer[Any], problem: Problem, before: Any, after: Any) -> Parts:
    """The parts of the step from `before` to `after`."""
    raise InputError(
        f"{type(optimizer).__name__} cannot be audited: its step is not x - N1 o (grad f + gam) - N2 - N3 o P; "
        "pass a GoMathL2O, L2OPA, ISTA or MathL2O"
    )


@decompose.register
def _(optimizer: GoMathL2O, problem: Problem, before: GoMathState, after: GoMathState) -> Parts:
    """N1 = R, N3 = Q, P = v, and N2 = b_1 (zero where the model has no biases)."""
    g = problem.grad(before.x)
    pull = after.Q * before.v
    N2 = torch.zeros_like(g)
    if optimizer.biases:
        N2 = optimizer.network(after.features, before.h, before.c)[0]["b1"]
    gam, membership = subgradient(problem, before.x - after.R * g - pull - N2, after.x, after.R)
    z = _coordinate_features(after.features, before.h, before.c)
    return _without_n4(before.x, grad=g, gam=gam, N1=after.R, N2=N2, N3=after.Q, P=before.v, z=z, membership=membership)


@decompose.register
def _(optimizer: L2OPA, problem: Problem, before: L2OPAState, after: L2OPAState) -> Parts:
    """x+ = x - N1 o (g + gam_z) + a o (z+ - z) with gam_z in dr(z+), where z+ is the proximal point.

    The theory wants a subgradient at x+: gam is the point of dr(x+) nearest to gam_z. So N1 is the network's P,
    N3 = a, the history is z - z+, and N2 = N1 o (gam_z - gam), zero where x+ and z+ have the same signs.
    """
    g = problem.grad(before.x)
    gam_z, membership = subgradient(problem, before.x - after.P * g, after.z, after.P)
    low, high = problem.subdiff(after.x)
    gam = gam_z.clamp(low, high)
    N2 = after.P * (gam_z - gam)
    z = _coordinate_features(after.features, before.h, before.c)
    past = before.z - after.z
    return _without_n4(
        before.x, grad=g, gam=gam, N1=after.P, N2=N2, N3=after.momentum, P=past, z=z, membership=membership
    )


@decompose.register
def _(optimizer: ISTA, problem: Problem, before: State, after: State) -> Parts:
    """N1 = 1/L, N2 = N3 = 0."""
    g = problem.grad(before.x)
    N1 = before.step_size.unsqueeze(1).expand_as(g)
    gam, membership = subgradient(problem, before.x - N1 * g, after.x, N1)
    zeros = torch.zeros_like(g)
    z = torch.cat([before.x, g], 1)
    return _without_n4(before.x, grad=g, gam=gam, N1=N1, N2=zeros, N3=zeros, P=zeros, z=z, membership=membership)


@decompose.register
def _(optimizer: MathL2O, problem: Problem, before: MathState, after: MathState) -> Parts:
    """As it is. The paper counts the implicit subgradient among the features, so |s'| does; no network reads it."""
    g = after.grad_before
    centre = before.x - after.N1 * g - after.N2 - after.N3 * after.P
    gam, membership = subgradient(problem, centre, after.x, after.N1)
    if optimizer.history is History.VARIABLE:
        explicit = torch.zeros_like(after.history)
    else:
        explicit = torch.cat([before.gam, before.gam_before], 1)
    return Parts(
        grad=g,
        gam=gam,
        N1=after.N1,
        N2=after.N2,
        N3=after.N3,
        P=after.P,
        z=torch.cat([after.features, gam], 1),
        membership=membership,
        N4=after.N4,
        history=after.history,
        difference=after.difference,
        previous=before.previous,
        explicit=explicit,
    )


def subgradient(problem: Problem, centre: Tensor, x: Tensor, step: Tensor) -> tuple[Tensor, Tensor]:
    """gam in dr(x) from x = prox_{r,step}(centre), and how far (centre - x) / step was from dr(x), (B,).

    The distance is rounding for an exact prox; one that is not exact shows here.
    """
    raw = divided(centre - x, step)
    low, high = problem.subdiff(x)
    gam = raw.clamp(low, high)
    return gam, (raw - gam).abs().amax(1)


def divided(a: Tensor, b: Tensor) -> Tensor:
    """a / b, and 0 where b = 0: a step of length zero recovers no subgradient."""
    return torch.where(b == 0, 0.0, a / torch.where(b == 0, 1.0, b))


def _coordinate_features(features: Tensor, h: Tensor, c: Tensor) -> Tensor:
    """(B, n (F + 2 layers hidden)): what the network reads for each coordinate, its memory included."""
    batch, n, _ = features.shape
    memory = torch.cat([h, c]).permute(1, 0, 2).reshape(batch, n, -1)
    return torch.cat([features, memory], 2).flatten(1)


def _without_n4(x: Tensor, **parts: Tensor) -> Parts:
    """The parts of a step from x by a method that has no N4."""
    zeros = torch.zeros_like(x)
    pairs = torch.cat([zeros, zeros], 1)
    return Parts(**parts, N4=zeros, history=pairs, difference=zeros, previous=x, explicit=pairs)
