"""The type checker that jaxtyping's import hook puts on every function: beartype, on the shape annotations alone.

Plain types are mypy's business, and a user who passes a wrong one must meet our own error, also under pytest.
"""

from collections.abc import Callable
from typing import Any, get_args

from beartype import beartype
from jaxtyping import AbstractArray


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    function.__annotations__ = {name: hint for name, hint in function.__annotations__.items() if has_shape(hint)}
    return beartype(function)


def has_shape(hint: Any) -> bool:
    """Float[Tensor, "B n"], or a union or tuple of such."""
    return (isinstance(hint, type) and issubclass(hint, AbstractArray)) or any(map(has_shape, get_args(hint)))
