"""`solve`: stopping, certificates, status and history around the one loop of the project."""

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch

from sureprox.base.defaults import ENOUGH, MAX_ITER, TOL
from sureprox.base.errors import InputError
from sureprox.base.names import PRETRAINED
from sureprox.base.operations import PLAIN
from sureprox.guarantee import Track
from sureprox.kernels.runtime.sharing import few_threads
from sureprox.optimizers import FISTA, ISTA, LearnedOptimizer, Optimizer, Sure, load
from sureprox.optimizers.base import S, State
from sureprox.optimizers.weights import locate, stamp
from sureprox.problems import Problem
from sureprox.problems.checks import trusted
from sureprox.problems.forms import Loss, Shape, form_of, sparse_entries
from sureprox.problems.rigorous import require_rigorous
from sureprox.problems.trial import require_shapes
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.implicit import differentiated, require_derivatives, solved_without_graph, with_derivatives
from sureprox.solve.loop import Run
from sureprox.solve.options import (
    IMPLICIT,
    check_calls,
    check_differentiable,
    check_options,
    check_switches,
    require_problem,
)
from sureprox.solve.plan import at_once, check_certify, plan
from sureprox.solve.rigorous import STRICTER, with_rigorous_gap
from sureprox.solve.solution import Progress, Solution, Status
from sureprox.solve.stopping import StoppingRule, judged_by_gap
from sureprox.support.newton import Polish, can_polish
from sureprox.support.path import followed_path, has_short_path
from sureprox.support.screening import Screening

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
    """The optimizer of this path, read again only if its files are others than last time."""
    return _loaded(stem, stamp(stem), device)


@lru_cache(maxsize=LOADED)
def _loaded(stem: Path, stamp: tuple[int, ...], device: torch.device) -> Optimizer[Any]:
    """Its weights take no gradients: they are shared by all solves, and nobody would ever clear them."""
    optimizer = load(stem, device=device)
    return optimizer.requires_grad_(False) if isinstance(optimizer, LearnedOptimizer) else optimizer


def prepare(
    problem: Problem, optimizer: Optimizer[Any] | str | None = None, certify: bool | str = "auto", engine: str = "auto"
) -> str:
    """Build the kernels that `solve` takes for problems like this one, and wait for them; says which engine that is."""
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
    """Refuse a name that no problem could be solved by."""
    if name not in CLASSICAL and name != SURE:
        load(name)


def iterate(problem: Problem, optimizer: Optimizer[S], state: S, steps: int, *, engine: str = "auto") -> Iterator[S]:
    """The states after 1, 2, ..., `steps` further steps, by an engine as in `solve`.

    Where gradients are enabled they flow, through plain steps.
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
    """Run `optimizer`, or the pretrained one of that name, until each certificate is below `tol` (`StoppingRule`).

    Without an optimizer, `default_optimizer` chooses, unless no iterations are needed. On a CPU, where none of x0,
    `record`, `step_size`, `generator`, `polish=False` and a `max_iter` below 1,000 is asked for, least squares or a
    logistic loss, with a separable penalty, is solved on working sets by the kernels (`sureprox.support.working_set`);
    where there are none, and no `callback`, a LASSO problem of at most 48 coordinates by following its path
    (`sureprox.support.path`). The points are judged as all others are; what is not solved so goes on with the
    optimizer, from the point that was found.

    `certify=True`: FISTA and restarted FISTA run beside the optimizer and the best point seen is returned, so that
    F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2 for k >= 1, whatever the optimizer does (`Certified`).
    `certify="audit"`: one gradient for each iteration; the optimizer runs alone, and FISTA has a turn only where an
    audit finds no proof that the optimizer keeps up with it; the same with (k/6)^2, for k >= 20 (`Audited`). By default
    ("auto") the one of these two that is the quicker for this form of problem: True where kernels let the tracks share
    each read of A, else "audit"; `Solution.guarantee` says which. `certify="cheap"`: the same with (k // 10 + 1)^2, for
    k >= 10, one method at a time. `certify=False`: the optimizer alone, without a guarantee. In the guaranteed modes an
    instance on which float32 moves by rounding only before the tolerance is reached is finished in float64.

    Certificates are evaluated in float64 at the start, every `check_every` iterations (every iteration if anything
    is recorded) and at the end; an instance stops at the first check that it passes, and finished instances are
    dropped from the batch once they make up half of it. `record` names what to keep for every iteration:
    "objective", "gap", "kkt", "step_norm" (|x_k - x_{k-1}|).

    `floor`: duality gaps are judged against no less than this part of F at the origin (`StoppingRule`); by default
    against F* however small it is, down to the part `tol`.

    `differentiable`: let gradients flow to x. By default they do if the data or x0 require them. Where an instance of
    a loss of this package with a dense A and a separable penalty has converged, they are those of its solution, by the
    implicit function theorem (`sureprox.solve.implicit`), and none reaches x0; elsewhere those of the iterations of
    the track that found x, with 1/L a constant. With True and data that require none they reach the optimizer's
    weights through the iterations (a thousand of these do not fit in memory; training uses `iterate`), but not weights
    that `solve` has loaded itself by name. "implicit": nothing of the iterations is kept, so that memory does not
    depend on their number, and x has the derivatives of the solution with respect to all numbers of the loss and the
    penalty, for every loss of this package with a dense A and every separable penalty. `Solution.derivative_error`
    estimates how good they are, from the gap; it is infinite, and one warning is issued, where the kinks and bounds
    that the solution is at are not certified.

    `engine`: what takes the steps and computes L, certificates and polished points. "auto": kernels where they exist
    for this form of problem; if they are not built yet they are built meanwhile, and this solve is plain. "kernels":
    the same, but it waits for them to be built. "plain": single operations of PyTorch, the specification. "compiled":
    kernels, and what they leave by `torch.compile`, which takes up to a minute once for each kind of problem.
    `Solution.engine` says what ran. `compile=True` is the former name of "compiled".

    `polish`: at a check, an instance of a LASSO problem is tried with the point that solves it if its support is nearly
    right, a few small linear systems in float64 (`sureprox.support.newton`), and ends there if the certificate of that
    point passes; if not, the point is still the answer to an instance that ends unsolved, provided that nothing lower
    was seen. So iterations are saved, most of all those that float32 would have to be left for. With `certify=False`
    this has to be asked for (True); with `record` and with gradients nothing is polished. Pass False to count the
    iterations that the optimizer itself needs.

    `rigorous`: `Solution.gap` bounds F(x) - F* also with the rounding errors of its own evaluation, for the numbers in
    memory (`sureprox.problems.rigorous`), and "converged" is judged by it. For least squares and logistic losses with
    a separable penalty, and a dense or sparse A.
    """
    arguments = dict(locals())
    require_problem(problem)
    check_options(optimizer, max_iter, tol, record, check_every, floor)
    check_calls(generator=generator, callback=callback)
    check_differentiable(differentiable)
    check_switches(polish=polish, compile=compile, rigorous=rigorous)
    check_certify(certify)
    if compile is not None:
        warnings.warn("compile is now engine: pass engine='compiled'", DeprecationWarning, stacklevel=2)
        engine = "compiled" if compile else engine
    if differentiable == IMPLICIT:
        require_derivatives(problem)
        return with_derivatives(solved_without_graph(solve, arguments), problem, x0)
    if rigorous:
        require_rigorous(problem)
        found = solve(**arguments | {"tol": STRICTER * tol, "rigorous": False})
        return screened(problem, with_rigorous_gap(found, problem, x0, tol, floor))
    assert not isinstance(differentiable, str)
    free = optimizer is None and certify and not record and max_iter >= ENOUGH
    free = free and all(given is None for given in (x0, step_size, generator))
    if free and polish is not False and not differentiable:
        form = form_of(problem)
        operations = PLAIN if form.differentiable and torch.is_grad_enabled() else at_once(form, engine)
        if operations.solved is not None:
            first = solved_at_once(problem, operations, tol, floor)
            if not len(first.left):
                return first.solution
            options: dict[str, Any] = {"max_iter": max_iter, "tol": tol, "certify": certify, "check_every": check_every}
            options |= {"callback": callback, "floor": floor, "engine": engine, "polish": polish}
            options |= {"differentiable": differentiable}
            begin = first.solution.x[first.left].to(problem.dtype)
            return screened(problem, first.finished(solve(problem.select(first.left), None, begin, **options)))
    optimizer = _chosen(problem, optimizer)
    given, start = x0 is not None, problem.start(x0)
    require_shapes(problem, start)
    if differentiable is None:
        differentiable = torch.is_grad_enabled() and (problem.requires_grad or start.requires_grad)
    chosen = plan(problem, optimizer, certify, engine, differentiable)
    every, entries = 1 if record else check_every, sparse_entries(problem)
    threads = few_threads(chosen.form, problem.batch, chosen.operations, optimizer, entries)
    with torch.set_grad_enabled(differentiable), threads, chosen.stepping() as stepping:
        state, by_gap = None, judged_by_gap(problem)
        if problem.device.type == "cuda" and max_iter:  # first what takes long: all that follows need not wait for it
            state = stepping.init(problem, trusted(start.clone()), generator=generator, step_size=step_size)
        rule = StoppingRule(problem, start if given else None, tol, floor, chosen.operations, by_gap)
        wanted = certify is not False if polish is None else polish
        ends = wanted and not record and not differentiable and can_polish(chosen.form)
        points = 3 if chosen.certify is True else 1  # in an iteration, two products with A for each
        polishing = Polish(problem, 2 * points) if ends else None
        run = Run(
            problem, stepping, start, rule.start, int(max_iter), rule, tuple(record), polishing, chosen.operations
        )
        del rule.start  # its gradient is as large as x
        if free and callback is None and not differentiable and has_short_path(chosen.form):
            everyone = torch.arange(problem.batch)
            run.take(everyone, followed_path(problem), rule, ~run.done, Track.PATH)
        run.finish(generator, step_size, every, callback, state)
    solution = run.solution(chosen.engine, chosen.guarantee)
    if bool(run.stalled.any()):
        finer = plan(rule.problem, optimizer, certify, engine, differentiable)
        threads = few_threads(finer.form, rule.problem.batch, finer.operations, optimizer, entries)
        with torch.set_grad_enabled(differentiable), threads, finer.stepping() as stepping:
            more = run.in_float64(stepping, finer.operations)
            more.finish(generator, more.step_size, every, callback)
        solution = solution.finished_by(more.solution(finer.engine, finer.guarantee), run.stalled)
    by_data = differentiable and (problem.requires_grad or start.requires_grad)
    solution = screened(problem, replace(solution, grid=problem.grid))
    return differentiated(solution, rule, start) if by_data else solution


def screened(problem: Problem, solution: Solution) -> Solution:
    """`solution` with what proves its supports."""
    return replace(solution, screening=Screening(problem, solution.x, solution.gap))
