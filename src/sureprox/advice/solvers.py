"""Our own solvers, as `advise` runs them."""

import time
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from sureprox.optimizers import FISTA, AdaLISTA, Optimizer, load, pretrained, read_card
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, Shape, form_of
from sureprox.solve.solve import Progress, prepare, solve

MOST = 100_000  # iterations; time runs out first


class OutOfTimeError(Exception):
    """A solver that was stopped."""


class Solver(Protocol):
    """Solves a sample of problems."""

    name: str
    batched: bool  # whether many problems at once cost less than one after the other

    @property
    def call(self) -> str:
        """How the user would write it."""
        ...

    def prepare(self, problem: Problem) -> Any:
        """What `run` needs; its time does not count."""
        ...

    def run(self, prepared: Any, deadline: float) -> Tensor:
        """x (B, n); raises `OutOfTimeError` after the deadline, by time.perf_counter."""
        ...

    def tighten(self) -> bool:
        """Ask for more precision the next time; False if that is all there is."""
        ...


class Ours:
    """`sureprox.solve` with one optimizer."""

    batched = True

    def __init__(
        self, name: str, optimizer: Optimizer[Any], shown: str, certify: bool | str, tol: float, engine: str = "auto"
    ) -> None:
        self.name = name
        self.optimizer = optimizer
        self.shown = shown
        self.certify = certify
        self.tol = tol
        self.engine = engine

    @property
    def call(self) -> str:
        engine = "" if self.engine == "auto" else f", engine={self.engine!r}"
        return f"sureprox.solve(problem, {self.shown}, tol={self.tol:g}, certify={self.certify!r}{engine})"

    def prepare(self, problem: Problem) -> Problem:
        prepare(problem, self.optimizer, self.certify, self.engine)
        return problem

    def run(self, prepared: Problem, deadline: float) -> Tensor:
        def watch(seen: Progress) -> None:
            if time.perf_counter() > deadline:
                raise OutOfTimeError

        options: dict[str, Any] = {"tol": self.tol, "certify": self.certify, "engine": self.engine}
        return solve(prepared, self.optimizer, max_iter=MOST, callback=watch, **options).x

    def tighten(self) -> bool:
        return False


def restarted_fista(problem: Problem, tol: float, engine: str = "auto") -> Ours:
    """It needs no other method beside it, except in float32, which may be too coarse: a certified solve goes on.

    And except for an f whose L is only a guess: a certified solve raises it.
    """
    certify = problem.dtype == torch.float32 or problem.f.guesses_curvature
    shown = "sureprox.optimizers.FISTA(restart=True)"
    return Ours("restarted FISTA", FISTA(restart=True), shown, certify, tol, engine)


def learned(name: str, problem: Problem, tol: float, engine: str = "auto") -> Ours:
    """A model, certified: in the cheap way on a CPU, where the other methods cost time of their own."""
    certify = "cheap" if problem.device.type == "cpu" else True
    return Ours(name, load(name, problem.device), repr(name), certify, tol, engine)


def suitable(problem: Problem) -> Sequence[str]:
    """The pretrained optimizers for this kind of problem; of the paper's variants (KIND/lasso-...) none."""
    form = form_of(problem)
    kind = {Loss.SQUARES: "lasso", Loss.LOGISTIC: "logistic"}.get(form.loss)
    if kind is None or form.penalty in (Shape.SEPARABLE, Shape.GROUPS, Shape.BALLS):
        return []
    found = []
    for name in pretrained():
        card = read_card(name)
        fits = kind in str(card.family.get("name", ""))
        rows = card.arguments.get("m", form.m) if card.optimizer == AdaLISTA.kind else form.m
        variant = "-" in name.rpartition("/")[2] and card.optimizer != "sure"
        if fits and not variant and rows == form.m:
            found.append(name)
    return found
