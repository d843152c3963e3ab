"""sureprox: learned proximal optimizers you can be sure of.

import sureprox as sp
problem = sp.lasso(A, b, lam)
solution = sp.solve(problem, sp.optimizers.FISTA(restart=True))
"""

from typing import Any

from sureprox._loading import loading, needs_no_libraries
from sureprox._version import __version__
from sureprox.base.errors import (
    ConfigError,
    ConvergenceWarning,
    DataError,
    DerivativeWarning,
    EngineWarning,
    InputError,
    SureproxError,
    TrainingError,
    WeightsError,
)

if not needs_no_libraries():
    with loading():
        from sureprox import losses, operators, optimizers, penalties, problems
        from sureprox.optimizers import load, pretrained, save
        from sureprox.problems import (
            Penalty,
            Problem,
            Smooth,
            elastic_net,
            group_lasso,
            lasso,
            logistic,
            nonnegative,
        )
        from sureprox.solve.announced import path, solve, tv_denoise
        from sureprox.solve.denoising import Denoised
        from sureprox.solve.paths import Path
        from sureprox.solve.reference import Reference, reference
        from sureprox.solve.solve import Progress, Solution, Status, iterate, prepare
        from sureprox.training import fine_tune, train

__all__ = [
    "ConfigError",
    "ConvergenceWarning",
    "DataError",
    "Denoised",
    "DerivativeWarning",
    "EngineWarning",
    "InputError",
    "Path",
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
    "__version__",
    "elastic_net",
    "fine_tune",
    "group_lasso",
    "iterate",
    "lasso",
    "load",
    "logistic",
    "losses",
    "nonnegative",
    "operators",
    "optimizers",
    "path",
    "penalties",
    "prepare",
    "pretrained",
    "problems",
    "reference",
    "save",
    "solve",
    "train",
    "tv_denoise",
]


def __getattr__(name: str) -> Any:
    """`audit`, `advise` and `solve_many` are imported when they are first asked for: most programs never do."""
    from importlib import import_module

    if name == "audit":
        return import_module("sureprox.audit")
    if name == "advise":
        return import_module("sureprox.advice").advise
    if name == "solve_many":
        return import_module("sureprox.many").solve_many
    raise AttributeError(f"module 'sureprox' has no attribute {name!r}")
