"""What users call: `solve`, `path` and `tv_denoise`, with one warning where a problem has not converged.

The functions themselves are silent: estimators, references, training, experiments and the command line call those,
look at the status, and say in their own way what has not converged. Only `sureprox/__init__.py` imports this file.
"""

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import ParamSpec, Protocol, TypeVar

import torch
from torch import Tensor

from sureprox.base.defaults import MAX_ITER
from sureprox.base.errors import ConvergenceWarning, DerivativeWarning
from sureprox.solve import denoising, paths
from sureprox.solve.solution import Solution
from sureprox.solve.solve import solve as run

P = ParamSpec("P")


class Result(Protocol):
    """One number for each problem."""

    @property
    def converged(self) -> Tensor: ...
    @property
    def objective(self) -> Tensor: ...
    @property
    def gap(self) -> Tensor: ...


R = TypeVar("R", bound=Result)


def announced(function: Callable[P, R]) -> Callable[P, R]:
    """`function`, followed by one `ConvergenceWarning` if a problem of its result has not converged."""
    signature = inspect.signature(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        result = function(*args, **kwargs)
        if not bool(result.converged.all()):
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            warnings.warn(unconverged(result, given.arguments), ConvergenceWarning, stacklevel=2)
        if isinstance(result, Solution) and result.derivative_error is not None:
            unknown = ~torch.isfinite(result.derivative_error)
            if bool(unknown.any()):
                warnings.warn(uncertified(unknown), DerivativeWarning, stacklevel=2)
        return result

    call.__module__ = "sureprox"  # where it is found by this name; so it can be pickled
    return call


def unconverged(result: Result, given: dict[str, object]) -> str:
    """How many problems have not converged, the worst gap or residual, and what to do."""
    options = {**given, **dict(given.get("options") or {})}  # type: ignore[call-overload]
    failed = ~result.converged.cpu().flatten()
    count, total = int(failed.sum()), failed.numel()
    most = options.get("max_iter", MAX_ITER)
    facts = [_worst(result, failed)]
    facts += [f"tol {options['tol']:g}"] if "tol" in options else []
    advice = "raise max_iter or tol, or rescale the data; .converged shows which"
    if isinstance(result, Solution) and (lost := sum(status == "diverged" for status in result.status)):
        advice = f"{lost:,} diverged; .status shows which"
    problems = "problem" if total == 1 else "problems"
    return (
        f"{count:,} of {total:,} {problems} did not converge within {most:,} iterations ({', '.join(facts)}); {advice}"
    )


def uncertified(unknown: Tensor) -> str:
    return (
        f"the derivatives of {int(unknown.sum()):,} of {len(unknown):,} solutions are not certified: their gaps do not "
        "prove at which kinks and bounds they are; lower tol; .derivative_error is infinite there"
    )


def _worst(result: Result, failed: Tensor) -> str:
    gap = result.gap.detach().cpu().flatten()[failed]
    ratio = gap / result.objective.detach().cpu().flatten()[failed].abs()
    if bool(torch.isfinite(ratio).any()):
        return f"worst relative gap {float(ratio[torch.isfinite(ratio)].max()):.1e}"
    if isinstance(result, Solution):
        return f"largest KKT residual {float(result.kkt.detach().cpu()[failed].max()):.1e}"
    return f"largest gap {float(gap.max()):.1e}"


solve = announced(run)
path = announced(paths.path)
tv_denoise = announced(denoising.tv_denoise)
