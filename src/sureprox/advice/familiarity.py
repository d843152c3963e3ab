"""Whether problems look like those that a model was trained on."""

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch

from sureprox.advice.features import SCALE, features, has_features
from sureprox.base.errors import SureproxError
from sureprox.optimizers import read_card
from sureprox.problems import Problem
from sureprox.training.config import card_family

SEED = 20_240_000  # of the problems drawn from the training family
DRAWN = 64
ENTRIES = 10_000_000  # of the matrices drawn, at most, though never fewer than 16 problems
MARGIN = 0.02  # decades, about 5 %: a statistic that is the same for all training problems still gets a range


@dataclass(frozen=True)
class Statistic:
    """One number about the problems, and its range in training."""

    name: str
    value: float  # median of the problems
    low: float  # 1 % and 99 % quantile of the training problems
    high: float
    inside: float  # share of the problems that are in the range


@dataclass(frozen=True)
class Familiarity:
    """How much the problems look like those that `model` was trained on.

    score: the mean over the statistics of the share of problems in the range of the training problems; 1: all of them
    in all statistics. None, with the reason in `note`, where the card names no family that can be sampled.
    """

    model: str
    score: float | None
    statistics: tuple[Statistic, ...] = ()
    note: str = ""

    @property
    def words(self) -> str:
        if self.score is None:
            return f"not known: {self.note}"
        outside = [entry.name for entry in self.statistics if entry.inside < 0.5]
        tail = f" ({', '.join(outside)} outside the range of training)" if outside else ""
        degree = "like" if self.score >= 0.9 else "partly like" if self.score >= 0.5 else "unlike"
        return f"{self.score:.2f}, {degree} those it was trained on{tail}"


def familiarity(model: str, problem: Problem) -> Familiarity:
    """Compare `features` of the problems with those of 64 problems of the family that the card of `model` names."""
    if not has_features(problem):
        return Familiarity(model, None, note="there are no statistics of problems of one's own")
    card = read_card(model)
    try:
        ranges = _ranges(json.dumps(card.family, sort_keys=True))
    except SureproxError as error:
        return Familiarity(model, None, note=str(error))
    blind = SCALE if card.optimizer == "sure" else ()
    found = []
    for name, values in features(problem).items():
        if name not in blind:
            low, high = ranges[name]
            inside = float(((values >= low - MARGIN) & (values <= high + MARGIN)).double().mean())
            found.append(Statistic(name, 10 ** float(values.median()), 10**low, 10**high, inside))
    return Familiarity(model, sum(entry.inside for entry in found) / len(found), tuple(found))


@lru_cache(maxsize=16)
def _ranges(family: str) -> dict[str, tuple[float, float]]:
    """The 1 % and 99 % quantiles of each feature, in decades, of the family that this JSON describes."""
    table: dict[str, Any] = json.loads(family)
    drawn = card_family(table)
    size = getattr(drawn, "m", 1) * drawn.n
    count = max(16, min(DRAWN, ENTRIES // size))
    problem = drawn.sample(count, torch.Generator().manual_seed(SEED), torch.float32)
    shares = torch.tensor([0.01, 0.99], dtype=torch.float64)
    made = {name: torch.quantile(values, shares).tolist() for name, values in features(problem).items()}
    return {name: (low, high) for name, (low, high) in made.items()}
