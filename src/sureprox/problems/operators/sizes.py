"""Checks of the sizes of signals and images."""

from typing import Any

import numpy as np

from sureprox.base.errors import InputError


def whole_sizes(name: str, value: Any, dimensions: tuple[int, ...] = (1, 2)) -> tuple[int, ...]:
    """A whole number or a tuple of them, all >= 1, as a tuple of as many numbers as `dimensions` allows."""
    given = (value,) if isinstance(value, int | np.integer) else value
    fine = isinstance(given, tuple | list) and len(given) in dimensions
    fine = fine and all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= 1 for n in given)
    if not fine:
        wanted = " or ".join({1: "n or (n,)", 2: "two numbers"}[count] for count in dimensions)
        raise InputError(f"{name} is {value!r}; pass {wanted}, whole and >= 1")
    return tuple(int(n) for n in given)
