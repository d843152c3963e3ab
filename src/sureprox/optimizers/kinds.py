"""The learned optimizers by name: those of this package, those registered, and those that installed packages offer.

A card may come from anybody, so it names a kind and nothing else. What it names is looked up in this order: the kinds
of this package, `register`, and the entry points of installed packages. Nothing else is ever imported.
"""

import inspect
import re
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from sureprox.base.errors import InputError, WeightsError
from sureprox.base.words import brief
from sureprox.optimizers.ada_lista import AdaLISTA
from sureprox.optimizers.black_box import L2ODM, RNNProp
from sureprox.optimizers.go_math_l2o import GoMathL2O
from sureprox.optimizers.l2o_pa import L2OPA
from sureprox.optimizers.learned import LearnedOptimizer
from sureprox.optimizers.sure import Sure

BUILT_IN: dict[str, type[LearnedOptimizer[Any]]] = {
    c.kind: c for c in (GoMathL2O, L2OPA, L2ODM, RNNProp, AdaLISTA, Sure)
}
GROUP = "sureprox.optimizers"  # of entry points: KIND = "package.module:Class"
NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
Own = TypeVar("Own", bound=type[LearnedOptimizer[Any]])

# A card or a config may come from anybody. An LSTM layer of width h has 8 h^2 weights, Ada-LISTA for m rows 2 m^2.
MOST_LAYERS = 1000
LARGEST = 10_000
MOST_WEIGHTS = 100_000_000

_registered: dict[str, type[LearnedOptimizer[Any]]] = {}


def register(optimizer: Own) -> Own:
    """Make a learned optimizer of one's own known by its `kind`, in this process; also as a decorator of the class.

    It can then be trained, loaded, solved with, evaluated and drawn by name like those of the package. The same class
    defined once more, as in a notebook, takes the place of the first.
    """
    kind = _checked(optimizer)
    owner = BUILT_IN.get(kind) or _registered.get(kind)
    if owner is not None and _place(owner) != _place(optimizer):
        raise InputError(
            f"kind {kind!r} belongs to {_place(owner)}; give {optimizer.__name__} another one: kind = 'my-{kind}'"
        )
    if kind not in BUILT_IN:
        _registered[kind] = optimizer
    return optimizer


def known_kinds() -> list[str]:
    """Every kind that can be named here, sorted; nothing is imported for this."""
    return sorted({*BUILT_IN, *_registered, *(point.name for point in entry_points(group=GROUP))})


def class_of(kind: Any) -> type[LearnedOptimizer[Any]]:
    """The class of a kind."""
    found = (BUILT_IN.get(kind) or _registered.get(kind)) if isinstance(kind, str) else None
    if found is not None:
        return found
    offered = [point for point in entry_points(group=GROUP) if point.name == kind]
    if not offered:
        raise WeightsError(
            f"optimizer is {kind!r}; known are {', '.join(known_kinds())}; one of your own needs sureprox.optimizers"
            ".register before it is named, or an installed package that offers it"
        )
    if len({point.value for point in offered}) > 1:
        packages = " and ".join(sorted(f"{_package(point)} ({point.value})" for point in offered))
        raise WeightsError(f"optimizer {kind!r} is offered by {packages}; uninstall all but one of them")
    return _offered(offered[0])


def build(kind: str, arguments: Mapping[str, Any]) -> LearnedOptimizer[Any]:
    """An untrained optimizer from its kind and constructor arguments, refused if it would take a lot of memory."""
    cls = class_of(kind)
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
        return cls(**arguments)
    except (TypeError, ValueError) as error:
        raise WeightsError(f"{kind} cannot be built from {arguments}: {error}") from None


def _checked(optimizer: Any) -> str:
    """The kind of a class that can be registered."""
    if not (inspect.isclass(optimizer) and issubclass(optimizer, LearnedOptimizer)):
        raise InputError(f"register got {optimizer!r}; pass a subclass of sureprox.optimizers.LearnedOptimizer")
    kind = getattr(optimizer, "kind", None)
    if not isinstance(kind, str) or not NAME.fullmatch(kind):
        raise InputError(
            f"{optimizer.__name__}.kind is {kind!r}; make it lower-case words joined by hyphens, such as 'my-method'"
        )
    if inspect.isabstract(optimizer):
        missing = ", ".join(sorted(optimizer.__abstractmethods__))
        raise InputError(f"{optimizer.__name__} does not define {missing}; every learned optimizer has to")
    return kind


def _offered(point: EntryPoint) -> type[LearnedOptimizer[Any]]:
    """The class behind an entry point of an installed package."""
    try:
        found = point.load()
        kind = _checked(found)
    except Exception as error:  # the code of another package may fail in any way
        raise WeightsError(f"optimizer {point.name!r} of {_package(point)} cannot be used: {brief(error)}") from None
    if kind != point.name:
        raise WeightsError(
            f"the entry point {point.name!r} of {_package(point)} is a class of kind {kind!r}; both must be the same"
        )
    cls: type[LearnedOptimizer[Any]] = found
    return cls


def _place(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else "an installed package"
