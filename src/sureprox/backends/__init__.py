"""Faster versions of the hot step, each checked against the plain one."""

from sureprox.backends import (  # noqa: F401  (they register their kernels)
    active_sets,
    certificates,
    cpu,
    cpu_certified,
    cpu_sure,
    krylov,
    lanczos,
    lasso_polish,
)
from sureprox.backends.accelerated import Accelerated, stepper
from sureprox.backends.compiled import Compiled, compiler_available
from sureprox.backends.library import native_status
from sureprox.backends.network import can_fuse, fused
from sureprox.backends.normal import faster
from sureprox.backends.sharing import few_threads

__all__ = [
    "Accelerated",
    "Compiled",
    "can_fuse",
    "compiler_available",
    "faster",
    "few_threads",
    "fused",
    "native_status",
    "stepper",
]
