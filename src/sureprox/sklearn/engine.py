"""What every estimator does with its problem: solve, polish, certify, and warn where that did not succeed."""

import sys
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from sureprox.base.defaults import ENOUGH
from sureprox.base.errors import InputError
from sureprox.optimizers import FISTA, Optimizer
from sureprox.optimizers.base import unusable_steps
from sureprox.problems import Problem
from sureprox.problems.forms import form_of, pieces_of
from sureprox.sklearn.tensors import PLACE, as_array
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.options import LARGEST
from sureprox.solve.plan import at_once
from sureprox.solve.plan import step_size as estimated_step
from sureprox.solve.solve import Solution, Status, solve
from sureprox.solve.stopping import Measurement, StoppingRule
from sureprox.support.screening import Screening

Array = npt.NDArray[np.float64]

LEAST_TOL = float(np.finfo(np.float64).eps)  # what tol=0 stands for: nothing smaller can be told from zero


@dataclass(frozen=True)
class Fitted:
    """Solutions x (B, n), what is known about them, the iterations (B,) they took, and what proves their supports."""

    x: Tensor
    seen: Measurement
    iterations: Tensor
    screening: Screening


def default_optimizer() -> Optimizer[Any]:
    """What `optimizer=None` stands for where iterations are needed."""
    return FISTA(restart=True)


def chosen_device(device: Any) -> torch.device:
    """The device named "cpu", "cuda", ...; for "auto" the GPU if there is one; for None the place of X."""
    if device is None:
        return PLACE.get()
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except (RuntimeError, TypeError) as error:
        raise InputError(f"device is {device!r}; pass None, 'cpu', 'cuda' or 'auto'") from error
    if chosen.type == "cuda" and not torch.cuda.is_available():
        raise InputError(f"device is {device!r}, but no CUDA device is here; pass 'cpu' or 'auto'")
    return chosen


def has_many_solutions(problem: Problem) -> bool:
    """Whether more coordinates are without cost than there are rows.

    Rounding chooses among the solutions then, where a coordinate joins a working set or not: rows with weights would
    give another one than the same rows repeated. Iterations from zero find the same.
    """
    form = form_of(problem)
    if not form.separable:
        return False
    pieces = pieces_of(problem)
    loose = (pieces.l1 == 0) & (pieces.l2 == 0)
    return int(loose.expand(problem.batch, problem.n).sum(1).max()) > form.m


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
    x0: Tensor | None = None,
) -> Fitted:
    """Solve to the certificate `tol` of `StoppingRule`, with its `floor`, in at most `max_iter` iterations from x0.

    Without an optimizer, least squares on a CPU needs none (`sureprox.support.working_set`), unless there are
    `has_many_solutions`.

    `polish`: Newton steps finish an instance once its support is right (`sureprox.support`), which a first-order method
    would take thousands of steps for.
    """
    start, smallest = problem.start(x0), max(tol, LEAST_TOL)
    if optimizer is None and max_iter >= ENOUGH and not has_many_solutions(problem):
        operations = at_once(form_of(problem), engine)
        if operations.solved is not None:
            first = solved_at_once(problem, operations, smallest, floor, None if x0 is None else start)
            if not len(first.left):
                return _with_proofs(problem, first.solution.x, first.seen, first.solution.iterations)
            x0 = start = first.solution.x
    chosen = default_optimizer() if optimizer is None else optimizer
    step = estimated_step(problem, engine) if step_size is None else step_size
    if bool(unusable_steps(step).any()):
        raise InputError("the data are so large or small that float64 cannot hold their squares; scale X")
    rule = StoppingRule(problem, None if x0 is None else start, smallest, floor)
    x, seen, iterations = start, rule.start, torch.zeros(problem.batch, dtype=torch.int64, device=problem.device)
    if not bool(seen.converged.all()) and max_iter > 0:
        solution = _solved(
            problem,
            chosen,
            start,
            max_iter=max_iter,
            tol=smallest,
            step_size=step,
            floor=floor,
            check_every=check_every,
            polish=polish,
            engine=engine,
        )
        x, iterations = solution.x, solution.iterations
        seen = rule.measure(x)
    if not bool(seen.converged.all()):
        failed = int((~seen.converged).sum())
        warnings.warn(
            f"{failed} of {problem.batch} problems did not reach tol={tol:g} in {max_iter} iterations; "
            "raise max_iter or tol, or scale the features",
            ConvergenceWarning,
            stacklevel=_outside(),
        )
    return _with_proofs(problem, x, seen, iterations)


def _with_proofs(problem: Problem, x: Tensor, seen: Measurement, iterations: Tensor) -> Fitted:
    return Fitted(x, seen, iterations, Screening(problem, x, seen.gap))


def _outside() -> int:
    """The `stacklevel` of the first caller that is no estimator."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(__package__):
        level, frame = level + 1, frame.f_back
    return level


def _solved(problem: Problem, optimizer: Any, x: Tensor, **options: Any) -> Solution:
    """`solve` with its guarantee; restarted FISTA, the method all others are guarded by, first runs alone.

    The certificate of its answer is the same, at a quarter of the time. Only where it diverges, since the L it was
    given proved too small, is the guarantee needed: it finds a larger one.
    """
    if type(optimizer) is FISTA and optimizer.restart and not problem.f.guesses_curvature:
        solution = solve(problem, optimizer, x, certify=False, **options)
        if not (solution.status == Status.DIVERGED).any():
            return solution
    return solve(problem, optimizer, x, **options)


def checked(max_iter: Any, tol: Any, name: str = "tol", least: int = 1) -> None:
    """Refuse what no solve can use."""
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < least:
        raise InputError(f"max_iter is {max_iter!r}; it must be a whole number >= {least}")
    if max_iter > LARGEST:
        raise InputError(f"max_iter is {max_iter}; it must be at most {LARGEST}, the largest number of 64 bits")
    if isinstance(tol, bool) or not isinstance(tol, int | float | np.floating) or not 0 <= tol < float("inf"):
        raise InputError(f"{name} is {tol!r}; it must be a number >= 0")


def number(name: str, value: Any, least: float = 0.0, most: float = np.inf) -> float:
    """A finite number in [least, most]."""
    real = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not real or not np.isfinite(value) or not least <= value <= most:
        wanted = f">= {least:g}" if np.isinf(most) else f"between {least:g} and {most:g}"
        raise InputError(f"{name} is {value!r}; it must be a finite number {wanted}")
    return float(value)


def numbers(name: str, value: Any, targets: int, most: float = np.inf) -> Array:
    """(targets,): one finite number >= 0 for each target, or the same for all."""
    value = as_array(value)
    if np.ndim(value) != 1:
        return np.full(targets, number(name, value, most=most))
    if len(value) != targets:
        raise InputError(f"{name} has {len(value)} numbers; pass one, or one for each of {targets} targets")
    return np.array([number(name, one, most=most) for one in value])


def tensor(array: Any, device: torch.device) -> Tensor:
    """A float64 copy of the array, or tensor, on the device."""
    return torch.tensor(np.ascontiguousarray(as_array(array), dtype=np.float64), device=device)


def array(value: Tensor, dtype: Any = np.float64) -> Array:
    """As an array; rounded, where `dtype` is that of an X in float32."""
    made: Array = value.cpu().numpy()
    return made.astype(np.float32) if dtype == np.float32 else made
