"""`sureprox.support.total_variation` by a compiled kernel, on a CPU (see runtime/native.py)."""

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.kernels.runtime.native import call
from sureprox.support.total_variation import Dual

TOTAL_VARIATION = ("total_variation/total_variation.h", "TotalVariation")


def dual_steps(
    y: Vectors, lam: Scalars, size: tuple[int, int], dual: Dual, steps: int, isotropic: bool
) -> tuple[Dual, Tensor]:
    """`total_variation.dual_steps`; it writes on `dual`."""
    out = torch.empty(len(y), 2, dtype=torch.float64)
    tensors = {"y": y.contiguous(), "lam": lam.contiguous(), **dual._asdict(), "out": out}
    h, w = size
    call(TOTAL_VARIATION, y.dtype, tensors, batch=len(y), h=h, w=w, steps=steps, isotropic=isotropic)
    return dual, out
