"""What every estimator does with its problem: solve, polish, certify, and warn where that did not succeed."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.optimizers import FISTA, Optimizer
from sureprox.optimizers.base import unusable_steps
from sureprox.problems import Problem
from sureprox.problems.forms import form_of
from sureprox.sklearn.newton import polished
from sureprox.solve.plan import step_size as estimated_step
from sureprox.solve.solve import LARGEST, Solution, Status, solve
from sureprox.solve.stopping import Measurement, StoppingRule
from sureprox.support.newton import can_polish

Array = npt.NDArray[np.float64]

STAGES = (1e-3, 1e-5, 1e-7)  # relative certificates after which Newton steps on the support are tried


@dataclass(frozen=True)
class Fitted:
    """Solutions x (B, n), what is known about them, and the iterations (B,) they took."""

    x: Tensor
    seen: Measurement
    iterations: Tensor


def default_optimizer() -> Optimizer[Any]:
    """What `optimizer=None` stands for."""
    return FISTA(restart=True)


def chosen_device(device: Any) -> torch.device:
    """The device named "cpu", "cuda", ..., or for "auto" the GPU if there is one."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device is {device!r}; pass 'cpu', 'cuda' or 'auto'") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {device!r}, but no CUDA device is here; pass 'cpu' or 'auto'")
    return chosen


def fitted(
    problem: Problem,
    optimizer: Any,
    tol: float,
    max_iter: int,
    polish: bool = True,
    step_size: Tensor | None = None,
    floor: float | None = None,
    check_every: int = 10,
    engine: str = "auto",
    improved: Callable[[Tensor], Tensor] | None = None,
) -> Fitted:
    """Solve to the certificate `tol` of `StoppingRule`, with its `floor`, in at most `max_iter` iterations.

    With `polish` the tolerance is approached in stages, and after each one Newton steps on the support are tried: once
    the support is right they finish the instance, which a first-order method would take thousands of steps for. Plain
    least squares needs no stages: `solve` itself does this for it (`sureprox.support.newton`). `improved`: a point with
    no higher F, of each that a stage ends with; it is what is judged and returned.
    """
    chosen = default_optimizer() if optimizer is None else optimizer
    x, step = problem.start(), estimated_step(problem, engine) if step_size is None else step_size
    if bool(unusable_steps(step).any()):
        raise InputError("the data are so large or small that float64 cannot hold their squares; scale X")
    rule = StoppingRule(problem, None, tol, floor)
    iterations = torch.zeros(problem.batch, dtype=torch.int64, device=problem.device)
    newton = polish and not can_polish(form_of(problem))
    stages = (*(stage for stage in STAGES if stage > tol), tol) if newton else (tol,)
    left = max_iter
    seen = rule.start
    for stage in stages:
        if bool(seen.converged.all()) or left <= 0:
            break
        solution = _solved(
            problem,
            chosen,
            x,
            max_iter=left,
            tol=stage,
            step_size=step,
            floor=floor,
            check_every=check_every,
            polish=polish,
            engine=engine,
        )
        iterations = iterations + solution.iterations
        left -= int(solution.iterations.max())
        x = polished(problem, solution.x, rule) if newton else solution.x
        x = x if improved is None else improved(x)
        seen = rule.measure(x)
    if not bool(seen.converged.all()):
        failed = int((~seen.converged).sum())
        warnings.warn(
            f"{failed} of {problem.batch} problems did not reach tol={tol:g} in {max_iter} iterations; "
            "raise max_iter or tol, or scale the features",
            ConvergenceWarning,
            stacklevel=4,
        )
    return Fitted(x, seen, iterations)


def _solved(problem: Problem, optimizer: Any, x: Tensor, **options: Any) -> Solution:
    """`solve` with its guarantee; restarted FISTA, the method all others are guarded by, first runs alone.

    The certificate of its answer is the same, at a quarter of the time. Only where it diverges, since the L it was
    given proved too small, is the guarantee needed: it finds a larger one.
    """
    if type(optimizer) is FISTA and optimizer.restart:
        solution = solve(problem, optimizer, x, certify=False, **options)
        if not (solution.status == Status.DIVERGED).any():
            return solution
    return solve(problem, optimizer, x, **options)


def checked(max_iter: Any, tol: Any, name: str = "tol") -> None:
    """Refuse what no solve can use."""
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 1:
        raise InputError(f"max_iter is {max_iter!r}; it must be a whole number >= 1")
    if max_iter > LARGEST:
        raise InputError(f"max_iter is {max_iter}; it must be at most {LARGEST}, the largest number of 64 bits")
    if not isinstance(tol, int | float | np.floating) or not 0 < tol < float("inf"):
        raise InputError(f"{name} is {tol!r}; it must be a number > 0")


def tensor(array: Any, device: torch.device) -> Tensor:
    """A float64 copy of the array on the device."""
    return torch.tensor(np.ascontiguousarray(array, dtype=np.float64), device=device)


def array(value: Tensor) -> Array:
    made: Array = value.cpu().numpy()
    return made
