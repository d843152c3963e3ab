"""The Haar wavelet transform."""

import math
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.sizes import whole_sizes


class Haar(Operator):
    """z = W x, the orthonormal Haar coefficients of a signal of size n or an image of size (h, w); W'W = W W' = I.

    One level replaces neighbours a, b of a signal by their sums (a + b) / sqrt(2), in the first half, and differences
    (a - b) / sqrt(2), in the second half; of an image along both axes, so that the sums of sums are its upper left
    quarter. The next level does the same to the sums alone. `levels`: as many as the size allows by default, which must
    then be a power of 2. `Haar(size).T` makes the signal from its coefficients.
    """

    orthogonal = True

    def __init__(self, size: Any, levels: int | None = None) -> None:
        self.size = whole_sizes("size", size)
        if levels is None and any(length & (length - 1) for length in self.size):
            raise InputError(f"size is {size!r}; all levels need powers of 2: pad the signal, or pass levels")
        most = int(math.log2(min(length & -length for length in self.size)))
        chosen = most if levels is None else levels
        if isinstance(chosen, bool) or not isinstance(chosen, int) or not 0 <= chosen <= most:
            raise InputError(f"levels is {levels!r}; size {size!r} can be halved {most} times: pass 0 to {most}")
        self.levels = chosen

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(self.size)
        return n, n

    def forward(self, x: Vectors) -> Rows:
        return self._analysed(x.unflatten(1, self.size), self.levels).flatten(1)

    def adjoint(self, z: Rows) -> Vectors:
        return self._synthesised(z.unflatten(1, self.size), self.levels).flatten(1)

    def _analysed(self, image: Tensor, levels: int) -> Tensor:
        if levels == 0:
            return image
        for dim in range(1, image.ndim):
            pairs = image.unflatten(dim, (-1, 2))
            a, b = pairs.unbind(dim + 1)
            image = torch.cat([a + b, a - b], dim) * math.sqrt(0.5)
        return _with_corner(image, self._analysed(_corner(image), levels - 1))

    def _synthesised(self, image: Tensor, levels: int) -> Tensor:
        if levels == 0:
            return image
        image = _with_corner(image, self._synthesised(_corner(image), levels - 1))
        for dim in range(1, image.ndim):
            sums, differences = image.chunk(2, dim)
            image = torch.stack([sums + differences, sums - differences], dim + 1).flatten(dim, dim + 1) * math.sqrt(
                0.5
            )
        return image


def _corner(image: Tensor) -> Tensor:
    """The first half along every axis."""
    for dim in range(1, image.ndim):
        image = image.narrow(dim, 0, image.shape[dim] // 2)
    return image


def _with_corner(image: Tensor, corner: Tensor) -> Tensor:
    """`image` with another corner."""
    for dim in reversed(range(1, image.ndim)):
        rest = image
        for other in range(1, dim):
            rest = rest.narrow(other, 0, corner.shape[other])
        half = image.shape[dim] // 2
        corner = torch.cat([corner, rest.narrow(dim, half, half)], dim)
    return corner
