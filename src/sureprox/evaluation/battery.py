"""The battery: how many iterations each optimizer needs on each kind of problem, instance by instance."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import DataError, InputError
from sureprox.base.machine import circumstances
from sureprox.base.types import Scalars, Vectors
from sureprox.evaluation.battery_forms import FORM_KINDS, FORMS
from sureprox.evaluation.battery_kinds import KINDS, Kind
from sureprox.evaluation.battery_records import LEVELS, KindRecord
from sureprox.evaluation.contestants import Contestant, UnavailableError, classical, learned
from sureprox.evaluation.datasets import Dataset, Instances, solved
from sureprox.evaluation.experiment import Stopwatch
from sureprox.evaluation.metrics import gap_scale, relative_gap
from sureprox.guarantee import Certified
from sureprox.optimizers import LearnedOptimizer, Optimizer
from sureprox.problems import Problem, Smooth
from sureprox.solve.plan import plan
from sureprox.solve.solve import default_optimizer

SEEDS = 5_000_000  # added to the seed, so that no problem of a training run or of a figure comes back
BASELINE = "fista-restart"
DEFAULT = "default"  # the column of what `solve` runs when no optimizer is named, certified
CLASSICAL = {"fista": {"restart": False}, BASELINE: {"restart": True}}
LEARNED = {  # name of a column: the model, by the family of the kind
    "go-math-l2o": "go-math-l2o/{}",
    "l2o-pa": "l2o-pa/{}",
    "sure": "sure/{}",
    "sure-light": "sure/{}-light",
}
CERTIFIED = ("sure", "sure-light")  # as `solve` runs them by default; sure/lasso and the like are the networks alone
PATIENCE = 3.0  # nobody is given more iterations than this many times what the slowest instance of the baseline needs


@dataclass(frozen=True)
class Plan:
    """How much is run."""

    batch: int = 64
    most: int = 20_000  # iterations of the baseline
    seed: int = 0
    repeats: int = 3  # of the timing, of which the quickest counts
    dtype: str = "float32"


QUICK = Plan(batch=4, most=4_000, repeats=1)


def draw(kind: Kind, count: int, seed: int) -> Instances:
    """`count` instances (or as many as there are), rounded to float32 so that they are exact in both precisions."""
    generator = torch.Generator().manual_seed(SEEDS + seed)
    found = kind.sample(min(count, kind.largest), generator)
    problem, start = found.problem.to(dtype=torch.float32), found.start.float()
    return Instances(kind.name, found.origin, problem.to(dtype=torch.float64), start.double())


def contestant(name: str, family: str, device: torch.device, weights: Path | None = None) -> Contestant:
    """By the name of a column of the table: a classical one, one of `LEARNED`, or KIND/NAME for any other model."""
    if name in CLASSICAL:
        return classical(name, CLASSICAL[name])
    if name not in LEARNED and "/" not in name:
        known = ", ".join((*LEARNED, DEFAULT))
        raise InputError(f"no optimizer {name!r}; choose from {known}, or name a model as KIND/NAME")
    if name in LEARNED and family == FORMS:
        raise UnavailableError(
            f"{name} was trained on LASSO and logistic problems; other forms are left to the default"
        )
    found = learned(LEARNED.get(name, name).format(family), device, weights)
    return replace(found, optimizer=Certified(found.optimizer)) if name in CERTIFIED else found


def default_contestant(problem: Problem) -> Contestant:
    """What `solve` runs on these problems by default; its weights are None where that is no learned optimizer."""
    optimizer = default_optimizer(problem)
    weights = None
    if isinstance(optimizer, LearnedOptimizer):
        values = optimizer.state_dict().values()
        weights = sha256(b"".join(value.cpu().numpy().tobytes() for value in values)).hexdigest()
    return Contestant(DEFAULT, Certified(optimizer), {}, weights)


class Battery:
    """Runs kinds one after the other; F* is kept in the directory `cache`."""

    def __init__(
        self,
        plan: Plan,
        cache: Path,
        device: torch.device,
        weights: Path | None = None,
        names: Sequence[str] = tuple(LEARNED),
    ) -> None:
        if plan.batch < 1 or plan.most < 1:
            raise InputError(f"batch is {plan.batch} and most {plan.most}; both must be at least 1")
        self.plan = plan
        self.cache = cache
        self.device = device
        self.weights = weights
        self.names = [BASELINE, *(name for name in (*CLASSICAL, *names) if name != BASELINE)]

    def run(self, kind: Kind, told: Callable[[KindRecord | str], None] = lambda record: None) -> list[KindRecord]:
        """One record for each optimizer, the baseline first; who is not there, or does not fit, is left out, and told.

        So is a kind whose data are not here and cannot be downloaded.

        On the forms the default of `solve` always takes part.
        """
        try:
            data = solved(draw(kind, self.plan.batch, self.plan.seed), self.cache, self.device)
        except DataError as error:
            told(f"{kind.name}: {error}")
            return []
        records: list[KindRecord] = []
        most = self.plan.most
        names = [*self.names, DEFAULT] if kind.family == FORMS and DEFAULT not in self.names else self.names
        for name in names:
            try:
                found = self._contestant(name, kind.family, data.problem)
            except UnavailableError as error:
                told(str(error))
                continue
            try:
                records.append(self._record(kind, name, found, data, most))
            except InputError as error:
                if name in (BASELINE, DEFAULT):
                    raise
                told(f"{name} on {kind.name}: {error}")
                continue
            if name == BASELINE:
                slowest = max(records[0].iterations[LEVELS[-1]], key=lambda k: most if k is None else k) or most
                most = min(most, int(PATIENCE * slowest) + 50)
            told(records[-1])
        return records

    def _contestant(self, name: str, family: str, problem: Problem) -> Contestant:
        if name == DEFAULT:
            return default_contestant(problem.to(dtype=getattr(torch, self.plan.dtype)))
        return contestant(name, family, self.device, self.weights)

    def _record(self, kind: Kind, name: str, found: Contestant, data: Dataset, most: int) -> KindRecord:
        dtype: torch.dtype = getattr(torch, self.plan.dtype)
        problem = data.problem.to(dtype=dtype)
        optimizer = plan(problem, found.optimizer, wait=True).once()
        start, step = count_products(found.optimizer, problem, data.start.to(dtype))
        hits = first_hits(optimizer, problem, data, dtype, most)
        iterations = {level: [None if k < 0 else k for k in row.tolist()] for level, row in hits.items()}
        typical = KindRecord.quantile_of(iterations[1e-6], 0.5)
        return KindRecord(
            kind=kind.name,
            family=kind.family,
            trained=kind.trained,
            optimizer=name,
            weights=found.weights,
            origin=data.instances.origin,
            seed=SEEDS + self.plan.seed,
            instances=data.problem.batch,
            size=(getattr(data.problem.f, "m", 0), data.problem.n),
            precision=data.precision,
            dtype=self.plan.dtype,
            most=most,
            products_at_start=start,
            products=step,
            seconds=None if typical is None else self._seconds(optimizer, problem, data, dtype, typical),
            iterations=iterations,
            **circumstances(self.device),
        )

    def _seconds(
        self,
        optimizer: Optimizer[Any],
        problem: Problem,
        data: Dataset,
        dtype: torch.dtype,
        steps: int,
    ) -> float:
        """Of so many steps of the whole batch, and nothing else."""
        state = optimizer.init(problem, data.start.to(dtype))
        times = []
        with torch.no_grad():
            optimizer.step(problem, state)  # not timed: the first step may compile and allocate
            for _ in range(self.plan.repeats):
                watch = Stopwatch(self.device)
                watch.start()
                for _ in range(steps):
                    state = optimizer.step(problem, state)
                watch.stop()
                times.append(watch.seconds)
        return min(times)


@torch.no_grad()
def first_hits(
    optimizer: Optimizer[Any],
    problem: Problem,
    data: Dataset,
    dtype: torch.dtype,
    most: int,
) -> dict[float, Tensor]:
    """For each level the first iteration (B,) whose relative gap is at most that, -1 for never.

    F is evaluated in float64, after every iteration up to 200 and then every 0.5 % of them.
    """
    scale, _ = gap_scale(data.best)
    state = optimizer.init(problem, data.start.to(dtype))
    hits = {level: torch.full((data.problem.batch,), -1, device=problem.device) for level in LEVELS}

    def look(k: int, x: Vectors) -> bool:
        gap = relative_gap(data.problem.objective(x.double()), data.best, scale)
        for level, hit in hits.items():
            hit[(hit < 0) & (gap <= level)] = k
        return bool(((hits[LEVELS[-1]] >= 0) | ~torch.isfinite(gap)).all())

    if look(0, state.x):
        return hits
    seen = 0
    while state.k < most:
        state = optimizer.step(problem, state)
        if state.k - seen > state.k // 200 or state.k == most:
            seen = state.k
            if look(state.k, state.x):
                break
    return hits


class Counted:
    """A smooth part that counts products with A: two for each gradient."""

    def __init__(self, f: Smooth) -> None:
        self.f, self.n, self.like, self.count = f, f.shape[1], f.like, 0

    def value(self, x: Vectors) -> Scalars:
        return self.f.value(x)

    def grad(self, x: Vectors) -> Vectors:
        self.count += 2
        return self.f.grad(x)

    def lipschitz(self) -> Scalars:
        return self.f.lipschitz()


@torch.no_grad()
def count_products(optimizer: Optimizer[Any], problem: Problem, x0: Vectors) -> tuple[int, int]:
    """Products with A of `init`, those for L left out, and of each step; tracks that share a read count each."""
    if isinstance(optimizer, Certified):
        return 2, 2 * optimizer.stack(problem).count
    if not optimizer.looks_once:  # it has products of its own
        return 0, 2
    counted = Counted(problem.f)
    optimizer.init(Problem(counted, problem.r, problem.shift), x0, step_size=problem.step_size())
    return counted.count, 2


def chosen(names: Sequence[str]) -> list[Kind]:
    """The kinds of these names; "all-lasso", "all-logistic" and "forms" are groups; no name means the first two.

    The forms are asked for by name: no learned optimizer was trained on them.
    """
    known = KINDS | FORM_KINDS
    groups = {f"all-{family}": [k for k in KINDS.values() if k.family == family] for family in ("lasso", "logistic")}
    groups |= {FORMS: list(FORM_KINDS.values())}
    found: list[Kind] = []
    for name in names:
        if name not in known and name not in groups:
            raise InputError(f"no kind {name!r}; choose from {', '.join((*known, *groups))}")
        found += groups.get(name) or [known[name]]
    return list(dict.fromkeys(found)) or list(KINDS.values())
