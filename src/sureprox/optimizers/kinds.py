"""The learned optimizers by name, and how one is built from what a file says."""

from collections.abc import Mapping
from typing import Any

from sureprox.base.errors import WeightsError
from sureprox.optimizers.ada_lista import AdaLISTA
from sureprox.optimizers.black_box import L2ODM, RNNProp
from sureprox.optimizers.go_math_l2o import GoMathL2O
from sureprox.optimizers.l2o_pa import L2OPA
from sureprox.optimizers.learned import LearnedOptimizer
from sureprox.optimizers.sure import Sure

KINDS: dict[str, type[LearnedOptimizer[Any]]] = {c.kind: c for c in (GoMathL2O, L2OPA, L2ODM, RNNProp, AdaLISTA, Sure)}

# A card or a config may come from anybody. An LSTM layer of width h has 8 h^2 weights, Ada-LISTA for m rows 2 m^2.
MOST_LAYERS = 1000
LARGEST = 10_000
MOST_WEIGHTS = 100_000_000


def build(kind: str, arguments: Mapping[str, Any]) -> LearnedOptimizer[Any]:
    """An untrained optimizer from its kind and constructor arguments, refused if it would take a lot of memory."""
    if not isinstance(kind, str) or kind not in KINDS:
        raise WeightsError(f"optimizer is {kind!r}; known are {', '.join(sorted(KINDS))}")
    if not isinstance(arguments, Mapping):
        raise WeightsError(f"{kind} cannot be built from {arguments!r}; its arguments are names and values")
    sizes = {name: value for name, value in arguments.items() if isinstance(value, int)}
    layers, width = sizes.pop("layers", 1), max(sizes.values(), default=1)
    most = 10 * (1 if kind == AdaLISTA.kind else layers) * width**2
    if layers > MOST_LAYERS or width > LARGEST or most > MOST_WEIGHTS:
        raise WeightsError(
            f"{kind} from {dict(arguments)} is too large to be built: at most {MOST_LAYERS} layers, sizes of {LARGEST} "
            f"and {MOST_WEIGHTS:,} weights"
        )
    try:
        return KINDS[kind](**arguments)
    except (TypeError, ValueError) as error:
        raise WeightsError(f"{kind} cannot be built from {arguments}: {error}") from None
