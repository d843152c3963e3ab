"""The losses of this package, `sureprox.problems.losses` by its short name."""

from sureprox.problems.losses import *  # noqa: F403
from sureprox.problems.losses import __all__ as __all__
