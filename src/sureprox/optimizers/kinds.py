"""The learned optimizers by name, and how one is built from what a file says."""

from collections.abc import Mapping
from typing import Any

import torch

from sureprox.errors import WeightsError
from sureprox.optimizers.ada_lista import AdaLISTA
from sureprox.optimizers.black_box import L2ODM, RNNProp
from sureprox.optimizers.go_math_l2o import GoMathL2O
from sureprox.optimizers.l2o_pa import L2OPA
from sureprox.optimizers.learned import LearnedOptimizer
from sureprox.optimizers.sure import Sure

KINDS: dict[str, type[LearnedOptimizer[Any]]] = {c.kind: c for c in (GoMathL2O, L2OPA, L2ODM, RNNProp, AdaLISTA, Sure)}
LARGEST = 10_000  # of any size
MOST_WEIGHTS = 50_000_000


def build(kind: str, arguments: Mapping[str, Any]) -> LearnedOptimizer[Any]:
    """An untrained optimizer from its kind and constructor arguments, refused if it would take a lot of memory."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise WeightsError(f"optimizer is {kind!r}; known are {', '.join(sorted(KINDS))}")
    if not isinstance(arguments, Mapping):
        raise WeightsError(f"arguments are {arguments!r}; they must be names and values")
    sizes = {name: value for name, value in arguments.items() if isinstance(value, int) and value > LARGEST}
    if sizes:
        name, value = sizes.popitem()
        raise WeightsError(f"{kind} cannot be built with {name} = {value}; the largest is {LARGEST}")
    try:
        with torch.device("meta"):  # shapes without memory
            count = sum(weight.numel() for weight in KINDS[kind](**arguments).parameters())
        if count > MOST_WEIGHTS:
            raise WeightsError(f"{kind} from {arguments} has {count:,} weights; the most is {MOST_WEIGHTS:,}")
        return KINDS[kind](**arguments)
    except (TypeError, ValueError) as error:
        if isinstance(error, WeightsError):
            raise
        raise WeightsError(f"{kind} cannot be built from {arguments}: {error}") from None
