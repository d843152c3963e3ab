"""What the guarantee is tried on: problems of every kind, and optimizers that work, fail, or mean harm."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox.guarantee import Audited, CertifiedCheap
from sureprox.guarantee.cheap import SHARE
from sureprox.guarantee.guaranteed import GuaranteedState
from sureprox.optimizers import FISTA, ISTA, L2ODM, L2OPA, Adam, GoMathL2O, LearnedOptimizer, Optimizer, RNNProp, State
from sureprox.problems import Problem
from sureprox.sources import LassoFamily, LogisticFamily

F64 = torch.float64
FAMILIES = ("lasso", "logistic")
SHIFTS = (10.0, -10.0, 100.0, -100.0, 1000.0, -1000.0)
PACE, FIRST = 6, 18  # of the theorem on audits: F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k/6)^2 for k >= 18
ROUNDING = 64  # units of roundoff, relative to F, that values of F may be off by


# --- problems ---------------------------------------------------------------------------------------------------------


def _normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=generator, dtype=F64)


def _with_ratio(kind: str, A: Tensor, rhs: Tensor, ratio: Tensor | float) -> Problem:
    """lam = ratio times the smallest lam whose solution is zero."""
    make = getattr(sp, kind)
    free = make(A, rhs, 0.0)
    return make(A, rhs, ratio * free.scale()[1])


def _correlated(batch: int, generator: torch.Generator) -> Problem:
    """Neighbouring columns with correlation 0.99."""
    noise = _normal(generator, batch, 30, 40)
    columns = [noise[:, :, 0]]
    for j in range(1, 40):
        columns.append(0.99 * columns[-1] + (1 - 0.99**2) ** 0.5 * noise[:, :, j])
    return _with_ratio("lasso", torch.stack(columns, 2), _normal(generator, batch, 30), 0.05)


def _scaled(batch: int, generator: torch.Generator, kind: str = "lasso") -> Problem:
    """A, b and lam each times a power of ten between -6 and 6, other ones for each instance."""

    def powers() -> Tensor:
        return 10 ** (12 * torch.rand(batch, generator=generator, dtype=F64) - 6)

    A = _normal(generator, batch, 20, 30) * powers().view(-1, 1, 1)
    rhs = _normal(generator, batch, 20)
    if kind == "lasso":
        return _with_ratio(kind, A, rhs * powers().unsqueeze(1), 0.1 * powers())
    return _with_ratio(kind, A, (rhs > 0).to(F64), 0.1 * powers().clamp(min=1e-3))


def _separable(batch: int, generator: torch.Generator) -> Problem:
    """Logistic regression on data that a plane separates: without the penalty there is no solution."""
    A = _normal(generator, batch, 30, 10)
    y = (torch.einsum("bmn,bn->bm", A, _normal(generator, batch, 10)) > 0).to(F64)
    return _with_ratio("logistic", A, y, 0.01)


def _shared(batch: int, generator: torch.Generator) -> Problem:
    return _with_ratio("lasso", _normal(generator, 20, 40), _normal(generator, batch, 20), 0.1)


PROBLEMS: dict[str, Callable[[int, torch.Generator], Problem]] = {
    "lasso": LassoFamily(m=20, n=40, nonzeros=5).sample,
    "logistic": LogisticFamily(m=60, n=15, nonzeros=5, lam=0.01).sample,
    "correlated 0.99": _correlated,
    "shared A": _shared,
    "separable": _separable,
    "scaled lasso": _scaled,
    "scaled logistic": lambda batch, generator: _scaled(batch, generator, "logistic"),
}


def make_problem(name: str, batch: int, seed: int) -> Problem:
    generator = torch.Generator().manual_seed(seed)
    return PROBLEMS[name](batch, generator).to(dtype=F64)


# --- a problem of which only the values and gradients are known, without a duality gap


class Ridge(sp.Smooth):
    """f(x) = 1/2 |x - c|^2_W, without any of the structure the package knows."""

    batched = ("w", "c")

    def __init__(self, w: Tensor, c: Tensor) -> None:
        self.w, self.c = w, c

    @property
    def shape(self):
        return self.c.shape

    def value(self, x):
        return 0.5 * (self.w * (x - self.c).square()).sum(1)

    def grad(self, x):
        return self.w * (x - self.c)

    def lipschitz(self, exact=False):
        return self.w.amax(1)


class Ball(sp.Penalty):
    """Zero where |x_j| <= 1, infinite elsewhere."""

    def value(self, x):
        return torch.where((x.abs() <= 1).all(1), 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v.clamp(-1, 1)

    def subdiff(self, x):
        return torch.where(x > -1, 0.0, -torch.inf).to(x.dtype), torch.where(x < 1, 0.0, torch.inf).to(x.dtype)


# --- optimizers that mean harm ----------------------------------------------------------------------------------------


class Adversary(ISTA):
    """Returns move(k, x, g, x_0, 1/L) as its next point."""

    def __init__(self, move: Callable[[int, Tensor, Tensor, Tensor], Tensor]) -> None:
        self.move = move

    def step(self, problem: Problem, state: State) -> State:
        step = state.step_size.unsqueeze(1)
        return replace(state, x=self.move(state.k, state.x, problem.grad(state.x), step), k=state.k + 1)


def constant(value: float) -> Adversary:
    return Adversary(lambda k, x, g, step: torch.full_like(x, value))


def _works_then_breaks(k: int, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
    """Gradient steps that turn into small steps uphill."""
    return x - 0.9 * step * g if k < 40 else x + 0.05 * step * g


def _vandal(k: int, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
    """Writes on what it was given."""
    g.fill_(torch.nan)
    return x.fill_(-torch.inf)


def _noise(k: int, x: Tensor, g: Tensor, step: Tensor) -> Tensor:
    return x + step * g.abs().amax(1, keepdim=True) * torch.sin(1e3 * (x + k))


ADVERSARIES: dict[str, Adversary] = {
    "NaN": constant(float("nan")),
    "infinity": constant(float("inf")),
    "-infinity": constant(-float("inf")),
    "1e30": constant(1e30),
    "previous point": Adversary(lambda k, x, g, step: x),
    "ascent": Adversary(lambda k, x, g, step: x + step * g),
    "ten steps in one": Adversary(lambda k, x, g, step: x - 10 * step * g),
    "1e30 and back": Adversary(lambda k, x, g, step: torch.full_like(x, 1e30) if k % 2 == 0 else torch.zeros_like(x)),
    "good, then NaN": Adversary(lambda k, x, g, step: x - step * g if k < 20 else torch.full_like(x, torch.nan)),
    "one coordinate NaN": Adversary(lambda k, x, g, step: torch.cat([x[:, :1] * torch.nan, x[:, 1:]], 1)),
    "noise": Adversary(_noise),
    "slow drift": Adversary(lambda k, x, g, step: x - 1e-3 * step * g),
    "a wrong point": Adversary(lambda k, x, g, step: x + 0.2 * (0.5 - x)),
    "works, then breaks": Adversary(_works_then_breaks),
    "vandal": Adversary(_vandal),
}


def random_weights(kind: type[LearnedOptimizer], seed: int, scale: float = 1.0, **options: Any) -> LearnedOptimizer:
    """An untrained network, its weights `scale` times as large as usual."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        optimizer = kind(hidden=8, **options)
    with torch.no_grad():
        for weight in optimizer.parameters():
            weight.mul_(scale)
    return optimizer


def untrained() -> dict[str, Optimizer]:
    made: dict[str, Optimizer] = {}
    for scale in (1.0, 5.0):
        for kind in (GoMathL2O, L2OPA, L2ODM, RNNProp):
            made[f"{kind.kind}, random weights x {scale:g}"] = random_weights(kind, 0, scale)
        made[f"go-math-l2o, softplus, random weights x {scale:g}"] = random_weights(
            GoMathL2O, 1, scale, activation="softplus", gradient_map="std"
        )
    return made


CLASSICAL: dict[str, Optimizer] = {"ISTA": ISTA(), "restarted FISTA": FISTA(restart=True), "Adam": Adam()}


def trained() -> dict[str, Optimizer]:
    """The pretrained optimizers of both families, without variants and those tied to one number of rows."""
    names = [name for name in sp.pretrained() if name.partition("/")[2] in FAMILIES and "ada-lista" not in name]
    return {name: sp.load(name) for name in names}


# --- what must hold ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Verdict:
    """What a batch of runs showed. Numbers of instances, and the largest ratio of F(x_k) - F(x*) to its bound."""

    runs: int
    above_bound: int
    not_monotone: int
    not_finite: int
    gap_too_small: int
    ratio: float
    rejected: int
    pull_backs: int


@torch.no_grad()
def watched(
    problem: Problem,
    optimizer: Optimizer[Any],
    x0: Tensor,
    target: Tensor,
    steps: int,
    long: float = 1.0,
) -> Verdict:
    """Run a certified optimizer and hold every x_k against its theorem, in float64.

    F(x_k) - F(x) <= 2 L |x_0 - x|^2 / `promised`^2 for any point x, here `target`. `long`: the step size, in units of
    1/L, that the run begins with.
    """
    exact = problem.to(dtype=F64)
    eps = torch.finfo(problem.dtype).eps
    step_size = None if long == 1 else long * problem.step_size()
    first = optimizer.init(problem, x0, generator=torch.Generator().manual_seed(0), step_size=step_size)
    assert isinstance(first, GuaranteedState)
    best, square = exact.objective(target), (first.x.double() - target).square().sum(1)
    value = exact.objective(first.x.double())
    flags = torch.zeros(4, problem.batch, dtype=torch.bool)
    ratio = 0.0
    for state in sp.iterate(problem, optimizer, first, steps):
        before, value = value, exact.objective(state.x.double())
        slack = ROUNDING * eps * torch.maximum(value.abs(), best.abs())
        pace = promised(optimizer, state)
        bound = torch.where(pace > 0, 2 / state.step_size.double() * square / pace.square(), torch.inf)
        sharp = square / (2 * state.weight.double())  # what the state itself claims
        flags[0] |= ~((value - best <= bound + slack) & (value - best <= sharp + slack))
        flags[1] |= ~(value <= before + ROUNDING * torch.finfo(F64).eps * before.abs())
        flags[2] |= ~torch.isfinite(state.x).all(1)
        ratio = max(ratio, float(torch.where(bound > slack, (value - best) / bound, 0.0).max()))
        if state.k % 10 == 0:
            flags[3] |= exact.certificate(state.x.double()).gap < value - best - slack
    counts = flags.sum(1).tolist()
    return Verdict(problem.batch, *counts, ratio, int(state.rejected.sum()), int(state.pull_backs.sum()))


def promised(optimizer: Optimizer[Any], state: GuaranteedState) -> Tensor:
    """p (B,) of the bound 2 L |x_0 - x*|^2 / p^2 of each scheme; 0 where nothing is promised."""
    if isinstance(optimizer, Audited):
        return (state.k / PACE - state.rejected).clamp(min=0) * (state.k >= FIRST)
    taken = state.k // (SHARE if isinstance(optimizer, CertifiedCheap) else 1) - state.rejected
    return torch.where(taken > 0, taken + 1, 0)


def target_of(problem: Problem) -> Tensor:
    """A solution, or at least a good point: the theorem holds against any."""
    try:
        return sp.reference(problem, tol=1e-10, rounds=1).x
    except sp.SureproxError:
        return sp.solve(problem, FISTA(restart=True), max_iter=2000, tol=1e-10, certify=False, check_every=100).x


def everything() -> Iterator[tuple[str, Optimizer, tuple[float, ...]]]:
    """(name, optimizer, shifts of start and problem) of all that is to be tried."""
    for name, optimizer in trained().items():
        yield name, optimizer, (0.0, *SHIFTS)
    for name, optimizer in (untrained() | ADVERSARIES | CLASSICAL).items():
        yield name, optimizer, (0.0,)
