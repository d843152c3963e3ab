"""Every statement tried on random material: how often, and the worst slack of each of its sides."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch

from sureprox.audit import structure
from sureprox.audit.drawn_networks import Kind
from sureprox.audit.horizon import comparison
from sureprox.audit.jacobian import RowNetwork, virtual_jacobian
from sureprox.audit.math_l2o import Network
from sureprox.audit.result import SIDES, Check
from sureprox.audit.samples import Sample, draw
from sureprox.audit.statements import STATEMENTS, Case
from sureprox.audit.trajectory import Constants

CASES: dict[Case, tuple[bool, str]] = {  # r = 0?, history
    Case.SMOOTH: (True, "none"),
    Case.COMPOSITE: (False, "none"),
    Case.VARIABLE: (False, "variable"),
    Case.GRADIENT: (False, "gradient"),
}
BESIDE = {
    Case.SMOOTH: (Case.SMOOTH, Case.SMOOTH_IN),
    Case.COMPOSITE: (Case.COMPOSITE, Case.COMPOSITE_IN),
    Case.VARIABLE: (Case.VARIABLE, Case.HORIZON, Case.HORIZON_IN),
    Case.GRADIENT: (Case.GRADIENT, Case.HORIZON, Case.HORIZON_IN),
}  # the statements that runs of each case are material for
INSIDE = (Case.SMOOTH_IN, Case.COMPOSITE_IN, Case.HORIZON_IN)


@dataclass(frozen=True)
class Tally:
    """What trying a statement has shown so far. Slacks are NaN until the side has applied once."""

    name: str
    runs: int = 0
    counts: tuple[int, int, int] = (0, 0, 0)  # inequalities, for each of SIDES
    worst: tuple[float, float, float] = (float("nan"),) * 3

    def add(self, check: Check, runs: int) -> "Tally":
        a, b, c = (old + check.count(side) for old, side in zip(self.counts, SIDES, strict=True))
        u, v, w = (_least(old, check.worst(side)) for old, side in zip(self.worst, SIDES, strict=True))
        return replace(self, runs=self.runs + runs, counts=(a, b, c), worst=(u, v, w))

    def worst_of(self, side: str) -> float:
        return self.worst[SIDES.index(side)]


def _least(a: float, b: float) -> float:
    return b if a != a else a if b != b else min(a, b)


def grid(sizes: tuple[int, ...] = (1, 2, 4), steps: tuple[int, ...] = (1, 3)) -> Iterator[Kind]:
    """All combinations of size, length, f', F', network and case."""
    losses, networks = ("quadratic", "logistic"), ("affine", "nonlinear", "aligned")
    shifts = ("same", "shifted", "unrelated")
    for n, K, loss, network, ood in itertools.product(sizes, steps, losses, networks, shifts):
        for smooth, history in CASES.values():
            yield Kind(n=n, steps=K, smooth=smooth, history=history, loss=loss, network=network, ood=ood)
        yield Kind(n=n, steps=K, smooth=True, loss=loss, network="boxed", ood="same")


def hunted() -> Iterator[Kind]:
    """Where statements break rarely: histories in one coordinate with f as curved as L, the box of Lemma 1."""
    for history in ("variable", "gradient"):
        yield Kind(n=1, steps=1, history=history, network="aligned", ood="same")
    yield Kind(n=4, steps=1, smooth=True, network="boxed", ood="same")


def checks(kind: Kind, sample: Sample) -> Iterator[Check]:
    """Every statement that the sample is material for, with the given constants and with secants."""
    (case,) = (c for c, key in CASES.items() if key == (kind.smooth, kind.history))
    for statement in STATEMENTS:
        if statement.check is None or statement.case not in BESIDE[case]:
            continue
        if kind.network == "boxed":  # these networks are made for Lemma 1 and satisfy no assumption
            if statement.name == "Lemma 1":
                yield statement.check(sample.pair)
        elif statement.case in INSIDE:
            yield statement.check(sample.inside)
        elif statement.constants:
            yield statement.check(sample.pair, sample.constants)
            if kind.network != "affine":
                yield without_printed(statement.check(sample.pair))
        else:
            yield statement.check(sample.pair)
    if kind.network != "boxed" and len(sample.pair.L):
        names = ("N1",) if kind.network == "nonlinear" else tuple(sample.networks)
        yield from (_jacobian_check(name, sample) for name in names)


def without_printed(check: Check) -> Check:
    """Secant constants are fair to what is claimed to be true; the printed side is judged by real ones only."""
    nothing = torch.zeros_like(check.lhs, dtype=torch.bool)
    return replace(check, printed=replace(check.printed, applies=nothing))


def _jacobian_check(name: str, sample: Sample) -> Check:
    """On the first few instances, at the first step: quadrature is slow."""
    pair, few = sample.pair, torch.arange(min(4, len(sample.pair.L)))
    network = sample.networks[name].select(few)
    n = pair.ood.x.shape[-1]
    if name == "N4":
        z, z_ood = pair.ind.history[0], pair.ood.history[0]
    else:  # without the implicit subgradient, which no network reads
        z, z_ood = pair.ind.z[0, :, :-n], pair.ood.z[0, :, :-n]
    return virtual_jacobian(rows_of(network), z[few], z_ood[few], network.lipschitz)


def rows_of(network: Network) -> RowNetwork:
    """A network per instance as a network per row."""
    return lambda z, rows: network.select(rows)(z)


def try_all(count: int, generator: torch.Generator, kinds: Iterator[Kind] | None = None) -> dict[str, Tally]:
    """`count` random pairs of runs of each kind, and every statement on them."""
    tallies = {statement.name: Tally(statement.name) for statement in STATEMENTS}
    plan = [(kind, count) for kind in (grid() if kinds is None else kinds)] + [(kind, 50 * count) for kind in hunted()]
    for kind, size in plan:
        seen: set[str] = set()
        for check in checks(kind, draw(kind, size, generator)):
            runs = 0 if check.statement in seen else check.lhs.shape[-1]
            seen.add(check.statement)
            tallies[check.statement] = tallies[check.statement].add(check, runs)
    for check in others(50 * count, generator):
        tallies[check.statement] = tallies[check.statement].add(check, check.lhs.numel())
    return tallies


def others(count: int, generator: torch.Generator) -> Iterator[Check]:
    """Random material for the statements that are not inequalities along a run."""

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    kind = Kind(n=3, steps=1)
    pair = draw(kind, count, generator).pair
    x = pair.ood.x[0]
    yield structure.theorem3(pair.problem_ood, x, normal(*x.shape).exp(), normal(*x.shape))
    yield structure.lemma4(normal(3, 3), normal(3), normal(3))
    t = 10 * normal(count, 1)
    yield structure.prox(5 * normal(count, 4), normal(count, 4).exp(), 0.3, t)
    yield structure.lasso_smoothness(normal(20, 8, 12))
    A = normal(250, 500)
    yield structure.size_of_b(A, A @ normal(500))
    for loss, far in itertools.product(("quadratic", "logistic"), (0.1, 1.0)):
        seed = int(torch.randint(2**31, (1,), generator=generator))
        yield compared(Kind(n=1, steps=1, loss=loss, ood="shifted", far=far), 500, seed)


def compared(kind: Kind, count: int, seed: int) -> Check:
    """The penalties of both histories on the same problems, from the same points, all constants one."""
    variable, gradient = (
        draw(replace(kind, history=h, strength=1e-3), count, torch.Generator().manual_seed(seed)).pair
        for h in ("variable", "gradient")
    )
    one = torch.ones_like(variable.L)
    return comparison(variable, gradient, Constants(one, one, one, one))
