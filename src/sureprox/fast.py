"""Steps that a backend computes faster than the plain code beside it, and to the same result up to rounding."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import Any, TypeVar

import torch

F = TypeVar("F", bound=Callable[..., Any])

_fast: dict[tuple[type, str], Callable[..., Any]] = {}
_plain: ContextVar[bool] = ContextVar("plain", default=False)


def offer(kind: type, method: str, fast: Callable[..., Any]) -> None:
    """`fast` takes the arguments of `kind.method` and returns its result, or None where it does not apply."""
    _fast[kind, method] = fast


def fast_where_possible(method: F) -> F:
    """The method; where no gradient is recorded, what was offered for exactly this class goes first."""
    name = method.__name__

    @wraps(method)
    def chosen(self: Any, *arguments: Any) -> Any:
        # not `is_compiling`, which is true of this thread too while another one compiles
        if torch.compiler.is_dynamo_compiling() or torch.is_grad_enabled():
            return method(self, *arguments)
        fast = _fast.get((type(self), name))
        result = None if fast is None or _plain.get() else fast(self, *arguments)
        return method(self, *arguments) if result is None else result

    return chosen  # type: ignore[return-value]


@contextmanager
def plain_steps() -> Iterator[None]:
    """Within this, every step is computed by the plain code."""
    token = _plain.set(True)
    try:
        yield
    finally:
        _plain.reset(token)
