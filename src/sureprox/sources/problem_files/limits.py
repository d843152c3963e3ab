"""How much memory a file may ask for, and which of its arrays are numbers."""

import math
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from sureprox.base.errors import InputError

Array: TypeAlias = npt.NDArray[Any]

AT_ONCE = 2**28  # bytes that compressed data may always expand to,
RATIO = 100  # and beyond that, how many times its size in the file


def check_expansion(label: str, compressed: int, expanded: int) -> None:
    """Refuse compressed data that would take far more memory than its size in the file suggests."""
    if expanded > max(AT_ONCE, RATIO * compressed):
        raise InputError(
            f"{label} expands from {compressed:,} to {expanded:,} bytes or more, which looks like a zip bomb; "
            "save it uncompressed if that is what it holds"
        )


def check_sides(label: str, shape: tuple[Any, ...]) -> None:
    """At most four sides, whole numbers, none of them 0."""
    if not all(type(side) is int and side >= 0 for side in shape) or len(shape) > 4:
        raise InputError(f"{label} declares the shape {str(shape)[:60]}, which is not that of an array used here")
    if 0 in shape:
        raise InputError(f"{label} has shape {shape}: it is empty")


def check_shape(label: str, shape: tuple[Any, ...], item: int, available: int) -> None:
    """The declared shape, with `item` bytes for each entry, must be what the file has bytes for."""
    check_sides(label, shape)
    needed = math.prod(shape) * item
    if needed != available:
        raise InputError(
            f"{label} declares shape {shape}, that is {needed:,} bytes, but has {available:,}: damaged or cut short"
        )


def check_numbers(label: str, dtype: np.dtype[Any]) -> None:
    """Refuse everything but real numbers."""
    if dtype.kind == "c":
        raise InputError(f"{label} is complex ({dtype}); only real numbers are solved for")
    if dtype.kind not in "fiub":
        raise InputError(f"{label} has dtype {dtype}; save it as an array of float64")


def numbers(label: str, array: Array) -> Array:
    """Real numbers as float32 or float64, in C order and the native byte order."""
    check_numbers(label, array.dtype)
    single = array.dtype.kind == "f" and array.dtype.itemsize <= 4
    with np.errstate(over="ignore"):  # long doubles too large for float64 become infinite, which is refused later
        return np.ascontiguousarray(array, dtype=np.float32 if single else np.float64)
