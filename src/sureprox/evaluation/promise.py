"""What can be promised of an optimizer on a kind of problem, from problems that were held out.

A pilot draw chooses K. Of N further problems, drawn independently of it and of the training, k reach the level within K
gradients. With confidence c the share p of all problems of the kind that do is then at least the p at which k or more
successes have the probability 1 - c (Clopper and Pearson):

    sum_{i >= k} C(N, i) p^i (1 - p)^(N - i) = 1 - c,        p = (1 - c)^(1/N) for k = N.

It is a statement about this kind, with its sizes and its distribution of starts, and about one K. Several statements
hold at once with the confidence 1 - (their number) (1 - c).
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.evaluation.battery import SEEDS, count_products
from sureprox.evaluation.battery_kinds import Kind
from sureprox.evaluation.contestants import learned
from sureprox.optimizers import Optimizer
from sureprox.optimizers.base import State
from sureprox.solve.plan import plan
from sureprox.solve.solve import solve

LEVEL = 1e-6  # of (F - F*) / F*
CONFIDENCE = 1 - 1e-5
SLACK = 1.25  # K is so many times what the slowest problem of the pilot needed
MOST = 1000  # iterations of a pilot
CHUNK = 50  # problems at a time
PILOT, HELD_OUT, FRESH = 10_000_000, 20_000_000, 30_000_000  # added to the seed: draws that share no problem
SHARPER = 1e-3  # of LEVEL: how well F* is known


@dataclass(frozen=True)
class Promise:
    """With `confidence` at least the part `share` of the problems of `kind` reach `level` within `gradients`."""

    kind: str
    level: float
    confidence: float
    gradients: int
    share: float
    instances: int  # held out
    reached: int  # of these
    seed: int

    def __str__(self) -> str:
        return (
            f"with confidence 1 - {1 - self.confidence:.0e} at least {100 * self.share:.2f} % of problems of the kind "
            f"{self.kind} reach {self.level:.0e} within {self.gradients} gradients ({self.reached:,} of "
            f"{self.instances:,} held-out problems did)"
        )


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


def promised(model: str, kind: Kind, pilot: int, instances: int, seed: int = 0) -> Promise:
    """From a pilot that chooses K, and the problems held out."""
    optimizer = learned(model, torch.device("cpu")).optimizer
    tried = list(gradients(optimizer, kind, pilot, seed + PILOT, MOST))
    most = MOST if None in tried else math.ceil(SLACK * max(k for k in tried if k is not None))
    reached = within(optimizer, kind, instances, seed + HELD_OUT, most)
    share = lower_bound(reached, instances, CONFIDENCE)
    return Promise(kind.name, LEVEL, CONFIDENCE, most, share, instances, reached, seed)


def kept(model: str, kind: Kind, promise: Promise, instances: int) -> int:
    """How many of so many problems, drawn afresh, reach the level within K gradients."""
    optimizer = learned(model, torch.device("cpu")).optimizer
    return within(optimizer, kind, instances, promise.seed + FRESH, promise.gradients)


def within(optimizer: Optimizer[State], kind: Kind, instances: int, seed: int, most: int) -> int:
    return sum(k is not None for k in gradients(optimizer, kind, instances, seed, most))


@torch.no_grad()
def gradients(optimizer: Optimizer[State], kind: Kind, instances: int, seed: int, most: int) -> Iterator[int | None]:
    """For each of the problems the gradients until (F - F*) / F* <= LEVEL, or None if more than `most` are needed.

    In float32, F in float64. F* is replaced by the smaller F - gap of a solve, so that no success is doubtful.
    """
    generator = torch.Generator().manual_seed(SEEDS + seed)
    for start in range(0, instances, CHUNK):
        drawn = kind.sample(min(CHUNK, instances - start), generator)
        problem, x0 = drawn.problem.to(dtype=torch.float32), drawn.start.float()
        exact = problem.to(dtype=torch.float64)
        best = solve(exact, tol=SHARPER * LEVEL)
        lowest = best.objective - best.gap
        first, each = (products / 2 for products in count_products(optimizer, problem, x0))
        hits = torch.full((problem.batch,), -1)
        stepping = plan(problem, optimizer, wait=True).once()
        state = stepping.init(problem, x0)
        while True:
            spent = math.ceil(first + each * state.k)
            reached = exact.objective(state.x.double()) - lowest <= LEVEL * lowest
            hits = torch.where((hits < 0) & reached & (spent <= most), spent, hits)
            if bool((hits >= 0).all()) or spent >= most:
                break
            state = stepping.step(problem, state)
        yield from _counts(hits)


def _counts(hits: Tensor) -> list[int | None]:
    return [None if k < 0 else k for k in hits.tolist()]
