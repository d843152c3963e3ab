"""A linear map given by two functions of the user."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems import checks
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.sizes import whole_sizes

POINTS = 4
ROUNDING = 1e-5  # relative, far above that of float32

Batched = Callable[[Tensor], Tensor]


class Function(Operator):
    """z = A x with A x = apply(x), A'z = adjoint(z): functions of batches (R, n) -> (R, m) and (R, m) -> (R, n).

    Both get tensors of the dtype and on the device of the problem, and certificates are computed in float64. Functions
    that are made for one dtype and device only get tensors of these if `like` is a tensor of that kind; then no result
    is more precise than that.

    At construction both are tried on a few random vectors: sizes, finite numbers, linearity, <A x, z> = <x, A'z>.
    """

    def __init__(self, apply: Batched, adjoint: Batched, shape: Any, like: Tensor | None = None) -> None:
        for name, function in (("apply", apply), ("adjoint", adjoint)):
            if not callable(function):
                raise InputError(f"{name} is a {type(function).__name__}; pass a function of a batch of vectors")
        if like is not None and not (isinstance(like, Tensor) and like.dtype in checks.FLOATS):
            got = like.dtype if isinstance(like, Tensor) else type(like).__name__
            raise InputError(f"like is {got}; pass a float32 or float64 tensor, of the kind that the functions take")
        m, n = whole_sizes("shape", shape, (2,))
        self.functions = apply, adjoint
        self._shape = m, n
        self._kind = None if like is None else (like.dtype, like.device)
        self._try()

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def forward(self, x: Vectors) -> Rows:
        return self._called("apply", self.functions[0], x, self._shape[0])

    def adjoint(self, z: Rows) -> Vectors:
        return self._called("adjoint", self.functions[1], z, self._shape[1])

    def roundoff(self, dtype: torch.dtype) -> float:
        return torch.finfo(dtype if self._kind is None else self._kind[0]).eps

    def _called(self, name: str, function: Batched, rows: Tensor, width: int) -> Tensor:
        given = rows if self._kind is None else rows.to(self._kind[1], self._kind[0])
        try:
            result = function(given)
        except Exception as error:
            kind = f"{str(given.dtype).removeprefix('torch.')} batch {tuple(given.shape)} on {given.device}"
            raise InputError(
                f"{name} failed on a {kind}: {type(error).__name__}: {error}; "
                "if it is made for another dtype or device, pass like, a tensor of that kind"
            ) from error
        if not isinstance(result, Tensor):
            raise InputError(f"{name} returned a {type(result).__name__}; it must return a torch tensor")
        wanted = (len(rows), width)
        if tuple(result.shape) != wanted:
            raise InputError(
                f"{name} returned shape {tuple(result.shape)} for a batch {tuple(rows.shape)}; "
                f"shape {self._shape} asks for {wanted}"
            )
        if self._kind is not None:
            return result.to(rows.device, rows.dtype)
        if result.dtype != rows.dtype:
            raise InputError(
                f"{name} returned {result.dtype} for {rows.dtype}; return the dtype it is given, or pass like"
            )
        return result

    @torch.no_grad()
    def _try(self) -> None:
        """Refuse functions that are not A and A'."""
        generator = torch.Generator().manual_seed(0)
        x = torch.randn(POINTS, self._shape[1], generator=generator, dtype=torch.float64)
        x[-1] = x[0] + 2 * x[1]
        z = self._tried("apply", self.forward, x)
        size = z.abs().amax().clamp(min=torch.finfo(z.dtype).tiny)
        if not float((z[-1] - z[0] - 2 * z[1]).abs().max()) <= ROUNDING * float(size):
            raise InputError("apply is not linear: apply(x + 2 y) is not apply(x) + 2 apply(y)")
        # a part of A x itself: with random z alone, an adjoint that is off by a factor would hide in many rows
        there = z / torch.linalg.vector_norm(z, dim=1, keepdim=True).clamp(min=torch.finfo(z.dtype).tiny)
        noise = torch.randn(z.shape, generator=generator, dtype=torch.float64)
        w = there + noise / torch.linalg.vector_norm(noise, dim=1, keepdim=True)
        back = self._tried("adjoint", self.adjoint, w)
        left, right = (z * w).sum(1), (x * back).sum(1)
        norm = torch.linalg.vector_norm
        sizes = norm(z, dim=1) * norm(w, dim=1)
        wrong = (left - right).abs() > ROUNDING * torch.maximum(sizes, norm(x, dim=1) * norm(back, dim=1) / 10)
        if bool(wrong.any()):
            i = int(wrong.nonzero()[0])
            raise InputError(
                f"adjoint is not the adjoint of apply: <A x, z> is {float(left[i]):.6g} but <x, A'z> is "
                f"{float(right[i]):.6g} for random x and z"
            )

    def _tried(self, name: str, function: Batched, rows: Tensor) -> Tensor:
        result = function(rows)
        if not bool(torch.isfinite(result).all()):
            raise InputError(f"{name} returned NaN or infinite numbers for a random finite batch {tuple(rows.shape)}")
        return result
