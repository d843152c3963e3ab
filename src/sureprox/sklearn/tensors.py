"""Torch tensors in, torch tensors out: computed with as arrays, and returned as tensors that follow X."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

P = ParamSpec("P")
R = TypeVar("R")
CPU = torch.device("cpu")
PLACE: ContextVar[torch.device] = ContextVar("the device of X", default=CPU)


def tensors_too(function: Callable[P, R]) -> Callable[P, R]:
    """`function(X, ...)`, or a method of an estimator, that is written for arrays, for tensors too.

    Where X is a tensor, the arrays that are returned, and those among the attributes that `fit` sets, become tensors on
    its device.
    """
    names = list(signature(function).parameters)

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        X = dict(zip(names, args, strict=False)).get("X", kwargs.get("X"))
        outer = PLACE.set(X.device) if isinstance(X, Tensor) and X.device.type == "cuda" else None
        arrays: dict[str, Any] = {name: as_array(value) for name, value in kwargs.items()}
        try:
            found: Any = function(*map(as_array, args), **arrays)
        finally:
            if outer is not None:
                PLACE.reset(outer)
        if not isinstance(X, Tensor):
            return cast(R, found)
        if args and found is args[0]:
            for name, value in vars(found).items():
                if name.endswith("_"):
                    setattr(found, name, like(X, value))
        elif isinstance(found, tuple):
            found = tuple(like(X, one) for one in found)
        return cast(R, like(X, found))

    return called


def as_array(value: Any) -> Any:
    """A tensor as an array; everything else as it is."""
    if not isinstance(value, Tensor):
        return value
    value = value.detach().cpu()
    return (value.float() if value.dtype == torch.bfloat16 else value).numpy()


def like(given: Any, value: Any) -> Any:
    """Where a tensor was given, an array of numbers as a tensor on its device; everything else as it is."""
    numeric = isinstance(value, np.ndarray | np.floating) and value.dtype.kind in "fiub"
    return torch.tensor(value, device=given.device) if isinstance(given, Tensor) and numeric else value
