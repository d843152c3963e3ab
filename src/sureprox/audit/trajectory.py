"""Aligned runs: one in distribution, one out of it, step by step, and the differences the theory speaks about."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from sureprox.audit.decompose import Parts, decompose
from sureprox.audit.math_l2o import MathL2O
from sureprox.audit.result import norm
from sureprox.optimizers import Optimizer, State
from sureprox.problems import Problem
from sureprox.solve.solve import iterate


@dataclass(frozen=True)
class Trajectory:
    """A run of K steps x_k = x_{k-1} - N1 o (grad f(x_{k-1}) + gam_k) - N2 - N3 o P, gam_k in dr(x_k).

    Row k - 1 of the (K, B, ...) fields belongs to the step from x_{k-1} to x_k.
    """

    x: Tensor  # (K + 1, B, n)
    F: Tensor  # (K + 1, B)
    grad: Tensor  # (K, B, n), at x_{k-1}
    gam: Tensor  # (K, B, n), at x_k
    N1: Tensor  # (K, B, n), and N2, N3, P alike
    N2: Tensor
    N3: Tensor
    P: Tensor
    z: Tensor  # (K, B, d), all that the networks read, memory and normalised features included
    membership: Tensor  # (K, B), how far the subgradient of the prox step was from dr
    N4: Tensor  # (K, B, n), zero where the method has no N4, and so are the next two
    history: Tensor  # (K, B, 2n), what N4 has read
    difference: Tensor  # (K, B, n), what N4 has multiplied
    previous: Tensor  # (K, B, n), x_{k-2}
    explicit: Tensor  # (K, B, 2n), the subgradients at x_{k-1} and x_{k-2} used as features

    @property
    def steps(self) -> int:
        return len(self.grad)

    def first(self, steps: int) -> "Trajectory":
        """The first `steps` steps."""
        return self._cut(0, steps)

    def only(self, k: int) -> "Trajectory":
        """The step from x_{k-1} to x_k."""
        return self._cut(k - 1, k)

    def _cut(self, low: int, high: int) -> "Trajectory":
        points = ("x", "F")
        return Trajectory(
            **{
                name: getattr(self, name)[low : high + 1 if name in points else high]
                for name in Trajectory.__dataclass_fields__
            }
        )

    @property
    def G(self) -> Tensor:
        """(K, B, n): grad f(x_{k-1}) + gam_k."""
        return self.grad + self.gam

    @property
    def d(self) -> Tensor:
        """(K, B, n): x_{k-1} - x_k."""
        return self.x[:-1] - self.x[1:]


@torch.no_grad()
def trace(problem: Problem, optimizer: Optimizer[Any], state: State, steps: int) -> Trajectory:
    """Run `steps` steps from `state` and take every one of them apart."""
    parts: list[Parts] = []
    points, before = [state.x], state
    for after in iterate(problem, optimizer, state, steps):
        parts.append(decompose(optimizer, problem, before, after))
        points.append(after.x)
        before = after
    x = torch.stack(points)
    return Trajectory(
        x=x,
        F=torch.stack([problem.objective(point) for point in points]),
        **{name: torch.stack([getattr(part, name) for part in parts]) for name in Parts.__dataclass_fields__},
    )


@dataclass(frozen=True)
class Pair:
    """An in-distribution run and an out-of-distribution run of the same optimizer, and what they are measured with."""

    ind: Trajectory
    ood: Trajectory
    problem: Problem  # F = f + r, of the in-distribution run
    problem_ood: Problem  # F' = f' + r'
    optimizer: Optimizer[Any]
    L: Tensor  # (B,), 1 / step size: should bound the smoothness of both f and f'
    target: Tensor  # (B, n), x'*

    @cached_property
    def s(self) -> Tensor:
        """(K + 1, B, n): x'_k - x_k."""
        return self.ood.x - self.ind.x

    @cached_property
    def shift(self) -> Tensor:
        """(K, B): |s'|, the distance of the features, memory and normalised features included."""
        return norm((self.ood.z - self.ind.z).flatten(2))

    def dN(self, j: int) -> Tensor:
        """(K, B, n): N_j(z') - N_j(z) = J_j s'."""
        name = f"N{j}"
        ood, ind = (vars(run)[name] for run in (self.ood, self.ind))
        return ood.sub(ind)  # type: ignore[no-any-return]

    @property
    def column(self) -> Tensor:
        """L as (B, 1), for vectors."""
        return self.L.unsqueeze(-1)

    @cached_property
    def smoothness(self) -> Tensor:
        """(B,): the smoothness constant of f', exactly."""
        return self.problem_ood.lipschitz(exact=True)

    @cached_property
    def target_value(self) -> Tensor:
        """(B,): F'(x'*)."""
        return self.problem_ood.objective(self.target)

    @cached_property
    def distance(self) -> Tensor:
        """(K + 1, B): D_k = |x'_k - x'*|."""
        return norm(self.ood.x - self.target)

    def gain(self) -> tuple[Tensor, Tensor]:
        """(K, B): F'(x'_k) - F'(x'_{k-1}), and the magnitudes it is a difference of."""
        F = self.ood.F
        return F[1:] - F[:-1], F[1:].abs() + F[:-1].abs()

    def best(self) -> tuple[Tensor, Tensor]:
        """(B,): min_k F'(x'_k) - F'*, k = 1, ..., K, and the magnitudes it is a difference of."""
        least = self.ood.F[1:].min(0).values
        return least - self.target_value, least.abs() + self.target_value.abs()

    def hypotheses(self, smooth: bool = False, history: bool = False) -> dict[str, Tensor]:
        """Residuals, <= 0 where the hypothesis holds: Assumption 1 (`smooth`), 2 or 3 (`history`), and the rest."""
        ind, ood, L = self.ind, self.ood, self.column
        centre1, centre2 = (0.5 / L, ind.grad / (2 * L)) if smooth else (1 / L, torch.zeros_like(ind.N2))
        found = {
            "L N1(z) = 1/2" if smooth else "L N1(z) = 1": (L * (ind.N1 - centre1)).abs().amax(-1),
            "N2(z) = grad/2L" if smooth else "N2(z) = 0": (ind.N2 - centre2).abs().amax(-1),
            "L' <= L": ((self.smoothness - self.L) / self.L).expand_as(self.shift),
            "gam' in dr'(x'_k)": ood.membership,
            "d' = N1 G' + N2 + N3 P'": (ood.d - ood.N1 * ood.G - ood.N2 - ood.N3 * ood.P).abs().amax(-1),
        }
        if not smooth:  # without r there is no prox that needs it
            found["N1(z') > 0"] = -ood.N1.amin(-1)
        if history:
            found["N3(z) = 0"] = ind.N3.abs().amax(-1)
        return found

    def select(self, index: Tensor) -> "Pair":
        """Only the instances in `index`."""
        return Pair(
            ind=_pick(self.ind, index),
            ood=_pick(self.ood, index),
            problem=self.problem.select(index),
            problem_ood=self.problem_ood.select(index),
            optimizer=self.optimizer.select(index) if isinstance(self.optimizer, MathL2O) else self.optimizer,
            L=self.L[index],
            target=self.target[index],
        )


def pair(
    optimizer: Optimizer[Any],
    problem: Problem,
    start: State,
    problem_ood: Problem,
    start_ood: State,
    target: Tensor,
    steps: int,
) -> Pair:
    """Both runs, `steps` steps each. The two starts should agree in what is not x: memory and its seed."""
    return Pair(
        ind=trace(problem, optimizer, start, steps),
        ood=trace(problem_ood, optimizer, start_ood, steps),
        problem=problem,
        problem_ood=problem_ood,
        optimizer=optimizer,
        L=1 / start_ood.step_size,
        target=target,
    )


def aligned(
    optimizer: Optimizer[Any],
    problem: Problem,
    x0: Tensor,
    problem_ood: Problem,
    x0_ood: Tensor,
    target: Tensor,
    steps: int,
    seed: int = 0,
) -> Pair:
    """As `pair`, from the points x0 and x0', with the same memory at the start and the same 1/L."""

    def start(of: Problem, x: Tensor) -> State:
        made: State = optimizer.init(
            of, x, generator=torch.Generator().manual_seed(seed), step_size=problem.step_size()
        )
        return made

    return pair(optimizer, problem, start(problem, x0), problem_ood, start(problem_ood, x0_ood), target, steps)


@dataclass(frozen=True)
class Constants:
    """C_1, ..., C_4 with |J_j v| <= C_j |v|, each (B,) or (K, B)."""

    C1: Tensor
    C2: Tensor
    C3: Tensor
    C4: Tensor


def secant_constants(pair: Pair) -> Constants:
    """C_j = |N_j(z') - N_j(z)| / |s'|: the smallest constants that serve the corollaries at each step.

    For C_1 and C_3, whose outputs are multiplied entrywise, the largest entry instead of the norm.
    """
    shift = _positive(pair.shift)
    memory = _positive(norm(pair.ood.history - pair.ind.history))
    return Constants(
        C1=pair.dN(1).abs().amax(-1) / shift,
        C2=norm(pair.dN(2)) / shift,
        C3=pair.dN(3).abs().amax(-1) / shift,
        C4=pair.dN(4).abs().amax(-1) / memory,
    )


def _positive(value: Tensor) -> Tensor:
    return value.clamp(min=torch.finfo(torch.float64).tiny)


def _pick(run: Trajectory, index: Tensor) -> Trajectory:
    return Trajectory(**{name: getattr(run, name)[:, index] for name in Trajectory.__dataclass_fields__})
