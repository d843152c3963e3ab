"""Learned step sizes (LAH) and learned step sizes with momentum (LAH Accel), trained progressively on a few instances.

Sambharya and Stellato, "Learning algorithm hyperparameters for fast parametric convex optimization" (2024); Sambharya,
Bok, Matni and Pappas, "Learning acceleration algorithms for fast parametric convex optimization with certified
robustness" (2025), here without its regulariser, which costs speed. a_k = exp(theta_k) starts at 1 (in units of 1/L),
b_k = exp(eta_k) at FISTA's momentum. Ten steps at a time, each ten from where the ones before have led, by 200 steps of
Adam on the loss after the last of them; of what Adam meets, the best on the instances to choose by is kept (their code
keeps the last, which can blow up on other instances). After the schedule: LAH a constant step, trained too, LAH Accel
FISTA's steps.
"""

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import StepSchedule
from sureprox.optimizers.base import Seen
from sureprox.problems import Problem
from sureprox.solve.reference import Reference

from _rival_setups import solved

WINDOW, EPOCHS = 10, 200
LOOK = 8  # epochs between two looks at the instances to choose by
RATES = (0.1, 0.03)  # of Adam; theirs is 0.1
LOSSES = ("value", "distance")  # F(x) - F* or |x - x*|^2; theirs are both, by method


class Safeguarded(StepSchedule):
    """x+ = prox_{r/L}(x - grad f(x)/L) in place of a step that raises F: their guard of schedules without momentum."""

    def move(self, problem: Problem, state: Any, seen: Seen) -> Any:
        after = super().move(problem, state, seen)
        short = problem.descended(state.y, seen.grad, state.step_size.unsqueeze(1))
        x = torch.where((problem.objective(after.x) > problem.objective(state.x)).unsqueeze(1), short, after.x)
        return after.changed(x=x, y=x)


@dataclass
class Learned:
    """log steps, log momenta (None: no momentum) and the logit of last / 2."""

    steps: Tensor
    momenta: Tensor | None
    last: Tensor = field(default_factory=lambda: torch.zeros((), dtype=torch.float64))

    def schedule(self) -> StepSchedule:
        momenta = None if self.momenta is None else self.momenta.exp()
        kind = Safeguarded if momenta is None else StepSchedule
        return kind(self.steps.exp(), momenta, 2 * torch.sigmoid(self.last))


def begun(horizon: int, momentum: bool) -> Learned:
    """FISTA, or ISTA."""
    t, momenta = 1.0, []
    for _ in range(horizon):
        following = (1 + (1 + 4 * t * t) ** 0.5) / 2
        momenta.append(max((t - 1) / following, 1e-2))  # a logarithm cannot start at 0
        t = following
    steps = torch.zeros(horizon, dtype=torch.float64)
    return Learned(steps, torch.tensor(momenta, dtype=torch.float64).log() if momentum else None)


@dataclass(frozen=True)
class Course:
    """Where a schedule has led to on some problems, and what it should reach."""

    problem: Problem
    best: Reference
    state: Any

    def walked(self, schedule: StepSchedule) -> Any:
        """The state after WINDOW steps."""
        state = self.state
        for _ in range(WINDOW):
            state = schedule.step(self.problem, state)
        return state

    def loss(self, schedule: StepSchedule, kind: str) -> Tensor:
        x = self.walked(schedule).x
        if kind == "value":
            return (self.problem.objective(x) - self.best.objective).mean()
        return (x - self.best.x).square().sum(1).mean()

    def ahead(self, schedule: StepSchedule) -> "Course":
        with torch.no_grad():
            return replace(self, state=self.walked(schedule))


def course(problem: Problem) -> Course:
    return Course(problem, solved(problem), StepSchedule([1.0]).init(problem, problem.start()))


def train_schedule(
    train: Course, validation: Course, horizon: int, momentum: bool, rate: float, loss: str
) -> tuple[StepSchedule, float]:
    """A schedule, and the mean of F - F* that it ends with on `validation`."""
    learned = begun(horizon, momentum)
    for first in range(0, horizon, WINDOW):
        window = slice(first, first + WINDOW)
        parts = [learned.steps] if learned.momenta is None else [learned.steps, learned.momenta]
        free = [part[window].clone() for part in parts]

        def made(free: list[Tensor], window: slice = window, parts: list[Tensor] = parts) -> StepSchedule:
            whole = [
                part.slice_scatter(value, 0, window.start, window.stop) for part, value in zip(parts, free, strict=True)
            ]
            return Learned(whole[0], whole[1] if momentum else None).schedule()

        for part, value in zip(parts, descended(free, made, train, validation, rate, loss), strict=True):
            part[window] = value
        schedule = learned.schedule()
        train, validation = train.ahead(schedule), validation.ahead(schedule)
    end = float((validation.problem.objective(validation.state.x) - validation.best.objective).mean())
    if not momentum:
        (learned.last,) = descended(
            [learned.last],
            lambda free: Learned(learned.steps, None, free[0]).schedule(),
            train,
            validation,
            rate,
            loss,
        )
    return learned.schedule(), end


def descended(
    free: list[Tensor],
    made: Callable[[list[Tensor]], StepSchedule],
    train: Course,
    validation: Course,
    rate: float,
    loss: str,
) -> list[Tensor]:
    """Adam on the loss of `train`; of the values it meets those with the smallest F - F* on `validation`."""
    free = [value.clone().requires_grad_() for value in free]
    adam = torch.optim.Adam(free, lr=rate)
    lowest, found = float("inf"), free
    for epoch in range(EPOCHS + 1):
        if epoch % LOOK == 0:
            with torch.no_grad():
                here = float(validation.loss(made(free), "value"))
            if here < lowest:
                lowest, found = here, [value.detach().clone() for value in free]
        adam.zero_grad()
        train.loss(made(free), loss).backward()
        adam.step()
    return found


def chosen_schedule(
    train: Problem,
    validation: Problem,
    horizon: int,
    momentum: bool,
    rates: tuple[float, ...] = RATES,
    losses: tuple[str, ...] = LOSSES,
) -> tuple[StepSchedule, dict[str, Any]]:
    """The best of all rates and losses by where it ends on `validation`, and its facts."""
    begin, check = course(train), course(validation)
    trials = []
    for rate, loss in itertools.product(rates, losses):
        schedule, end = train_schedule(begin, check, horizon, momentum, rate, loss)
        trials.append((end, {"rate": rate, "loss": loss, "validation": end}, schedule))
    _, facts, schedule = min(trials, key=lambda trial: trial[0])
    facts |= {"steps": schedule.steps.tolist(), "last": float(schedule.last)}
    facts |= {"momenta": None if schedule.momenta is None else schedule.momenta.tolist()}
    return schedule, facts
