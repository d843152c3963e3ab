"""Some of the Fourier coefficients of a real signal."""

import math
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems.operators.base import Operator


class MaskedFourier(Operator):
    """z = (F x)[mask], F the orthonormal Fourier transform, x real: a signal (n,), or an image (h, w) row by row.

    `mask`: booleans of the size of the signal, at the places of `torch.fft.fftn`. A coefficient is two numbers, its
    real part and then its imaginary part, so that m is twice the number of coefficients: complex data y (B, k) are
    `torch.view_as_real(y).flatten(1)`.
    """

    kept: Tensor

    def __init__(self, mask: Any) -> None:
        given = torch.from_numpy(mask.copy()) if isinstance(mask, np.ndarray) and mask.dtype == np.bool_ else mask
        if not isinstance(given, Tensor) or given.dtype != torch.bool or given.ndim not in (1, 2):
            got = f"{getattr(mask, 'dtype', type(mask).__name__)} of shape {tuple(getattr(mask, 'shape', ()))}"
            raise InputError(f"mask is {got}; pass booleans of shape (n,) or (h, w), for example mask > 0")
        if not bool(given.any()):
            raise InputError("mask is False everywhere; choose at least one coefficient")
        self.size = tuple(given.shape)
        self.kept = given.flatten().nonzero()[:, 0]
        mirrored = given.flip(tuple(range(given.ndim))).roll((1,) * given.ndim, tuple(range(given.ndim)))
        self._both = bool((given & mirrored).any())

    @property
    def shape(self) -> tuple[int, int]:
        return 2 * len(self.kept), math.prod(self.size)

    def forward(self, x: Vectors) -> Rows:
        image = x.unflatten(1, self.size)
        full = torch.fft.fftn(image, dim=self._dims, norm="ortho").flatten(1)
        pairs: Tensor = torch.view_as_real(full[:, self.kept.to(x.device)])
        return pairs.flatten(1)

    def adjoint(self, z: Rows) -> Vectors:
        """The real part of F^H of the coefficients, zero where there is no mask."""
        data = torch.view_as_complex(z.unflatten(1, (-1, 2)).contiguous())
        full = data.new_zeros(len(z), self.shape[1]).index_copy(1, self.kept.to(z.device), data)
        image: Tensor = torch.fft.ifftn(full.unflatten(1, self.size), dim=self._dims, norm="ortho")
        return image.real.flatten(1)

    def known_gram_norm(self) -> float:
        """A'A = F^H D F with D = (mask + mirrored mask) / 2, as x is real: 1, or 1/2 without any frequency and -it."""
        return 1.0 if self._both else 0.5

    @property
    def _dims(self) -> tuple[int, ...]:
        return tuple(range(1, 1 + len(self.size)))
