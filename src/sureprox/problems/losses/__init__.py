"""The losses of this package: f(x) = sum_i w_i phi(z_i; y_i), z = A x + offset, each convex and >= 0.

`LeastSquares`, `Huber`, `Quantile`, `SquaredHinge`, `Logistic` and `Poisson` have one z for each row of A, `Softmax`
one for each row and class.
"""

from sureprox.problems.losses.clipped import Clipped, Huber, Quantile, SquaredHinge
from sureprox.problems.losses.logistic import Logistic
from sureprox.problems.losses.pointwise import Pointwise
from sureprox.problems.losses.poisson import Link, Poisson
from sureprox.problems.losses.softmax import Softmax
from sureprox.problems.losses.squares import LeastSquares, Quadratic

__all__ = [
    "Clipped",
    "Huber",
    "LeastSquares",
    "Link",
    "Logistic",
    "Pointwise",
    "Poisson",
    "Quadratic",
    "Quantile",
    "Softmax",
    "SquaredHinge",
]
