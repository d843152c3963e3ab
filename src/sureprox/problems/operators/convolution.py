"""Convolutions by the fast Fourier transform."""

import math
from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems import checks
from sureprox.problems.operators.base import Operator
from sureprox.problems.operators.sizes import whole_sizes


class Boundary(StrEnum):
    CIRCULAR = "circular"
    ZERO = "zero"


class Convolution(Operator):
    """z_i = sum_j k_j x_{i + c - j}, c = (K - 1) // 2 for a kernel (K,), and along both axes for one of (K1, K2).

    z is as large as x, a signal of size n or an image of size (h, w) row by row. Beyond the border x is itself again
    (`boundary="circular"`) or zero ("zero": mode "same" of `numpy.convolve`). Gradients reach the kernel too.
    """

    kernel: Tensor

    def __init__(self, kernel: Any, size: Any, boundary: str = "circular") -> None:
        self.kernel = checks.as_tensor("kernel", kernel)
        checks.require_finite("kernel", self.kernel)
        self.size = whole_sizes("size", size)
        if boundary not in list(Boundary):
            raise InputError(f"boundary is {boundary!r}; choose 'circular' or 'zero'")
        self.boundary = Boundary(boundary)
        lengths = tuple(self.kernel.shape)
        fits = len(lengths) == len(self.size) and all(0 < k <= n for k, n in zip(lengths, self.size, strict=True))
        if not fits:
            raise InputError(
                f"kernel has shape {lengths}; size {self.size} needs as many dimensions, none empty or longer"
            )

    @property
    def shape(self) -> tuple[int, int]:
        n = math.prod(self.size)
        return n, n

    def forward(self, x: Vectors) -> Rows:
        return self._filtered(x, self._spectrum())

    def adjoint(self, z: Rows) -> Vectors:
        return self._filtered(z, self._spectrum().conj())

    def known_gram_norm(self) -> Tensor | None:
        """The largest |k^|^2 of the Fourier transform of a circular kernel."""
        return self._spectrum().abs().amax().square() if self.boundary is Boundary.CIRCULAR else None

    def _filtered(self, x: Tensor, spectrum: Tensor) -> Tensor:
        image = torch.fft.rfftn(x.unflatten(1, self.size), s=self._lengths, dim=self._dims)
        result: Tensor = torch.fft.irfftn(image * spectrum, s=self._lengths, dim=self._dims)
        for dim, length in zip(self._dims, self.size, strict=True):
            result = result.narrow(dim, 0, length)
        return result.flatten(1)

    def _spectrum(self) -> Tensor:
        """Of the kernel with its centre moved to the origin; made anew, so that it is as precise as the kernel."""
        axes = tuple(range(self.kernel.ndim))
        padded = self.kernel.new_zeros(self._lengths)
        padded[tuple(slice(0, length) for length in self.kernel.shape)] = self.kernel
        centred = padded.roll(tuple(-((length - 1) // 2) for length in self.kernel.shape), axes)
        spectrum: Tensor = torch.fft.rfftn(centred)
        return spectrum

    @property
    def _lengths(self) -> tuple[int, ...]:
        """Of the transforms: with zeros at the end for a whole kernel, no point meets one across the border."""
        if self.boundary is Boundary.CIRCULAR:
            return self.size
        return tuple(n + k - 1 for n, k in zip(self.size, self.kernel.shape, strict=True))

    @property
    def _dims(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + len(self.size)))
