"""Faster versions of the hot operations, each checked against the plain one; `sureprox.solve.plan` chooses."""

from sureprox.kernels.network.gpu import can_fuse, fused
from sureprox.kernels.runtime.compiled import Compiled, compiler_available
from sureprox.kernels.runtime.library import native_status

__all__ = ["Compiled", "can_fuse", "compiler_available", "fused", "native_status"]
