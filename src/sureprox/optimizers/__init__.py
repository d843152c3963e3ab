"""How it is minimised: every optimizer as a pure pair `init`, `step`."""

from sureprox.optimizers.base import Optimizer, State
from sureprox.optimizers.classical import FISTA, ISTA, Adam, AdamHD

__all__ = ["FISTA", "ISTA", "Adam", "AdamHD", "Optimizer", "State"]
