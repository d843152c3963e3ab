"""Checks, once for each solve, that a user's own parts return the shapes that `Smooth` and `Penalty` ask for."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Vectors
from sureprox.problems.forms import Loss, Shape, loss_of, shape_of
from sureprox.problems.problem import Problem


@torch.no_grad()
def require_shapes(problem: Problem, x: Vectors) -> None:
    """Values are (B,), gradients, proximal points and slopes (B, n).

    Errors that the code of a part raises itself pass through. The parts of this package are not checked, but
    subclasses of them are.
    """
    y = problem.centred(x)
    one, each = tuple(y.shape[:1]), tuple(y.shape)
    if loss_of(problem) is Loss.OWN:
        f = problem.f
        _require(f, "value", f.value(y.clone()), one)
        _require(f, "grad", f.grad(y.clone()), each)
    if shape_of(problem) is Shape.OWN:
        r = problem.r
        _require(r, "value", r.value(y.clone()), one)
        _require(r, "prox", r.prox(y.clone(), torch.ones_like(y[:, :1])), each)
        box = r.subdiff(y.clone())
        if not isinstance(box, tuple | list) or len(box) != 2:
            raise InputError(f"{_name(r)}.subdiff returned a {type(box).__name__}; it must return (low, high)")
        for bound in box:
            _require(r, "subdiff", bound, each)


def _require(part: Any, method: str, value: Any, shape: tuple[int, ...]) -> None:
    if not isinstance(value, Tensor):
        raise InputError(f"{_name(part)}.{method} returned a {type(value).__name__}; it must return a tensor {shape}")
    if tuple(value.shape) != shape:
        raise InputError(
            f"{_name(part)}.{method} returned shape {tuple(value.shape)}; for this batch it must be {shape}"
        )


def _name(part: Any) -> str:
    return type(getattr(part, "inner", part)).__name__
