"""sureprox: learned proximal optimizers you can be sure of.

    import sureprox as sp
    problem = sp.lasso(A, b, lam)
    solution = sp.solve(problem, sp.optimizers.FISTA(restart=True))
"""

from sureprox import optimizers, problems
from sureprox.errors import ConfigError, InputError, SureproxError, TrainingError, WeightsError
from sureprox.problems import Penalty, Problem, Smooth, lasso, logistic
from sureprox.reference import Reference, reference
from sureprox.solve import Progress, Solution, Status, iterate, solve

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "InputError",
    "Penalty",
    "Problem",
    "Progress",
    "Reference",
    "Smooth",
    "Solution",
    "Status",
    "SureproxError",
    "TrainingError",
    "WeightsError",
    "iterate",
    "lasso",
    "logistic",
    "optimizers",
    "problems",
    "reference",
    "solve",
]
