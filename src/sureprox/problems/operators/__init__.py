"""Linear maps A for f(x) = phi(A x): dense, sparse, or known only by their products with vectors."""

from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.combined import Compose, Stack
from sureprox.problems.operators.convolution import Convolution
from sureprox.problems.operators.dense import Dense
from sureprox.problems.operators.difference import Difference
from sureprox.problems.operators.fourier import MaskedFourier
from sureprox.problems.operators.function import Function
from sureprox.problems.operators.haar import Haar
from sureprox.problems.operators.sparse import Sparse
from sureprox.problems.operators.standardized import Standardized, standardization

__all__ = [
    "Compose",
    "Convolution",
    "Dense",
    "Difference",
    "Function",
    "Haar",
    "MaskedFourier",
    "Operator",
    "Sparse",
    "Stack",
    "Standardized",
    "standardization",
]
