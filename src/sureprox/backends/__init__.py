"""Faster versions of the hot operations, each checked against the plain one; `sureprox.plan` chooses among them."""

from sureprox.backends.compiled import Compiled, compiler_available
from sureprox.backends.library import native_status
from sureprox.backends.network import can_fuse, fused

__all__ = ["Compiled", "can_fuse", "compiler_available", "fused", "native_status"]
