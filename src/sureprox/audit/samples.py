"""Random pairs of runs that satisfy the paper's assumptions exactly: the material on which every statement is tried.

Problems: quadratic or logistic f, tilted so that the minimiser is known, with r = 0 or lam |x|_1; out of distribution
the same F, F(. + t), or an unrelated F' with a shifted l1. Networks: affine, or tanh networks that a C^1 cut-off
switches off on a ball around everything the in-distribution run reads.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sureprox.audit.drawn_networks import Kind, along_first_step, assumed, boxed, deviating, history_of, normal
from sureprox.audit.math_l2o import MathL2O, MathState, Network
from sureprox.audit.result import norm
from sureprox.audit.trajectory import Constants, Pair, pair, trace
from sureprox.base.types import Scalars, Vectors
from sureprox.problems import L1, LeastSquares, Logistic, Penalty, Problem, Smooth, Zero

LARGEST = 1e6  # runs that leave this ball say nothing in float64


class Tilted(Smooth):
    """f(x) + <tilt, x>: convex and as smooth as f, with its minimiser wherever the tilt puts it."""

    batched = None

    def __init__(self, inner: Smooth, tilt: Tensor) -> None:
        self.inner, self.tilt = inner, tilt

    @property
    def shape(self) -> tuple[int, int]:
        return self.inner.shape

    @property
    def like(self) -> Tensor:
        return self.tilt

    def value(self, x: Vectors) -> Scalars:
        return self.inner.value(x) + (self.tilt * x).sum(1)

    def grad(self, x: Vectors) -> Vectors:
        return self.inner.grad(x) + self.tilt

    def lipschitz(self, exact: bool = False) -> Scalars:
        return self.inner.lipschitz(exact)

    @property
    def selectable(self) -> bool:
        return self.inner.selectable

    def select(self, index: Tensor) -> "Tilted":
        return Tilted(self.inner.select(index), self.tilt[index])


@dataclass(frozen=True)
class Sample:
    """Pairs of runs and constants of their networks."""

    pair: Pair
    inside: Pair  # the in-distribution run, beside itself
    constants: Constants  # Frobenius norms of affine networks, global bounds of the others
    networks: dict[str, Network]


def draw(kind: Kind, count: int, generator: torch.Generator) -> Sample:
    """`count` random pairs; those whose N1(z') is not positive or that diverge are left out."""
    problem, solution, gam = _problem(kind, count, generator)
    problem_ood, target = _out_of_distribution(kind, problem, solution, generator)
    L = torch.maximum(problem.lipschitz(exact=True), problem_ood.lipschitz(exact=True))
    x0 = solution
    if kind.network == "nonlinear":  # the in-distribution ball has inner points, so the run may move in it
        x0 = solution + 0.3 * normal(generator, count, kind.n)
    start_ood = x0 + kind.far * normal(generator, count, kind.n)
    previous = start_ood + kind.far * normal(generator, count, kind.n)
    plain = MathL2O(*assumed(kind, L), history=history_of(kind))
    start = _start(plain, problem, x0, L, gam)
    quiet = trace(problem, plain, start, kind.steps)
    first = _with_past(_start(plain, problem_ood, start_ood, L, None), problem_ood, previous)
    seen = plain.step(problem_ood, first)
    if kind.network == "boxed":
        optimizer, networks = boxed(kind, L, generator)
    elif kind.network == "aligned":
        optimizer, networks = along_first_step(kind, L, problem_ood, plain, first, quiet, generator)
    else:
        reach = norm(seen.features - quiet.z[0, :, : -kind.n]), norm(seen.history - quiet.history[0])
        optimizer, networks = deviating(kind, L, quiet.z[..., : -kind.n], quiet.history, reach, generator)
    both = pair(optimizer, problem, start, problem_ood, first, target, kind.steps)
    keep = _usable(kind, both)
    both = both.select(keep)
    inside = replace(both, ood=both.ind, problem_ood=both.problem, target=solution[keep])
    networks = {name: network.select(keep) for name, network in networks.items()}
    return Sample(both, inside, _constants(both, networks), networks)


def _loss(kind: Kind, count: int, generator: torch.Generator) -> Smooth:
    m = kind.n + 2
    A = normal(generator, count, m, kind.n)
    if kind.loss == "logistic":
        return Logistic(3 * A, (normal(generator, count, m) > 0).double())
    if kind.n == 1:  # where the quadratic is as curved as L the bounds are sharp
        A = torch.ones_like(A) / m**0.5
    return LeastSquares(A, normal(generator, count, m))


def _problem(kind: Kind, count: int, generator: torch.Generator) -> tuple[Problem, Tensor, Tensor]:
    """A problem, its minimiser and the subgradient of r there that cancels grad f."""
    f = _loss(kind, count, generator)
    lam = 0 if kind.smooth else 0.5 * torch.rand(count, generator=generator, dtype=torch.float64)
    x = normal(generator, count, kind.n)
    if not kind.smooth:
        x = torch.where(normal(generator, count, kind.n) > 0, x, 0.0)
    r: Penalty = Zero() if kind.smooth else L1(lam)
    low, high = r.subdiff(x)
    gam = low + (high - low) * torch.rand(count, kind.n, generator=generator, dtype=torch.float64)
    return Problem(Tilted(f, -f.grad(x) - gam), r), x, gam


def _out_of_distribution(
    kind: Kind, problem: Problem, solution: Tensor, generator: torch.Generator
) -> tuple[Problem, Tensor]:
    """F' and its minimiser."""
    if kind.ood == "same":
        return problem, solution
    t = kind.far * normal(generator, *solution.shape)
    if kind.ood == "unrelated":
        problem, solution, _ = _problem(kind, len(solution), generator)
    return problem.shifted(t), solution - t


def _start(optimizer: MathL2O, problem: Problem, x: Tensor, L: Tensor, gam: Tensor | None) -> MathState:
    state = optimizer.init(problem, x, step_size=1 / L)
    return state if gam is None else replace(state, gam=gam, gam_before=gam)


def _with_past(state: MathState, problem: Problem, previous: Tensor) -> MathState:
    low, high = problem.subdiff(previous)
    return replace(state, previous=previous, grad_before=problem.grad(previous), gam_before=(low + high) / 2)


def _usable(kind: Kind, both: Pair) -> Tensor:
    size = both.ood.x.abs().amax((0, 2))
    keep = torch.isfinite(both.ood.F).all(0) & (size < LARGEST)
    positive = (both.ood.N1 > 0).all(2).all(0)
    return (keep if kind.smooth else keep & positive).nonzero()[:, 0]


def _constants(both: Pair, networks: dict[str, Network]) -> Constants:
    zero = torch.zeros_like(both.L)
    return Constants(*(networks[name].lipschitz if name in networks else zero for name in ("N1", "N2", "N3", "N4")))
