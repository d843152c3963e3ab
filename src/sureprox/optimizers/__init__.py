"""How it is minimised: every optimizer as a pure pair `init`, `step`.

The guarantees around them (`sureprox.guarantee`) are found here too, when they are first asked for.
"""

from typing import Any

from sureprox.optimizers.ada_lista import AdaLISTA
from sureprox.optimizers.base import Optimizer, State
from sureprox.optimizers.black_box import L2ODM, RNNProp
from sureprox.optimizers.classical import FISTA, ISTA, Adam, AdamHD
from sureprox.optimizers.go_math_l2o import Activation, GoMathL2O, GradientMap, QShrink
from sureprox.optimizers.kinds import known_kinds, register
from sureprox.optimizers.l2o_pa import L2OPA
from sureprox.optimizers.learned import LearnedOptimizer
from sureprox.optimizers.local_fista import LocalFISTA
from sureprox.optimizers.lstm import InitialState
from sureprox.optimizers.optista import OptISTA
from sureprox.optimizers.panoc import PANOC
from sureprox.optimizers.prox_newton import ProxNewton
from sureprox.optimizers.schedules import Silver, StepSchedule
from sureprox.optimizers.sparsa import SpaRSA
from sureprox.optimizers.sure import Sure
from sureprox.optimizers.weights import Card, from_released, load, pretrained, read_card, save

__all__ = [
    "FISTA",
    "ISTA",
    "L2ODM",
    "L2OPA",
    "PANOC",
    "Activation",
    "AdaLISTA",
    "Adam",
    "AdamHD",
    "Card",
    "GoMathL2O",
    "GradientMap",
    "InitialState",
    "LearnedOptimizer",
    "LocalFISTA",
    "OptISTA",
    "Optimizer",
    "ProxNewton",
    "QShrink",
    "RNNProp",
    "Silver",
    "SpaRSA",
    "State",
    "StepSchedule",
    "Sure",
    "from_released",
    "known_kinds",
    "load",
    "pretrained",
    "read_card",
    "register",
    "save",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    guarantee = import_module("sureprox.guarantee")
    if name in guarantee.__all__:
        return getattr(guarantee, name)
    raise AttributeError(f"module 'sureprox.optimizers' has no attribute {name!r}")
