"""What is minimised: smooth parts, penalties, problems, families of problems, and their reference solutions."""

from sureprox.problems.families import Family, LassoFamily, LogisticFamily
from sureprox.problems.penalties import L1, Penalty, Zero
from sureprox.problems.problem import Problem, lasso, logistic
from sureprox.problems.smooth import LeastSquares, Logistic, Smooth

__all__ = [
    "L1",
    "Family",
    "LassoFamily",
    "LeastSquares",
    "Logistic",
    "LogisticFamily",
    "Penalty",
    "Problem",
    "Smooth",
    "Zero",
    "lasso",
    "logistic",
]
