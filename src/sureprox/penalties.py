"""The penalties of this package, `sureprox.problems.penalties` by its short name."""

from sureprox.problems.penalties import *  # noqa: F403
from sureprox.problems.penalties import __all__ as __all__
