"""The stages of a solve: at once where no optimizer is needed, else by the loop, in float64 where float32 stalls."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.defaults import ENOUGH
from sureprox.guarantee import Track
from sureprox.kernels.runtime.sharing import few_threads
from sureprox.optimizers import Optimizer
from sureprox.problems import Problem
from sureprox.problems.checks import trusted
from sureprox.problems.forms import form_of, sparse_entries
from sureprox.problems.trial import require_shapes
from sureprox.solve.at_once import AtOnce, solved_at_once
from sureprox.solve.implicit import differentiated
from sureprox.solve.loop import Run
from sureprox.solve.plan import Plan, at_once, plan
from sureprox.solve.solution import Progress, Solution
from sureprox.solve.stopping import StoppingRule, judged_by_gap
from sureprox.support.newton import Polish, can_polish
from sureprox.support.path import followed_path, has_short_path
from sureprox.support.screening import Screening


@dataclass(frozen=True)
class Wanted:
    """The options of `solve`, checked."""

    optimizer: Optimizer[Any] | str | None
    x0: Any
    max_iter: int
    tol: float
    certify: bool | str
    record: tuple[str, ...]
    generator: torch.Generator | None
    step_size: Any
    check_every: int
    callback: Callable[[Progress], None] | None
    differentiable: bool | None
    floor: float | None
    engine: str
    polish: bool | None

    @property
    def any_method(self) -> bool:
        """Whether no option asks for iterations."""
        options = (self.optimizer, self.x0, self.step_size, self.generator)
        free = self.certify and not self.record and self.max_iter >= ENOUGH and not self.differentiable
        return bool(free) and all(option is None for option in options)


def tried_at_once(problem: Problem, wanted: Wanted) -> AtOnce | None:
    """Solve without an optimizer; None where that is not possible, or an option asks for iterations."""
    form = form_of(problem)
    if not wanted.any_method or wanted.polish is False or (torch.is_grad_enabled() and form.differentiable):
        return None
    operations = at_once(form, wanted.engine)
    return None if operations.solved is None else solved_at_once(problem, operations, wanted.tol, wanted.floor)


def iterated(problem: Problem, optimizer: Optimizer[Any], wanted: Wanted) -> Solution:
    """The solution by `optimizer`; instances that float32 cannot solve go on in float64."""
    start = problem.start(wanted.x0)
    require_shapes(problem, start)
    has_graph = problem.requires_grad or start.requires_grad
    if wanted.differentiable is None:
        wanted = replace(wanted, differentiable=torch.is_grad_enabled() and has_graph)
    chosen = plan(problem, optimizer, wanted.certify, wanted.engine, bool(wanted.differentiable))
    with _stepping(chosen, problem, wanted) as stepping:
        run = _run(problem, chosen, stepping, start, wanted)
    solution = run.solution(chosen.engine, chosen.guarantee)
    if bool(run.stalled.any()):
        solution = solution.finished_by(_in_float64(run, optimizer, wanted), run.stalled)
    solution = screened(problem, replace(solution, grid=problem.grid))
    return differentiated(solution, run.rule, start) if wanted.differentiable and has_graph else solution


def screened(problem: Problem, solution: Solution) -> Solution:
    """`solution` with what proves which of its coordinates are zero."""
    return replace(solution, screening=Screening(problem, solution.x, solution.gap))


@contextmanager
def _stepping(chosen: Plan, problem: Problem, wanted: Wanted) -> Iterator[Optimizer[Any]]:
    """Lend what takes the steps of a run, with gradients and threads set for it."""
    entries = sparse_entries(problem)
    threads = few_threads(chosen.form, problem.batch, chosen.operations, chosen.optimizer, entries)
    with torch.set_grad_enabled(bool(wanted.differentiable)), threads, chosen.stepping() as stepping:
        yield stepping


def _run(problem: Problem, chosen: Plan, stepping: Optimizer[Any], start: Tensor, wanted: Wanted) -> Run:
    """A run from `start` to its end, in the precision of the problem."""
    state, by_gap = None, judged_by_gap(problem)
    if problem.device.type == "cuda" and wanted.max_iter:  # first what takes long: the rest need not wait for it
        state = stepping.init(problem, trusted(start.clone()), generator=wanted.generator, step_size=wanted.step_size)
    x0, operations = None if wanted.x0 is None else start, chosen.operations
    rule = StoppingRule(problem, x0, wanted.tol, wanted.floor, operations, by_gap)
    polish, limit = _polish(problem, chosen, wanted), int(wanted.max_iter)
    run = Run(problem, stepping, start, rule.start, limit, rule, tuple(wanted.record), polish, operations)
    del rule.start  # its gradient is as large as x
    if wanted.any_method and wanted.callback is None and has_short_path(chosen.form):
        run.take(torch.arange(problem.batch), followed_path(problem), rule, ~run.done, Track.PATH)
    run.finish(wanted.generator, wanted.step_size, 1 if wanted.record else wanted.check_every, wanted.callback, state)
    return run


def _polish(problem: Problem, chosen: Plan, wanted: Wanted) -> Polish | None:
    asked = wanted.certify is not False if wanted.polish is None else wanted.polish
    if not asked or wanted.record or wanted.differentiable or not can_polish(chosen.form):
        return None
    points = 3 if chosen.certify is True else 1  # in an iteration, two products with A for each
    return Polish(problem, 2 * points)


def _in_float64(run: Run, optimizer: Optimizer[Any], wanted: Wanted) -> Solution:
    """The instances on which `run` stalled, from where it left them."""
    problem = run.rule.problem
    finer = plan(problem, optimizer, wanted.certify, wanted.engine, bool(wanted.differentiable))
    with _stepping(finer, problem, wanted) as stepping:
        more = run.in_float64(stepping, finer.operations)
        more.finish(wanted.generator, more.step_size, 1 if wanted.record else wanted.check_every, wanted.callback)
    return more.solution(finer.engine, finer.guarantee)
