"""What the theory says about a trained optimizer: the assumption-free bounds, and how much they prove."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.audit.composite import corollary5, theorem4
from sureprox.audit.jacobian import average_slope, sampled_maximum
from sureprox.audit.result import Check, norm
from sureprox.audit.statements import STATEMENTS, Case
from sureprox.audit.trained import global_bound, row_network
from sureprox.audit.trajectory import Constants, Pair, aligned, secant_constants
from sureprox.base.errors import InputError
from sureprox.optimizers import L2OPA, GoMathL2O, Optimizer
from sureprox.problems import Problem
from sureprox.solve.reference import reference
from sureprox.sources.families import Family

LARGEST = 1e60  # points beyond it have diverged: the squares of the bounds would overflow soon after
FLOOR = 1e-12  # of the gap at the start: below it F is known to rounding only
CASES = (Case.COMPOSITE, Case.COMPOSITE_IN, Case.HORIZON, Case.HORIZON_IN)  # what a run of a trained model is
CHECKED = 8  # coordinates whose average Jacobian is computed: kinks make the quadrature slow
FEATURES, POINTS, HISTORY = "|s'|, distance of the features", "|s|, distance of the points", "(L/2)|N3(z') P'|²"
MARKS = (1, 2, 5, 10, 20, 50, 100)  # iterations at which Jacobians are computed


@dataclass(frozen=True)
class Scenario:
    """How the run differs from one in distribution: x_0 + s, and F'(x) = F(x + t)."""

    s: float = 0.0
    t: float = 0.0

    @property
    def name(self) -> str:
        parts = [f"{key} = {value:g}" for key, value in (("s", self.s), ("t", self.t)) if value]
        return ", ".join(parts) or "in distribution"

    @staticmethod
    def parse(text: str) -> "Scenario":
        """ "s=10", "t=-20", "s=10,t=5" or "ind"."""
        if text.strip() in ("ind", "in distribution"):
            return Scenario()
        values = {}
        for part in text.split(","):
            key, equals, value = part.partition("=")
            try:
                number = float(value)
            except ValueError:
                number = float("nan")
            if key.strip() not in ("s", "t") or not equals or not abs(number) < float("inf"):
                raise InputError(f"scenario is {text!r}; write s=NUMBER, t=NUMBER, both with a comma, or ind")
            values[key.strip()] = number
        return Scenario(**values)


SCENARIOS = (Scenario(), Scenario(s=10.0), Scenario(s=100.0))


@dataclass(frozen=True)
class ConstantsAt:
    """|J_1| and |J_3| at iteration k, largest over the instances, by three ways of knowing them."""

    k: int
    shift: float  # |s'|
    secant: tuple[float, float]  # exact for this step
    sampled: tuple[float, float]  # largest on 32 points of the segment: a lower estimate of the supremum
    product: tuple[float, float]  # of the norms of the weights: an upper bound everywhere
    residual: float  # |average Jacobian times s' - difference of the outputs|, on a few coordinates
    bounds: Mapping[str, tuple[float, ...]] = field(default_factory=dict)  # one-step bound with each, per instance


@dataclass(frozen=True)
class ModelAudit:
    """One optimizer in one scenario. All tensors (K, B) are per iteration and instance."""

    model: str
    scenario: Scenario
    steps: int  # audited; fewer than asked for where the run diverged
    diverged: bool
    checks: Mapping[str, Check]
    constants: Sequence[ConstantsAt]
    gap: Tensor  # (K + 1, B): F'(x'_k) - F'*
    shift: Tensor  # (K, B): |s'|

    @property
    def unsolved(self) -> Tensor:
        """(K, B): the steps from a gap that is more than rounding; after them F says nothing about a step."""
        return self.gap[:-1] > FLOOR * self.gap[0]

    @property
    def step(self) -> Check:
        """The one-step bound: Theorem 6, assumption-free."""
        return self.checks["Theorem 6"]

    @property
    def step_norms(self) -> Check:
        """The same in norms, with secant constants: Corollary 5, assumption-free."""
        return self.checks["Corollary 5"]


@dataclass(frozen=True)
class Setting:
    """Problems, starting points and solutions that all models of a family are audited on."""

    family: Family
    problem: Problem
    x0: Tensor
    solution: Tensor


def setting(family: Family, instances: int, seed: int) -> Setting:
    generator = torch.Generator().manual_seed(seed)
    problem = family.sample(instances, generator, torch.float64)
    x0 = family.start(instances, generator, torch.float64)
    return Setting(family, problem, x0, reference(problem).x)


def runs(optimizer: Optimizer[Any], where: Setting, scenario: Scenario, steps: int, seed: int = 0) -> tuple[Pair, bool]:
    """The two runs, cut where the one out of distribution diverges, and whether it did."""
    problem = where.problem.shifted(scenario.t) if scenario.t else where.problem
    found = aligned(
        optimizer, where.problem, where.x0, problem, where.x0 + scenario.s, where.solution - scenario.t, steps, seed
    )
    size = found.ood.x.abs().amax((1, 2)).nan_to_num(nan=torch.inf)
    lost = (size > LARGEST).nonzero()
    if not len(lost):
        return found, False
    last = max(1, int(lost[0]) - 1)
    return replace(found, ind=found.ind.first(last), ood=found.ood.first(last)), True


def audit_model(
    name: str, optimizer: Optimizer[Any], where: Setting, scenario: Scenario, steps: int, seed: int = 0
) -> ModelAudit:
    """Every inequality for composite problems along these runs; for a network, what is known of its Jacobians."""
    pair, diverged = runs(optimizer, where, scenario, steps, seed)
    checks = {
        statement.name: statement.check(pair)
        for statement in STATEMENTS
        if statement.check is not None and statement.case in CASES
    }
    learned = isinstance(optimizer, GoMathL2O | L2OPA)
    marks = [k for k in MARKS if k <= pair.ood.steps] if learned and float(pair.shift.max()) > 0 else []
    return ModelAudit(
        model=name,
        scenario=scenario,
        steps=pair.ood.steps,
        diverged=diverged,
        checks=checks,
        constants=[constants_at(optimizer, pair, k) for k in marks],  # type: ignore[arg-type]
        gap=pair.ood.F - pair.target_value,
        shift=pair.shift,
    )


@torch.no_grad()
def constants_at(optimizer: GoMathL2O | L2OPA, pair: Pair, k: int) -> ConstantsAt:
    """The constants of N1 and N3 for the step from x'_{k-1} to x'_k, and the bounds they give."""
    n, batch = pair.ood.x.shape[-1], len(pair.L)
    z, z_ood = (run.z[k - 1].reshape(batch * n, -1) for run in (pair.ind, pair.ood))
    per_row = (1 / pair.L).repeat_interleave(n)
    network = row_network(optimizer, per_row)
    sampled = sampled_maximum(network, z, z_ood - z).reshape(batch, n, 2).amax(1)
    memory = 2 * optimizer.network.layers * optimizer.network.hidden
    cells = torch.stack([z, z_ood])[..., -memory // 2 :].abs().reshape(2, batch, -1).amax((0, 2))
    product = global_bound(optimizer, 1 / pair.L, cells)
    secant = secant_constants(pair)
    few = slice(0, CHECKED)
    step = replace(pair, ind=pair.ind.only(k), ood=pair.ood.only(k))
    own = Constants(*(getattr(secant, name)[k - 1 : k] for name in ("C1", "C2", "C3", "C4")))
    # N2 is not an output of these networks, so its constant stays the secant one
    choices = {
        "secant": own,
        "sampled": replace(own, C1=sampled[:, 0], C3=sampled[:, 1]),
        "product": replace(own, C1=product[0], C3=product[1]),
    }
    return ConstantsAt(
        k=k,
        shift=float(pair.shift[k - 1].max()),
        secant=(float(own.C1.max()), float(own.C3.max())),
        sampled=(float(sampled[:, 0].max()), float(sampled[:, 1].max())),
        product=(float(product[0].max()), float(product[1].max())),
        residual=float(average_slope(network, z[few], (z_ood - z)[few]).residual.max()),
        bounds={way: tuple(corollary5(step, C).free.value[0].tolist()) for way, C in choices.items()},
    )


@dataclass(frozen=True)
class Growth:
    """The terms of the one-step bound against s: median over the first steps and the instances."""

    model: str
    s: Sequence[float]
    terms: Mapping[str, Sequence[float]]  # over the gap F'(x'_{k-1}) - F'*; FEATURES and POINTS as they are


def growth(
    name: str, optimizer: Optimizer[Any], where: Setting, shifts: Sequence[float], steps: int = 10, seed: int = 0
) -> Growth:
    """Median over the first `steps` steps of each term of Theorem 6, over the gap F'(x'_{k-1}) - F'*."""
    terms: dict[str, list[float]] = {}
    for s in shifts:
        pair, _ = runs(optimizer, where, Scenario(s=s), steps, seed)
        gap = (pair.ood.F[:-1] - pair.target_value).clamp(min=torch.finfo(torch.float64).tiny)
        parts = dict(theorem4(pair).terms) | {FEATURES: pair.shift * gap, POINTS: norm(pair.s[:-1]) * gap}
        for label, value in parts.items():
            terms.setdefault(label, []).append(float((value / gap).median()))
    return Growth(name, list(shifts), terms)
