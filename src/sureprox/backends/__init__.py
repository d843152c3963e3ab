"""Faster versions of the hot step, each checked against the plain one."""

from sureprox.backends.compiled import Compiled, compiler_available
from sureprox.backends.kernel import can_fuse, fused

__all__ = ["Compiled", "can_fuse", "compiler_available", "fused"]
