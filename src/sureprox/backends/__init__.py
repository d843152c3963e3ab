"""Faster versions of the hot step, each checked against the plain one."""

from sureprox.backends.compiled import Compiled, compiler_available

__all__ = ["Compiled", "compiler_available"]
