"""The shapes that signatures declare, checked in every call of the functions and dataclasses of some packages.

An import hook puts `check` on all of them. jaxtyping and beartype judge the annotations that speak of shapes; plain
types are mypy's business, and a user who passes a wrong one must meet our own error, also under pytest. The verdict
depends on types, shapes and dtypes alone, so a call in which none of these is new is not judged again: judging all of
them makes an iteration on a small problem six times as slow.
"""

import ast
import functools
import sys
import threading
from collections import defaultdict
from collections.abc import Callable
from dataclasses import is_dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from typing import Any, NoReturn, get_args

from beartype import beartype
from jaxtyping import AbstractArray, jaxtyped
from torch import Tensor

Layout = Any  # of a value: types, shapes and dtypes, hashable
_passed: defaultdict[Any, dict[Layout, set[Layout]]] = defaultdict(
    dict
)  # of a function: of arguments, of their results
_thread = threading.local()


def install(*packages: str) -> None:
    """Whatever is imported from these packages from now on is checked."""
    sys.meta_path.insert(0, _Finder(packages))


def check(thing: Any) -> Any:
    """A function, or a class whose `__init__` is made by `dataclass`, that checks what is passed and returned."""
    if isinstance(thing, type):
        if is_dataclass(thing) and "__init__" in vars(thing):
            thing.__init__ = check(thing.__init__)  # type: ignore[misc]
        return thing
    if not any(map(has_shape, thing.__annotations__.values())):
        return thing
    passed = _passed[thing.__module__, thing.__qualname__, thing.__code__]  # shared by closures

    @functools.cache
    def judged() -> Callable[..., Any]:
        @functools.wraps(thing)
        def call(*args: Any, **kwargs: Any) -> Any:
            return _thread.call(*args, **kwargs)

        return jaxtyped(call, typechecker=_on_shapes_alone)

    @functools.wraps(thing)
    def checked(*args: Any, **kwargs: Any) -> Any:
        given = layout(args), layout(kwargs)
        if given not in passed:
            _thread.call = thing
            result = judged()(*args, **kwargs)
            passed.setdefault(given, set()).add(layout(result))
            return result
        result = thing(*args, **kwargs)
        if (returned := layout(result)) not in passed[given]:
            _thread.call = lambda *_, **__: result
            judged()(*args, **kwargs)
            passed[given].add(returned)
        return result

    return checked


def layout(value: Any) -> Layout:
    if isinstance(value, Tensor):
        return type(value), value.shape, value.dtype
    if isinstance(value, tuple | list):
        return type(value), *map(layout, value)
    if isinstance(value, dict):
        return type(value), *((name, layout(held)) for name, held in value.items())
    return type(value)


def has_shape(hint: Any) -> bool:
    """Float[Tensor, "B n"], or a union or tuple of such."""
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(has_shape, get_args(hint)))


def _on_shapes_alone(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    return beartype(function)


class _Finder:
    def __init__(self, packages: tuple[str, ...]) -> None:
        self._packages = packages

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not any(f"{name}.".startswith(f"{package}.") for package in self._packages):
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, SourceFileLoader):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


class _Loader(SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> Any:
        tree = ast.fix_missing_locations(_Decorator().visit(ast.parse(data, path)))
        return compile(tree, path, "exec", dont_inherit=True, optimize=_optimize)

    def path_stats(self, path: Any) -> NoReturn:
        raise OSError("what is compiled here is not kept: the same file is imported without checks too")


class _Decorator(ast.NodeTransformer):
    """Puts `check` next to the `def` of a function, which other decorators then see; before all others of a class."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        node.decorator_list.append(_check_of(node))
        self.generic_visit(node)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.ClassDef:
        node.decorator_list.insert(0, _check_of(node))
        self.generic_visit(node)
        return node


def _check_of(node: ast.stmt) -> ast.expr:
    expression = ast.parse(f"__import__({__name__!r}).check", mode="eval").body
    for part in ast.walk(expression):
        ast.copy_location(part, node)
    return expression
