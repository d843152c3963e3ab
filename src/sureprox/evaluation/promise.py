"""What can be promised of an optimizer on a kind of problem, from problems that were held out.

A pilot draw chooses K. Of N further problems, drawn independently of it and of the training, k reach the level within K
gradients. With confidence c the share p of all problems of the kind that do is then at least the p at which k or more
successes have the probability 1 - c (Clopper and Pearson):

    sum_{i >= k} C(N, i) p^i (1 - p)^(N - i) = 1 - c,        p = (1 - c)^(1/N) for k = N.

It is a statement about this kind, with its sizes and its distribution of starts, and about one K, which the held-out
problems had no part in. Several statements hold at once with the confidence 1 - (their number) (1 - c).
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import WeightsError
from sureprox.base.files import write_atomically
from sureprox.evaluation.battery import SEEDS, count_products
from sureprox.evaluation.battery_forms import FORM_KINDS
from sureprox.evaluation.battery_kinds import KINDS, Draw, Kind
from sureprox.evaluation.contestants import learned
from sureprox.optimizers import Optimizer, read_card
from sureprox.optimizers.weights import locate
from sureprox.problems import Problem
from sureprox.solve.plan import plan
from sureprox.solve.solve import solve

LEVEL = 1e-6  # of (F - F*) / F*
CONFIDENCE = 1 - 1e-5
SLACK = 1.25  # K is so many times what the slowest problem of the pilot needed, of those that reached the level
MOST = 1000  # gradients of a pilot
ENOUGH = 0.5  # of a pilot must reach the level; otherwise nothing is promised
CHUNK = 50  # problems at a time, with a seed of their own
DRAWS = {"pilot": 10_000_000, "held out": 20_000_000, "fresh": 30_000_000}  # added to the seed: no problem is shared
SEEDS_APART = 10_000  # chunks of one draw, at most
SHARPER = 1e-3  # of LEVEL: how well F* is known
OFTEN = 32  # F is looked at after each of so many gradients, and then whenever they have grown by 1 / OFTEN

Counts = Counter[int]  # of problems, by the gradients after which they were seen to have reached the level; NEVER
NEVER = -1
NONE: Counts = Counter()


@dataclass(frozen=True)
class Promise:
    """With `confidence` at least the part `share` of the problems of `kind` reach `level` within `gradients`."""

    kind: str
    level: float
    confidence: float
    gradients: int
    share: float  # 0 where nothing is promised
    pilot: int  # problems that chose `gradients`
    pilot_reached: int  # of these
    instances: int  # held out
    reached: int  # of these
    fresh: int = 0  # problems drawn after that
    fresh_reached: int = 0  # of these

    @property
    def kept(self) -> bool:
        """Whether the share of the fresh problems is no smaller than promised."""
        return self.fresh_reached >= self.share * self.fresh

    def __str__(self) -> str:
        if not self.instances:
            return (
                f"nothing is promised on {self.kind}: {self.pilot_reached:,} of {self.pilot:,} problems of a pilot "
                f"reached {self.level:.0e} within {self.gradients:,} gradients"
            )
        text = (
            f"with confidence 1 - {1 - self.confidence:.0e} at least {percent(self.share)} of problems of the kind "
            f"{self.kind} reach {self.level:.0e} within {self.gradients} gradients ({self.reached:,} of "
            f"{self.instances:,} held-out problems did)"
        )
        if not self.fresh:
            return text
        found = f"{self.fresh_reached:,} of {self.fresh:,} fresh problems did too"
        return f"{text}; {found}" if self.kept else f"{text}; BROKEN: only {found}"


def percent(share: float) -> str:
    """Rounded down, so that no more is said than was proved."""
    return f"{math.floor(1e4 * share) / 100:.2f} %"


def lower_bound(reached: int, instances: int, confidence: float) -> float:
    """The p of Clopper and Pearson, from below, by bisection."""
    if reached == 0:
        return 0.0
    low, high = 0.0, reached / instances
    for _ in range(100):
        middle = (low + high) / 2
        if at_least(reached, instances, middle) < 1 - confidence:
            low = middle
        else:
            high = middle
    return low


def at_least(reached: int, instances: int, p: float) -> float:
    """P[X >= reached] for a binomial X: no terms but those that count, by their logarithms."""
    if p in (0.0, 1.0):
        return p if reached else 1.0
    choices = math.lgamma(instances + 1)
    logs = [
        choices
        - math.lgamma(i + 1)
        - math.lgamma(instances - i + 1)
        + i * math.log(p)
        + (instances - i) * math.log1p(-p)
        for i in range(reached, instances + 1)
    ]
    largest = max(logs)
    return math.exp(largest) * math.fsum(math.exp(log - largest) for log in logs)


def promised(model: str, kind: Kind, pilot: int, instances: int, fresh: int = 0, seed: int = 0) -> Promise:
    """From a pilot that chooses K, and the problems held out."""
    tried = counts(model, kind, "pilot", pilot, MOST, seed)
    most = within_reach(tried)
    if most is None:
        return made(kind.name, tried)
    sizes = {"held out": instances, "fresh": fresh}
    return made(kind.name, tried, *(counts(model, kind, draw, size, most, seed) for draw, size in sizes.items()))


def within_reach(pilot: Counts) -> int | None:
    """K; None if too few problems of the pilot reach the level."""
    if successes(pilot, MOST) < ENOUGH * pilot.total():
        return None
    return min(MOST, math.ceil(SLACK * max(pilot)))


def made(kind: str, pilot: Counts, held_out: Counts = NONE, fresh: Counts = NONE) -> Promise:
    """The statement that the counts allow."""
    most = within_reach(pilot) or MOST
    tried, held, after = ((of.total(), successes(of, most)) for of in (pilot, held_out, fresh))
    share = lower_bound(held[1], held[0], CONFIDENCE) if held[0] else 0.0
    return Promise(kind, LEVEL, CONFIDENCE, most, share, *tried, *held, *after)


def successes(found: Counts, most: int) -> int:
    return sum(count for k, count in found.items() if NEVER < k <= most)


def counts(model: str, kind: Kind, draw: str, instances: int, most: int, seed: int = 0) -> Counts:
    """Of so many problems of a draw."""
    optimizers = {model: (optimizer_of(model), most)}
    sizes = [min(CHUNK, instances - start) for start in range(0, instances, CHUNK)]
    return sum((chunk(optimizers, kind, draw, i, size, seed)[model] for i, size in enumerate(sizes)), Counter())


def optimizer_of(model: str) -> Optimizer[Any]:
    return learned(model, torch.device("cpu")).optimizer


@torch.no_grad()
def chunk(
    optimizers: Mapping[str, tuple[Optimizer[Any], int]], kind: Kind, draw: str, index: int, size: int, seed: int = 0
) -> dict[str, Counts]:
    """Each optimizer, with the most gradients it is given, on the same `size` problems: number `index` of a draw.

    In float32, F in float64. F* is replaced by the smaller F - gap of a solve, so that no success is doubtful.
    """
    generator = torch.Generator().manual_seed(SEEDS + DRAWS[draw] + SEEDS_APART * seed + index)
    drawn = kind.sample(size, generator)
    rounded = Draw(drawn.problem.to(dtype=torch.float32), drawn.start.float(), drawn.origin)
    exact = rounded.problem.to(dtype=torch.float64)
    best = solve(exact, tol=SHARPER * LEVEL)
    least = best.objective - best.gap
    goal = torch.where(least > 0, (1 + LEVEL) * least, -torch.inf)  # of F* = 0 there is no part
    found = {name: hits(optimizer, rounded, exact, goal, most) for name, (optimizer, most) in optimizers.items()}
    return {name: Counter(of.tolist()) for name, of in found.items()}


def hits(optimizer: Optimizer[Any], drawn: Draw, exact: Problem, goal: Tensor, most: int) -> Tensor:
    """(B,) the gradients after which F was first seen to be at most `goal`; NEVER if that takes more than `most`."""
    problem, x0, _ = drawn
    one = torch.arange(1)
    first, each = (products / 2 for products in count_products(optimizer, problem.select(one), x0[one]))
    found = torch.full((problem.batch,), NEVER)
    stepping = plan(problem, optimizer, wait=True).once()
    state, look = stepping.init(problem, x0), 0.0
    while True:
        spent = math.ceil(first + each * state.k)
        if spent >= min(look, most):
            reached = (exact.objective(state.x.double()) <= goal) & (spent <= most)
            found = torch.where((found == NEVER) & reached, spent, found)
            look = spent * (1 + 1 / OFTEN)
        if spent >= most or bool((found != NEVER).all()):
            return found
        state = stepping.step(problem, state)


def on_card(model: str, promise: Promise) -> None:
    """Write it on the card of the model, in place of an earlier one about this kind."""
    read_card(model)  # it is one
    path = locate(model)
    path = path.with_name(f"{path.name}.json")
    card = json.loads(path.read_text())
    others = [one for one in card.get("promises", []) if one.get("kind") != promise.kind]
    card["promises"] = sorted([*others, asdict(promise)], key=lambda one: str(one["kind"]))
    write_atomically(path, (json.dumps(card, indent=2, sort_keys=True) + "\n").encode())


def from_card(promises: list[Any]) -> list[Promise]:
    """Those that a card holds."""
    known = {field.name for field in fields(Promise)}
    for one in promises:
        if not isinstance(one, dict) or set(one) != known:
            raise WeightsError(f"a promise on the card is {one!r}; it needs exactly {', '.join(sorted(known))}")
    return [Promise(**one) for one in promises]


def unmeasured(family: Mapping[str, Any], promises: list[Promise]) -> list[str]:
    """Kinds of the battery that a model trained on this family is meant for, and of which its card says nothing."""
    trained = [of for of in ("lasso", "logistic") if str(family.get("name", "")).endswith(of)]
    kinds = [kind.name for kind in KINDS.values() if not trained or kind.family in trained]
    forms = [] if trained else list(FORM_KINDS)
    return sorted({*kinds, *forms} - {one.kind for one in promises})
