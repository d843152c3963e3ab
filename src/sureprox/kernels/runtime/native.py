"""Calling the compiled kernels of a CPU.

Float32 and float64, for problems of at least SMALLEST coordinates. Results agree with the plain move up to rounding,
and do not depend on the place in the batch.
"""

import ctypes
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sureprox.kernels.runtime.abi import filled, struct
from sureprox.kernels.runtime.library import function
from sureprox.kernels.runtime.threads import available
from sureprox.optimizers.base import Seen
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Loss, dense, lam_of, parts_of

SMALLEST = 16  # coordinates: a vector of the widest registers
LARGEST_ALONE = 1 << 22  # entries of one A above which a single thread per instance is not enough

SUFFIX = {torch.float32: "float", torch.float64: "double"}


Table = tuple[str, str]  # where the struct of a kernel is declared, and its name


def arguments(table: Table, values: Mapping[str, Any]) -> ctypes.Structure:
    """The struct of a kernel on contiguous tensors of one dtype, which must outlive it; None is a null pointer."""
    return filled(struct(*table), {**values, "threads": available()})


def call(
    table: Table, dtype: torch.dtype, values: Mapping[str, Any], weights: Sequence[Tensor] = (), **numbers: float
) -> None:
    """Call a kernel, see `arguments`; weights, if there are any, become an array of pointers."""
    given = {**values, **numbers, "threads": available()}
    if weights:
        array = (ctypes.c_void_p * len(weights))(*map(Tensor.data_ptr, weights))
        given["weights"] = ctypes.addressof(array)
    made = filled(struct(*table), given)
    function(f"{_snake(table[1])}_{SUFFIX[dtype]}")(ctypes.byref(made))


@cache
def _snake(name: str) -> str:
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def suits(form: Form) -> bool:
    """Whether the kernels are made for problems of this form."""
    return form.device.type == "cpu" and form.dtype in SUFFIX and form.n >= SMALLEST


def suits_matrices(form: Form) -> bool:
    """Whether kernels that read A with a thread for each instance are made for this form."""
    return suits(form) and form.own_matrices and form.m * form.n <= LARGEST_ALONE


def suits_squares(form: Form) -> bool:
    """The same where f = 1/2 |A x - b|^2 is computed."""
    return suits_matrices(form) and form.loss is Loss.SQUARES


def data(problem: Problem, seen: Seen | None) -> dict[str, Tensor | None]:
    """What a step needs where r = lam |x|_1: the shift, lam, and the gradient or, to compute it, A and b."""
    shift = None if problem.shift is None else problem.shift.contiguous()
    found: dict[str, Tensor | None] = {"A": None, "b": None, "g": None, "shift": shift}
    found["lam"] = lam_of(problem).expand(problem.batch).contiguous()
    if seen is not None:
        return found | {"g": seen.grad.contiguous()}
    A, b = dense(problem)
    return found | {"A": A, "b": b.contiguous()}


def penalty(problem: Problem) -> tuple[dict[str, Tensor | None], dict[str, Any]]:
    """The parts of a separable penalty as they lie, and from where to where it is from instance to instance and from
    coordinate to coordinate: nowhere, where they are shared."""
    steps: dict[str, Any] = {}
    parts, shape = parts_of(problem), problem.f.shape
    for name, value in parts.items():
        row, column = (0, 0) if value is None else value.expand(shape).stride()
        steps |= {f"{name}_row": row, f"{name}_column": column}
    return parts, steps


def copies(problem: Problem) -> int:
    """How many instances in a row have one A."""
    A, _ = dense(problem)
    return problem.batch if A.ndim == 2 else problem.batch // A.shape[0]


def rows_of(parts: Mapping[str, Tensor | None]) -> int:
    A = parts["A"]
    return 0 if A is None else A.shape[1]


def in_dtype(weights: list[Tensor], dtype: torch.dtype) -> list[Tensor]:
    return [w if w.dtype == dtype and w.is_contiguous() else w.detach().to(dtype).contiguous() for w in weights]
