"""The penalties of this package, and what one of your own has to be."""

from sureprox.problems.blocks import GroupBall, GroupL2, SparseGroup
from sureprox.problems.penalty import HasPenaltyDual, Penalty
from sureprox.problems.separable import L1, Box, ElasticNet, NonNegative, Separable, WeightedL1, Zero

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "GroupBall",
    "GroupL2",
    "HasPenaltyDual",
    "NonNegative",
    "Penalty",
    "Separable",
    "SparseGroup",
    "WeightedL1",
    "Zero",
]
