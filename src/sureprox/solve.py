"""`solve`: stopping, certificates, status and history around the one loop of the project."""

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sureprox.backends import Accelerated
from sureprox.errors import InputError
from sureprox.optimizers import FISTA, Certified, CertifiedCheap, Optimizer, Track, load
from sureprox.optimizers.weights import PRETRAINED, locate, stamp
from sureprox.path import followed_path, has_short_path
from sureprox.polish import Polish, can_polish
from sureprox.problems import L1, LeastSquares, Logistic, Problem
from sureprox.problems.checks import trusted
from sureprox.run import Run, iterate
from sureprox.solution import RECORDS, Progress, Solution, Status
from sureprox.stopping import StoppingRule

__all__ = ["Progress", "Solution", "Status", "default_optimizer", "iterate", "solve"]

MAX_ITER = 1000
LARGEST = 2**63 - 1  # iterations that can be counted
LOADED = 64  # optimizers by name or path that are kept in memory

MOST_COMPILED = 16  # optimizers whose compiled steps are kept; each keeps its weights too
_compiled: OrderedDict[tuple[int, bool | str], tuple[Optimizer[Any], Accelerated[Any]]] = OrderedDict()  # by identity


def default_optimizer(problem: Problem) -> Optimizer[Any]:
    """What `solve` runs on this problem when no optimizer is named.

    Sure for LASSO and L1-logistic problems, with the weights for their family; restarted FISTA for all others.
    """
    family = {LeastSquares: "lasso", Logistic: "logistic"}.get(type(problem.f))
    if family is None or not isinstance(problem.r, L1):
        return FISTA(restart=True)
    return _kept(PRETRAINED / "sure" / family, problem.device)


def _kept(stem: Path, device: torch.device) -> Optimizer[Any]:
    """The optimizer of this path, read again only if its files are others than last time."""
    return _loaded(stem, stamp(stem), device)


@lru_cache(maxsize=LOADED)
def _loaded(stem: Path, stamp: tuple[int, ...], device: torch.device) -> Optimizer[Any]:
    return load(stem, device=device)


def solve(
    problem: Problem,
    optimizer: Optimizer[Any] | str | None = None,
    x0: Any = None,
    max_iter: int = MAX_ITER,
    tol: float = 1e-6,
    certify: bool | str = True,
    record: tuple[str, ...] = (),
    *,
    generator: torch.Generator | None = None,
    step_size: Any = None,
    check_every: int = 10,
    callback: Callable[[Progress], None] | None = None,
    differentiable: bool | None = None,
    floor: float | None = None,
    compile: bool | None = None,
    polish: bool | None = None,
) -> Solution:
    """Run `optimizer`, or the pretrained one of that name, until each certificate is below `tol` (`StoppingRule`).

    Without an optimizer, `default_optimizer` chooses; and a LASSO problem of at most 48 coordinates on a CPU, for which
    none of x0, `record`, `callback`, `step_size`, `generator` and fewer iterations is asked for, is solved without
    iterating, exactly (`sureprox.path`).

    `certify=True`: FISTA and restarted FISTA run beside the optimizer and the best point seen is returned, so that
    F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2 whatever the optimizer does (`Certified`). An instance on which float32
    moves by rounding only before the tolerance is reached is finished in float64. `certify="cheap"`: the same with
    (k // 10 + 1)^2, one method at a time, for CPUs. `certify=False`: the optimizer alone, without a guarantee.

    Certificates are evaluated in float64 at the start, every `check_every` iterations (every iteration if anything
    is recorded) and at the end; an instance stops at the first check that it passes, and finished instances are
    dropped from the batch once they make up half of it. `record` names what to keep for every iteration:
    "objective", "gap", "kkt", "step_norm" (|x_k - x_{k-1}|).

    `floor`: duality gaps are judged against no less than this part of F at the origin (`StoppingRule`); by default
    against F* however small it is, down to the part `tol`.

    `differentiable`: let gradients flow to x, through the path of the track that found it. By default they do if the
    data or x0 require them, not for the sake of the optimizer's weights (a thousand unrolled steps do not fit in
    memory; training uses `iterate`).

    `compile=True`: take the steps in few kernels, and on a GPU replay them without the overhead of Python
    (`Accelerated`). The first solve of a kind of problem then compiles for up to a minute (LASSO by default, on a GPU:
    a few seconds), later ones with the same optimizer or pretrained name do so at once, unless told `compile=False`.
    It pays from thousands of problems on.

    `polish`: at a check, an instance of a LASSO problem is tried with the point that solves it if its support is nearly
    right, a few small linear systems in float64 (`sureprox.polish`), and ends there if the certificate of that point
    passes. So iterations are saved, most of all those that float32 would have to be left for. With
    `certify=False` this has to be asked for (True); with `record` and with gradients nothing is polished. Pass False
    to count the iterations that the optimizer itself needs.
    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem is a {type(problem).__name__}; make one with sureprox.lasso, logistic or Problem")
    check_options(optimizer, max_iter, tol, record, check_every, floor)
    free = optimizer is None and certify and not record and max_iter >= MAX_ITER
    free = free and all(given is None for given in (x0, callback, step_size, generator))
    if optimizer is None:
        optimizer = default_optimizer(problem)
    elif isinstance(optimizer, str):
        optimizer = _kept(locate(optimizer), problem.device)
    given, start = x0 is not None, problem.start(x0)
    if differentiable is None:
        differentiable = torch.is_grad_enabled() and (problem.requires_grad or start.requires_grad)
    optimizer = _prepared(optimizer, certify, compile, differentiable)
    every = 1 if record else check_every
    with torch.set_grad_enabled(differentiable):
        state = None
        if problem.device.type == "cuda" and max_iter:  # first what takes long: all that follows need not wait for it
            state = optimizer.init(problem, trusted(start.clone()), generator=generator, step_size=step_size)
        rule = StoppingRule(problem, start if given else None, tol, floor)
        wanted = certify is not False if polish is None else polish
        ends = wanted and not record and not differentiable and can_polish(problem)
        points = 3 if certify is True else 1  # in an iteration, two products with A for each
        polishing = Polish(problem, 2 * points) if ends else None
        run = Run(problem, optimizer, start, rule.start, int(max_iter), rule, tuple(record), polishing)
        del rule.start  # its gradient is as large as x
        if free and not differentiable and has_short_path(problem):
            everyone = torch.arange(problem.batch)
            run.take(everyone, followed_path(problem), rule, ~run.done, Track.PATH)
        run.finish(generator, step_size, every, callback, state)
        if not bool(run.stalled.any()):
            return run.solution()
        more = run.in_float64()
        more.finish(generator, more.step_size, every, callback)
        return run.solution().finished_by(more.solution(), run.stalled)


def _prepared(
    optimizer: Optimizer[Any], certify: bool | str, compile: bool | None, differentiable: bool
) -> Optimizer[Any]:
    """The optimizer as it will run: with its guarantee, and compiled if that is asked for or was done before."""
    key = id(optimizer), certify  # of an object that is kept, so that no other one can have it
    if compile is False or differentiable or (compile is None and key not in _compiled):
        if compile and differentiable:
            raise InputError("compile is True and differentiable too; compiled steps carry no gradients, choose one")
        return _wrapped(optimizer, certify)
    if key not in _compiled:
        whole = _wrapped(optimizer, certify)
        if isinstance(whole, CertifiedCheap):
            raise InputError("compile is True and certify 'cheap', which decides step by step; pass certify=True")
        _compiled[key] = optimizer, Accelerated(whole)
        if len(_compiled) > MOST_COMPILED:
            _compiled.popitem(last=False)
    _compiled.move_to_end(key)
    return _compiled[key][1]


def _wrapped(optimizer: Optimizer[Any], certify: bool | str) -> Optimizer[Any]:
    if certify is False or isinstance(optimizer, Certified | CertifiedCheap):
        return optimizer
    if certify is True or (certify == "cheap" and type(optimizer) is FISTA):  # FISTA is a track itself
        return Certified(optimizer)
    if certify == "cheap":
        return CertifiedCheap(optimizer)
    raise InputError(f"certify is {certify!r}; pass True, 'cheap' or False")


def check_options(
    optimizer: Any,
    max_iter: int,
    tol: float,
    record: tuple[str, ...] = (),
    check_every: int = 10,
    floor: float | None = None,
) -> None:
    """Refuse what `solve` cannot use, whatever the problem."""
    if not isinstance(optimizer, Optimizer | str | None):
        raise InputError(
            f"optimizer is a {type(optimizer).__name__}; pass one of sureprox.optimizers, e.g. FISTA(), "
            "or a pretrained name"
        )
    if isinstance(max_iter, bool) or not isinstance(max_iter, int | np.integer) or max_iter < 0:
        raise InputError(f"max_iter is {max_iter!r}; it must be a whole number >= 0")
    if max_iter > LARGEST:
        raise InputError(f"max_iter is {max_iter}; it must be at most {LARGEST}, the largest number of 64 bits")
    if not isinstance(tol, int | float | np.floating) or not 0 < tol < float("inf"):
        raise InputError(f"tol is {tol!r}; it must be a number > 0")
    if floor is not None and (not isinstance(floor, int | float | np.floating) or not 0 <= floor < float("inf")):
        raise InputError(f"floor is {floor!r}; it must be a number >= 0, or None")
    if isinstance(check_every, bool) or not isinstance(check_every, int | np.integer) or check_every < 1:
        raise InputError(f"check_every is {check_every!r}; it must be a whole number >= 1")
    if not isinstance(record, tuple | list):
        raise InputError(f"record is {record!r}; pass a tuple of names, for example ('objective',)")
    for name in record:
        if name not in RECORDS:
            raise InputError(f"record has {name!r}; what can be recorded is {', '.join(RECORDS)}")
