"""`solve`, `iterate` and `prepare`: what users call, and which optimizer they mean."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.defaults import MAX_ITER, TOL
from sureprox.base.errors import InputError
from sureprox.base.names import PRETRAINED
from sureprox.optimizers import FISTA, ISTA, LearnedOptimizer, Optimizer, Sure, load
from sureprox.optimizers.base import S, State
from sureprox.optimizers.weights import locate, stamp
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, Shape, form_of
from sureprox.problems.rigorous import require_rigorous
from sureprox.solve.implicit import require_derivatives, solved_without_graph, with_derivatives
from sureprox.solve.options import (
    IMPLICIT,
    check_calls,
    check_differentiable,
    check_options,
    check_switches,
    require_problem,
)
from sureprox.solve.plan import check_certify, plan
from sureprox.solve.rigorous import STRICTER, with_rigorous_gap
from sureprox.solve.solution import Progress, Solution, Status
from sureprox.solve.stages import Wanted, iterated, screened, tried_at_once

__all__ = ["Progress", "Solution", "Status", "default_optimizer", "iterate", "prepare", "solve"]

CLASSICAL: dict[str | None, Optimizer[Any]] = {"fista-restart": FISTA(restart=True), "fista": FISTA(), "ista": ISTA()}
SURE = "sure"
LOADED = 64  # optimizers by name or path that are kept in memory


def default_optimizer(problem: Problem) -> Optimizer[Any]:
    """What `solve` runs on this problem when no optimizer is named.

    Sure for LASSO and L1-logistic problems, with the weights for their family; restarted FISTA for all others. On those
    "sure", the weights for every separable form, needs a third of the gradients, but it has no kernels yet and takes
    more seconds wherever that was measured (`benchmarks/second_battery.py`): name it where gradients are expensive. The
    weights are those that `solve` itself uses and require no gradients; `load` reads weights of your own.
    """
    form = form_of(problem)
    family = {Loss.SQUARES: "lasso", Loss.LOGISTIC: "logistic"}.get(form.loss)
    if family is None or form.penalty is not Shape.L1:
        return FISTA(restart=True)
    return _kept(PRETRAINED / "sure" / family, problem.device)


def _kept(stem: Path, device: torch.device) -> Optimizer[Any]:
    """The optimizer at this path, read again only if its files have changed."""
    return _loaded(stem, stamp(stem), device)


@lru_cache(maxsize=LOADED)
def _loaded(stem: Path, stamp: tuple[int, ...], device: torch.device) -> Optimizer[Any]:
    """Its weights require no gradients: all solves share them, and gradients would pile up in them."""
    optimizer = load(stem, device=device)
    return optimizer.requires_grad_(False) if isinstance(optimizer, LearnedOptimizer) else optimizer


def prepare(
    problem: Problem, optimizer: Optimizer[Any] | str | None = None, certify: bool | str = "auto", engine: str = "auto"
) -> str:
    """Build the kernels that `solve` uses for problems like this one, and return the engine that it will use."""
    require_problem(problem)
    check_options(optimizer)
    return plan(problem, _chosen(problem, optimizer), certify, engine, wait=True).engine


def _chosen(problem: Problem, optimizer: Optimizer[Any] | str | None) -> Optimizer[Any]:
    return optimizer if isinstance(optimizer, Optimizer) else named(optimizer, problem)


def named(name: str | None, problem: Problem) -> Optimizer[Any]:
    """ista, fista, fista-restart; sure, with its weights for such problems; a pretrained one, or a model at a path."""
    if name in CLASSICAL:
        return CLASSICAL[name]
    default = default_optimizer(problem)
    if name is None or (name == SURE and isinstance(default, Sure)):
        return default
    return _kept(locate(name), problem.device)


def require_known(name: str) -> None:
    """Refuse a name that is no optimizer's."""
    if name not in CLASSICAL and name != SURE:
        load(name)


def iterate(problem: Problem, optimizer: Optimizer[S], state: S, steps: int, *, engine: str = "auto") -> Iterator[S]:
    """The states after 1, 2, ..., `steps` further steps; `engine` as in `solve`.

    Where gradients are enabled they flow, and the steps are plain.
    """
    require_problem(problem)
    if not isinstance(optimizer, Optimizer):
        raise InputError(f"optimizer is a {type(optimizer).__name__}; pass one of sureprox.optimizers, e.g. FISTA()")
    if not isinstance(state, State):
        raise InputError(f"state is a {type(state).__name__}; pass optimizer.init(problem, x0), or a later state")
    check_options(optimizer, steps, called="steps")
    stepping = plan(problem, optimizer, engine=engine, differentiable=torch.is_grad_enabled()).once()
    for _ in range(steps):
        state = stepping.step(problem, state)
        yield state


def solve(
    problem: Problem,
    optimizer: Optimizer[Any] | str | None = None,
    x0: Any = None,
    max_iter: int = MAX_ITER,
    tol: float = TOL,
    certify: bool | str = "auto",
    record: tuple[str, ...] = (),
    *,
    generator: torch.Generator | None = None,
    step_size: Any = None,
    check_every: int = 10,
    callback: Callable[[Progress], None] | None = None,
    differentiable: bool | str | None = None,
    floor: float | None = None,
    engine: str = "auto",
    compile: bool | None = None,
    polish: bool | None = None,
    rigorous: bool = False,
) -> Solution:
    """Minimise F = f + r for every instance, until its certificate is below `tol` (`StoppingRule`).

    `optimizer`: one of `sureprox.optimizers`, or the name of a pretrained one. Without it `default_optimizer` chooses,
    unless no iterations are needed: on a CPU, least squares and logistic losses with a separable penalty are solved on
    working sets, by kernels (`sureprox.support.working_set`), and LASSO problems of at most 48 coordinates, where there
    are no kernels and no `callback`, by following their path (`sureprox.support.path`). Neither is done if x0,
    `record`, `step_size`, `generator`, `polish=False` or a `max_iter` below 1,000 asks for iterations. These points are
    judged like all others; instances that they do not solve go on with the optimizer from there.

    `certify`: what is guaranteed whatever the optimizer does.

    - True: F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2 for k >= 1. FISTA and restarted FISTA run beside the optimizer,
      and the best point seen is returned (`Certified`).
    - "audit": the same with (k/6)^2, for k >= 20, at one gradient for each iteration. The optimizer runs alone; FISTA
      steps in where an audit finds no proof that the optimizer keeps up with it (`Audited`).
    - "cheap": the same with (k // 10 + 1)^2, for k >= 10, one method at a time (`CertifiedCheap`).
    - "auto", the default: True where kernels let the tracks share each read of A, else "audit", whichever is quicker
      for this form of problem. `Solution.guarantee` says which.
    - False: the optimizer alone, without a guarantee.

    With a guarantee, an instance on which float32 stalls before it reaches the tolerance is finished in float64.

    Certificates are evaluated in float64 at the start, every `check_every` iterations (every iteration if anything
    is recorded) and at the end. An instance stops at the first check that it passes; finished instances are dropped
    from the batch once they make up half of it. `record` names what to keep for every iteration: "objective", "gap",
    "kkt", "step_norm" (|x_k - x_{k-1}|).

    `floor`: gaps are judged against no less than this part of F at the origin (`StoppingRule`); by default `tol`.

    `differentiable`: whether gradients flow to x; by default they do if the data or x0 require them. For a converged
    instance of a loss of this package with a dense A and a separable penalty, they are the derivatives of the solution
    by the implicit function theorem (`sureprox.solve.implicit`), and none reaches x0. Elsewhere they are those of the
    iterations of the method that found x, with 1/L a constant. True, with data that require none: gradients reach the
    optimizer's weights through the iterations, but not weights that `solve` loaded by name; a thousand iterations do
    not fit in memory, and training uses `iterate`. "implicit": the graph of the iterations is not kept, so that memory
    does not grow with them, and x has the derivatives of the solution with respect to all numbers of the loss and the
    penalty, for every loss of this package with a dense A and every separable penalty. `Solution.derivative_error`
    estimates their error from the gap. Where the gap does not certify which kinks and bounds the solution is at, it is
    infinite, and one warning is issued.

    `engine`: what computes steps, L, certificates and polished points. "auto": kernels where they exist for this form
    of problem; if they are not built yet, this solve is plain and they are built in the background. "kernels": the
    same, but wait for the build. "plain": single operations of PyTorch, the specification. "compiled": kernels, and
    `torch.compile` for the rest, which takes up to a minute once for each kind of problem. `Solution.engine` says what
    ran. `compile=True` is the former name of "compiled".

    `polish`: at a check, try to solve a LASSO instance whose support is nearly known by a few small linear systems in
    float64 (`sureprox.support.newton`). If the certificate of that point passes, the instance ends there; if not, the
    point is still returned when the instance ends unsolved and nothing lower was seen. For other losses with a dense A
    and a separable penalty or groups it is Newton's method on the face, and for what is left after 300 iterations
    proximal points (`sureprox.support.proximal`). This saves iterations, most of all those that would have to run in
    float64. It is on unless `certify=False`, and never used with `record` or with gradients. Pass False to count the
    iterations that the optimizer itself needs.

    `rigorous`: `Solution.gap` bounds F(x) - F* including the rounding errors of its own evaluation, for the numbers in
    memory (`sureprox.problems.rigorous`), and "converged" is judged by it. For least squares and logistic losses with
    a separable penalty, and a dense or sparse A.
    """
    given = dict(locals())
    require_problem(problem)
    check_options(optimizer, max_iter, tol, record, check_every, floor)
    check_calls(generator=generator, callback=callback)
    check_differentiable(differentiable)
    check_switches(polish=polish, compile=compile, rigorous=rigorous)
    check_certify(certify)
    if compile is not None:
        warnings.warn("compile is now engine: pass engine='compiled'", DeprecationWarning, stacklevel=2)
        engine = "compiled" if compile else engine
        given |= {"compile": None, "engine": engine}
    if differentiable == IMPLICIT:
        require_derivatives(problem)
        return with_derivatives(solved_without_graph(solve, given), problem, x0)
    if rigorous:
        require_rigorous(problem)
        found = solve(**given | {"tol": STRICTER * tol, "rigorous": False})
        return screened(problem, with_rigorous_gap(found, problem, x0, tol, floor))
    del given["problem"], given["compile"], given["rigorous"]
    wanted = Wanted(**given)
    first = tried_at_once(problem, wanted)
    if first is None:
        return iterated(problem, _chosen(problem, optimizer), wanted)
    if not len(first.left):
        return first.solution
    left = problem.select(first.left)
    begin = first.solution.x[first.left].to(problem.dtype)
    return screened(problem, first.finished(iterated(left, _chosen(left, None), replace(wanted, x0=begin))))
