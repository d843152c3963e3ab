"""Random pairs of runs that satisfy the paper's assumptions exactly: the material on which every statement is tried.

Problems: quadratic or logistic f, tilted so that the minimiser is known, with r = 0 or lam |x|_1; out of distribution
the same F, F(. + t), or an unrelated F' with a shifted l1. Networks: affine, or tanh networks that a C^1 cut-off
switches off on a ball around everything the in-distribution run reads.
"""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.audit.math_l2o import Affine, MathL2O, Network, Sum, frobenius
from sureprox.audit.result import norm
from sureprox.audit.trajectory import Constants, Pair, pair, trace
from sureprox.problems import L1, LeastSquares, Logistic, Penalty, Problem, Smooth, Zero
from sureprox.types import Scalars, Vectors

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
class Kind:
    """What is drawn. history: "none", "variable" or "gradient"; smooth: r = 0 and Assumption 1."""

    n: int = 2
    steps: int = 3
    smooth: bool = False
    history: str = "none"
    loss: str = "quadratic"  # or "logistic"
    network: str = "affine"  # or "nonlinear", "aligned": affine of rank one along the first s', or "boxed"
    ood: str = "unrelated"  # or "same", "shifted"
    strength: float = 1.0  # of the networks
    far: float = 1.0  # |s_0|

    def describe(self) -> str:
        case = "smooth" if self.smooth else f"composite, {self.history} history"
        return f"{case}, {self.loss} f', {self.network} networks, F' {self.ood}, n = {self.n}, K = {self.steps}"


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
        x0 = solution + 0.3 * _normal(generator, count, kind.n)
    start_ood = x0 + kind.far * _normal(generator, count, kind.n)
    previous = start_ood + kind.far * _normal(generator, count, kind.n)
    plain = MathL2O(*_base(kind, L), history=_history(kind))
    start = _start(plain, problem, x0, L, gam)
    quiet = trace(problem, plain, start, kind.steps)
    first = _with_past(_start(plain, problem_ood, start_ood, L, None), problem_ood, previous)
    seen = plain.step(problem_ood, first)
    if kind.network == "boxed":
        optimizer, networks = _boxed(kind, L, generator)
    elif kind.network == "aligned":
        optimizer, networks = _aligned(kind, L, problem_ood, plain, first, quiet, generator)
    else:
        reach = norm(seen.features - quiet.z[0, :, : -kind.n]), norm(seen.history - quiet.history[0])
        optimizer, networks = _networks(kind, L, quiet.z[..., : -kind.n], quiet.history, reach, generator)
    both = pair(optimizer, problem, start, problem_ood, first, target, kind.steps)
    keep = _usable(kind, both)
    both = both.select(keep)
    inside = replace(both, ood=both.ind, problem_ood=both.problem, target=solution[keep])
    networks = {name: network.select(keep) for name, network in networks.items()}
    return Sample(both, inside, _constants(both, networks), networks)


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _loss(kind: Kind, count: int, generator: torch.Generator) -> Smooth:
    m = kind.n + 2
    A = _normal(generator, count, m, kind.n)
    if kind.loss == "logistic":
        return Logistic(3 * A, (_normal(generator, count, m) > 0).double())
    if kind.n == 1:  # where the quadratic is as curved as L the bounds are sharp
        A = torch.ones_like(A) / m**0.5
    return LeastSquares(A, _normal(generator, count, m))


def _problem(kind: Kind, count: int, generator: torch.Generator) -> tuple[Problem, Tensor, Tensor]:
    """A problem, its minimiser and the subgradient of r there that cancels grad f."""
    f = _loss(kind, count, generator)
    lam = 0 if kind.smooth else 0.5 * torch.rand(count, generator=generator, dtype=torch.float64)
    x = _normal(generator, count, kind.n)
    if not kind.smooth:
        x = torch.where(_normal(generator, count, kind.n) > 0, x, 0.0)
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
    t = kind.far * _normal(generator, *solution.shape)
    if kind.ood == "unrelated":
        problem, solution, _ = _problem(kind, len(solution), generator)
    return problem.shifted(t), solution - t


def _history(kind: Kind) -> str:
    return "variable" if kind.history == "none" else kind.history


def _base(kind: Kind, L: Tensor) -> tuple[Affine, Affine]:
    """The N1 and N2 that the assumption asks for: 1/2L and g/2L (smooth), 1/L and 0."""
    count, n = len(L), kind.n
    width = 2 * n if kind.history == "gradient" else 3 * n
    zero, slope = torch.zeros(count, n, dtype=L.dtype), torch.zeros(count, n, width, dtype=L.dtype)
    at = slope[:, 0]
    column = L.unsqueeze(1)
    if not kind.smooth:
        return Affine((1 / column).expand(-1, n), slope, at), Affine(zero, slope, at)
    reads = slope.clone()
    reads[:, :, n : 2 * n] = torch.eye(n, dtype=L.dtype) / (2 * column.unsqueeze(2))
    return Affine((0.5 / column).expand(-1, n), slope, at), Affine(zero, reads, at)


def _start(optimizer: MathL2O, problem: Problem, x: Tensor, L: Tensor, gam: Tensor | None) -> Any:
    state = optimizer.init(problem, x, step_size=1 / L)
    return state if gam is None else replace(state, gam=gam, gam_before=gam)


def _with_past(state: Any, problem: Problem, previous: Tensor) -> Any:
    low, high = problem.subdiff(previous)
    return replace(state, previous=previous, grad_before=problem.grad(previous), gam_before=(low + high) / 2)


def _networks(
    kind: Kind, L: Tensor, z: Tensor, past: Tensor, reach: tuple[Tensor, Tensor], generator: torch.Generator
) -> tuple[MathL2O, dict[str, Network]]:
    """Networks that satisfy the assumption on everything in z (K, B, d) and past (K, B, 2n), and not elsewhere.

    `reach`: how far from them the first step out of distribution reads, so that the affine networks change by
    about `strength`, whatever the scale of the problem, and N1 often stays positive.
    """
    base = _base(kind, L)
    column = L.reshape(-1, 1, 1)
    made: dict[str, Network] = {}
    names = ["N1", "N2"] if kind.history == "none" else ["N1", "N2", "N3", "N4"]
    for name in names:
        read = past if name == "N4" else z
        size = kind.strength / (column if name in ("N1", "N2") else 1)
        width = read.shape[-1]
        if kind.network == "nonlinear":
            extra: Network = Bump.drawn(read, size, kind.n, generator)
        else:
            far = reach[name == "N4"].reshape(-1, 1, 1)
            slope = size / far * _normal(generator, len(L), kind.n, width) / kind.n**0.5
            extra = Affine(torch.zeros_like(read[0, :, : kind.n]), slope, read[0])
        made[name] = Sum(base[0], extra) if name == "N1" else Sum(base[1], extra) if name == "N2" else extra
    return _model(kind, made), made


def _model(kind: Kind, made: dict[str, Network]) -> MathL2O:
    return MathL2O(made["N1"], made["N2"], made.get("N3"), made.get("N4"), _history(kind))


@dataclass(frozen=True)
class Bump:
    """cut(z) W2 tanh(W1 (z - centre)), cut = u^2/(1 + u^2), u = max(0, |z - centre|/radius - 1)."""

    W1: Tensor  # (B, h, d)
    W2: Tensor  # (B, n, h)
    centre: Tensor  # (B, d)
    radius: Tensor  # (B,)

    @staticmethod
    def drawn(read: Tensor, size: Tensor | float, n: int, generator: torch.Generator, hidden: int = 5) -> "Bump":
        """Zero on a ball that holds all of read (K, B, d)."""
        centre = read.mean(0)
        radius = 1.05 * norm(read - centre).amax(0) + 0.1
        batch, width = centre.shape
        W2 = size * _normal(generator, batch, n, hidden) / (n * hidden) ** 0.5
        return Bump(_normal(generator, batch, hidden, width), W2, centre, radius)

    def __call__(self, z: Tensor) -> Tensor:
        away = z - self.centre
        u = (norm(away) / self.radius - 1).clamp(min=0).unsqueeze(1)
        raw = torch.einsum("bnh,bh->bn", self.W2, torch.tanh(torch.einsum("bhd,bd->bh", self.W1, away)))
        return u.square() / (1 + u.square()) * raw

    def select(self, index: Tensor) -> "Bump":
        return Bump(self.W1[index], self.W2[index], self.centre[index], self.radius[index])

    @property
    def lipschitz(self) -> Tensor:
        """(B,): |W2|_F (|W1| + (3 sqrt(3)/8)/radius sqrt(h)) >= |J|_F on the whole space."""
        inner: Tensor = torch.linalg.matrix_norm(self.W1, ord=2)
        cut: Tensor = 3 * 3**0.5 / 8 / self.radius * self.W1.shape[1] ** 0.5
        return frobenius(self.W2) * (inner + cut)


@dataclass(frozen=True)
class Boxed:
    """A vector of the box of Lemma 1: c e, e >= 0, whose largest entry is a fraction of |g| cos(angle(e, g))/L."""

    e: Tensor  # (B, n)
    fraction: Tensor  # (B,)
    L: Tensor  # (B,)

    def __call__(self, z: Tensor) -> Tensor:
        n = self.e.shape[1]
        cosine = (z[:, n : 2 * n] * self.e).sum(1).clamp(min=0) / norm(self.e)
        return (self.fraction * cosine / self.L / self.e.amax(1)).unsqueeze(1) * self.e

    @property
    def lipschitz(self) -> Tensor:
        return self.fraction / self.L * norm(self.e) / self.e.amax(1)

    def select(self, index: Tensor) -> "Boxed":
        return Boxed(self.e[index], self.fraction[index], self.L[index])


def _boxed(kind: Kind, L: Tensor, generator: torch.Generator) -> tuple[MathL2O, dict[str, Network]]:
    """N1 = lam 1 with lam in [0, 1/L], N2 in the box of Lemma 1. These do not satisfy Assumption 1."""
    count = len(L)
    base, _ = _base(kind, L)
    lam, fraction = torch.rand(2, count, generator=generator, dtype=L.dtype) ** 0.5
    N1 = Affine((lam / L).unsqueeze(1).expand(-1, kind.n), base.slope, base.at)
    e = torch.rand(count, kind.n, generator=generator, dtype=L.dtype) ** 0.25  # often near 1, the worst direction
    made: dict[str, Network] = {"N1": N1, "N2": Boxed(e, fraction, L)}
    return _model(kind, made), made


def _aligned(
    kind: Kind, L: Tensor, problem: Problem, plain: MathL2O, first: Any, quiet: Any, generator: torch.Generator
) -> tuple[MathL2O, dict[str, Network]]:
    """Affine networks of rank one along what they read at the first step: there |J s'| = |J|_F |s'|."""
    count, n = first.x.shape
    made: dict[str, Network] = {}

    def along(read: Tensor, at: Tensor, size: Tensor | float) -> Affine:
        way = read - at
        way = way / way.square().sum(1, keepdim=True).clamp(min=1e-300)  # so that |J s'| is the size, at any scale
        side = _normal(generator, count, n)
        side = side / norm(side).unsqueeze(1)
        length = size * (_normal(generator, count, 1, 1) / 2).exp()
        return Affine(torch.zeros_like(side), length * side.unsqueeze(2) * way.unsqueeze(1), at)

    base = _base(kind, L)
    column = L.reshape(-1, 1, 1)
    if kind.history != "none":
        seen = plain.step(problem, first)
        made["N4"] = along(seen.history, quiet.history[0], kind.strength)
    probe = MathL2O(*base, None, made.get("N4"), _history(kind)).step(problem, first)
    at = quiet.z[0, :, :-n]
    for name in ("N1", "N2") if kind.history == "none" else ("N1", "N2", "N3"):
        extra = along(probe.features, at, kind.strength / column if name != "N3" else kind.strength)
        made[name] = extra if name == "N3" else Sum(base[int(name[1]) - 1], extra)
    return _model(kind, made), made


def _usable(kind: Kind, both: Pair) -> Tensor:
    size = both.ood.x.abs().amax((0, 2))
    keep = torch.isfinite(both.ood.F).all(0) & (size < LARGEST)
    positive = (both.ood.N1 > 0).all(2).all(0)
    return (keep if kind.smooth else keep & positive).nonzero()[:, 0]


def _constants(both: Pair, networks: dict[str, Network]) -> Constants:
    zero = torch.zeros_like(both.L)
    return Constants(*(networks[name].lipschitz if name in networks else zero for name in ("N1", "N2", "N3", "N4")))
