"""Forward differences."""

import math
from typing import Any

import torch

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.sizes import whole_sizes


class Difference(Operator):
    """z_i = x_{i+1} - x_i for a signal of size n, so m = n - 1; no difference across the border.

    For an image of size (h, w), given as the vector of its rows: first the (h - 1) w differences of a pixel and the one
    below, then the h (w - 1) of a pixel and the one to the right, both row by row.
    """

    def __init__(self, size: Any) -> None:
        self.size = whole_sizes("size", size)
        if math.prod(self.size) < 2:
            raise InputError(f"size is {size!r}: there is nothing to subtract; pass at least two points")

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(self.size)
        return sum(n - n // length for length in self.size), n

    def forward(self, x: Vectors) -> Rows:
        image = x.unflatten(1, self.size)
        return torch.cat([image.diff(dim=1 + axis).flatten(1) for axis in range(len(self.size))], 1)

    def adjoint(self, z: Rows) -> Vectors:
        """The sum over the axes of z_{i-1} - z_i, with zeros beyond the border."""
        n = math.prod(self.size)
        parts = z.split([n - n // length for length in self.size], 1)
        return torch.stack([self._back(part, axis) for axis, part in enumerate(parts)]).sum(0)

    def known_gram_norm(self) -> float:
        """sum over the axes of 4 cos^2(pi / 2 n): less than 4 for a signal, than 8 for an image."""
        return sum(4 * math.cos(math.pi / (2 * length)) ** 2 for length in self.size if length > 1)

    def _back(self, rows: Rows, axis: int) -> Vectors:
        lengths = tuple(length - (i == axis) for i, length in enumerate(self.size))
        image, dim = rows.unflatten(1, lengths), 1 + axis
        border = torch.zeros_like(image.sum(dim, keepdim=True))
        return -torch.cat([border, image, border], dim).diff(dim=dim).flatten(1)
