"""What is minimised: smooth parts, penalties, problems.

Families of random problems and real data (`sureprox.sources`) are found here too, when they are first asked for.
"""

from typing import Any

from sureprox.problems import losses, operators, penalties
from sureprox.problems.constructors import elastic_net, group_lasso, lasso, logistic, nonnegative
from sureprox.problems.losses import Huber, LeastSquares, Logistic, Poisson, Quantile, Softmax, SquaredHinge
from sureprox.problems.penalties import (
    L1,
    Box,
    ElasticNet,
    GroupBall,
    GroupL2,
    NonNegative,
    Penalty,
    Separable,
    SparseGroup,
    WeightedL1,
    Zero,
)
from sureprox.problems.problem import Problem
from sureprox.problems.smooth import Smooth
from sureprox.problems.weighted import WeightedLeastSquares

__all__ = [
    "L1",
    "Box",
    "ElasticNet",
    "GroupBall",
    "GroupL2",
    "Huber",
    "LeastSquares",
    "Logistic",
    "NonNegative",
    "Penalty",
    "Poisson",
    "Problem",
    "Quantile",
    "Separable",
    "Smooth",
    "Softmax",
    "SparseGroup",
    "SquaredHinge",
    "WeightedL1",
    "WeightedLeastSquares",
    "Zero",
    "elastic_net",
    "group_lasso",
    "lasso",
    "logistic",
    "losses",
    "nonnegative",
    "operators",
    "penalties",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    sources = import_module("sureprox.sources")
    if name in sources.__all__:
        return getattr(sources, name)
    raise AttributeError(f"module 'sureprox.problems' has no attribute {name!r}")
