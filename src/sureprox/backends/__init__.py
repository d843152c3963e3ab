"""Faster versions of the hot step, each checked against the plain one."""

from sureprox.backends import krylov  # noqa: F401  (registers its kernel)
from sureprox.backends.accelerated import Accelerated, stepper
from sureprox.backends.compiled import Compiled, compiler_available
from sureprox.backends.network import can_fuse, fused
from sureprox.backends.normal import faster

__all__ = ["Accelerated", "Compiled", "can_fuse", "compiler_available", "faster", "fused", "stepper"]
