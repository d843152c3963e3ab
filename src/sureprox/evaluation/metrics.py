"""The relative gap of each instance, and what is kept of a batch of them."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.types import Scalars

ZERO = 1e-12  # an optimal value this small against the mean of all is zero
QUANTILES = {"q10": 0.1, "median": 0.5, "q90": 0.9}


def gap_scale(best: Scalars) -> tuple[Scalars, Tensor]:
    """What F(x) - F* is divided by, and which instances have F* = 0, each (B,).

    F* itself; where it is zero (an image patch of one colour), the mean F* of the other instances, so that no instance
    is left out; 1 if there are no others.
    """
    zero = best <= ZERO * best.mean()
    mean = best[~zero].mean() if not bool(zero.all()) else torch.ones_like(best).mean()
    return torch.where(zero, mean, best), zero


def relative_gap(objective: Scalars, best: Scalars, scale: Scalars) -> Scalars:
    """(F(x) - F*) / scale; infinite where F(x) is not finite. F* is known to about 1e-12, so that it may be -1e-12."""
    gap = (objective - best) / scale
    return torch.where(torch.isfinite(objective), gap, torch.inf)


@dataclass(frozen=True)
class Summary:
    """What is kept of the gaps of all instances after one iteration."""

    mean: float
    median: float
    q10: float
    q90: float
    nonfinite: int


def summarise(gaps: Scalars) -> Summary:
    """An instance that has diverged counts as infinite in all of them.

    A quantile is the smallest gap that at least that share of the instances does not exceed: nothing is interpolated,
    since between a number and infinity there is nothing to interpolate.
    """
    ordered = gaps.double().sort().values
    rank = {name: max(math.ceil(share * len(ordered)) - 1, 0) for name, share in QUANTILES.items()}
    return Summary(
        mean=float(ordered.mean()),
        nonfinite=int((~torch.isfinite(ordered)).sum()),
        **{name: float(ordered[i]) for name, i in rank.items()},
    )
