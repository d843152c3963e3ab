"""What is minimised: smooth parts, penalties, problems, families of random problems, and problems from real data."""

from sureprox.problems.families import Family, LassoFamily, LogisticFamily
from sureprox.problems.mixtures import LassoMixture, LogisticMixture
from sureprox.problems.penalties import L1, Penalty, WeightedL1, Zero
from sureprox.problems.problem import Problem, lasso, logistic
from sureprox.problems.real import RealData, ionosphere, patches, spambase
from sureprox.problems.smooth import LeastSquares, Logistic, Smooth
from sureprox.problems.weighted import WeightedLeastSquares

__all__ = [
    "L1",
    "Family",
    "LassoFamily",
    "LassoMixture",
    "LeastSquares",
    "Logistic",
    "LogisticFamily",
    "LogisticMixture",
    "Penalty",
    "Problem",
    "RealData",
    "Smooth",
    "WeightedL1",
    "WeightedLeastSquares",
    "Zero",
    "ionosphere",
    "lasso",
    "logistic",
    "patches",
    "spambase",
]
