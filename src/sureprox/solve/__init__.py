"""`solve`: a plan, the loop, and when to stop."""

from sureprox.solve.reference import Reference, reference
from sureprox.solve.solution import Progress, Solution, Status
from sureprox.solve.solve import iterate, prepare, solve

__all__ = ["Progress", "Reference", "Solution", "Status", "iterate", "prepare", "reference", "solve"]
