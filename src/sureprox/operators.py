"""The operators of this package, `sureprox.problems.operators` by its short name."""

from sureprox.problems.operators import *  # noqa: F403
from sureprox.problems.operators import __all__ as __all__
