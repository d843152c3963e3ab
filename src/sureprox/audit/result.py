"""What a statement of the theory says about one pair of runs: left side, right sides, slack, hypotheses."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

TOLERANCE = 1e-9  # of the scale: what float64 rounding may cost an inequality that holds
SIDES = ("printed", "corrected", "free")


@dataclass(frozen=True)
class Bound:
    """A right side: its value, the sum of the magnitudes of its terms, and where its hypotheses make it apply."""

    value: Tensor
    scale: Tensor
    applies: Tensor | None = None  # None: everywhere
    lhs: Tensor | None = None  # where the corrected statement has another left side


def bound(*terms: Tensor, applies: Tensor | None = None, lhs: Tensor | None = None) -> Bound:
    """The sum of the terms; rounding is measured against the sum of their magnitudes."""
    value, scale = terms[0], terms[0].abs()
    for term in terms[1:]:
        value, scale = value + term, scale + term.abs()
    return Bound(value, scale, applies, lhs)


@dataclass(frozen=True)
class Check:
    """lhs <= rhs, per iteration and instance (K, B), or per run (B,).

    printed: the right side of the paper. corrected: the one that follows from the paper's hypotheses (the printed one
    where that is right). free: one that needs no assumption on the network, so that it speaks about trained ones.
    hypotheses: residuals, a hypothesis holds where its residual is <= 0 (up to rounding).
    """

    statement: str
    lhs: Tensor
    lhs_scale: Tensor
    printed: Bound
    corrected: Bound
    free: Bound
    hypotheses: Mapping[str, Tensor] = field(default_factory=dict)
    terms: Mapping[str, Tensor] = field(default_factory=dict)  # the parts of `free`, for figures

    def slack(self, side: str) -> Tensor:
        """(rhs - lhs) / scale; NaN where the side does not apply."""
        right: Bound = getattr(self, side)
        scale = (self.lhs_scale + right.scale).clamp(min=torch.finfo(torch.float64).tiny)
        slack = (right.value - (self.lhs if right.lhs is None else right.lhs)) / scale
        return slack if right.applies is None else slack.masked_fill(~right.applies, torch.nan)

    def worst(self, side: str) -> float:
        """The smallest slack; NaN where the side applies nowhere."""
        slack = self.slack(side)
        slack = slack[~slack.isnan()]
        return float(slack.min()) if slack.numel() else float("nan")

    def count(self, side: str) -> int:
        """How many inequalities this side stands for here."""
        return int((~self.slack(side).isnan()).sum())

    def worst_hypotheses(self) -> dict[str, float]:
        return {name: float(residual.max()) for name, residual in self.hypotheses.items()}


def violated(slack: float) -> bool:
    """Whether a slack is more negative than rounding explains."""
    return slack < -TOLERANCE


def dot(a: Tensor, b: Tensor) -> Tensor:
    """<a, b> over the last dimension."""
    return (a * b).sum(-1)


def sq(a: Tensor) -> Tensor:
    """|a|^2 over the last dimension."""
    return a.square().sum(-1)


def norm(a: Tensor) -> Tensor:
    """|a| over the last dimension."""
    return a.square().sum(-1).sqrt()
