"""Records made up for tests, small data sets, and optimizers that diverge."""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.evaluation.datasets import Dataset, Instances, solved
from sureprox.evaluation.figures import FIGURES, FigureSpec
from sureprox.evaluation.records import CurveRecord, FigureRecord
from sureprox.optimizers import ISTA, State
from sureprox.problems import Problem
from sureprox.sources import LassoFamily

CPU = torch.device("cpu")
SMALL = LassoFamily(m=20, n=30, nonzeros=4)


def made_up_curve(optimizer: str, scenario: str, mean: Sequence[float], **changes: Any) -> CurveRecord:
    """A curve whose median and quantiles are its mean."""
    values = tuple(float(value) for value in mean)
    lost = [(k, 4) for k, value in enumerate(values) if value == math.inf][:1]
    record = CurveRecord(
        optimizer=optimizer,
        scenario=scenario,
        settings={},
        weights=None,
        data="made up",
        seed=0,
        instances=4,
        zero_optimum=0,
        precision=1e-13,
        dtype="float32",
        device="CPU",
        date="2026-01-02",
        versions={"sureprox": "0"},
        seconds=1.0,
        steps=len(values) - 1,
        iterations=tuple(range(len(values))),
        mean=values,
        median=values,
        q10=values,
        q90=values,
        nonfinite=tuple(lost),
    )
    return replace(record, **changes)


def falling(k: int, length: int = 1000, start: float = 100.0) -> list[float]:
    """A mean gap that falls geometrically and is 1e-6 after k iterations, never below 1e-13."""
    rate = (1e-6 / start) ** (1 / k)
    return [max(start * rate**i * (1 - 1e-9), 1e-13) for i in range(length + 1)]


def level(value: float, at: int = 10, length: int = 1000, start: float = 100.0) -> list[float]:
    """A mean gap that stays where it is from iteration `at` on."""
    return [start if i < at else value for i in range(length + 1)]


def growing(length: int = 1000) -> list[float]:
    """A mean gap that doubles until it is infinite."""
    return [100 * 2.0**i if i < 300 else math.inf for i in range(length + 1)]


def made_up_figure(
    name: str, means: dict[str, Sequence[float]], absent: Sequence[str] = (), **fixed: Any
) -> FigureRecord:
    """All curves of a figure; `means` by optimizer, or by "optimizer scenario" where they differ."""
    spec: FigureSpec = FIGURES[name]
    curves = []
    for line in spec.lines:
        both = f"{line.optimizer} {line.scenario.name}"
        if line.optimizer not in absent and both not in absent:
            mean = means.get(both, means.get(line.optimizer, means.get("*", falling(200))))
            curves.append(made_up_curve(line.optimizer, line.scenario.name, mean, **fixed))
    return FigureRecord(name, "full", tuple(curves))


def small_dataset(tmp_path: Path, count: int = 5, problem: Problem | None = None) -> Dataset:
    """Small LASSO problems, solved."""
    generator = torch.Generator().manual_seed(3)
    problem = SMALL.sample(count, generator).to(dtype=torch.float64) if problem is None else problem
    start = torch.randn(problem.batch, problem.n, generator=generator).double()
    return solved(Instances("lasso", "a test", problem, start), tmp_path, CPU)


class Exploding(ISTA):
    """ISTA that multiplies the points of the instances in `which` by 1e8 in every step."""

    def __init__(self, which: Sequence[int]) -> None:
        self.which = list(which)

    def step(self, problem: Problem, state: State) -> State:
        after = super().step(problem, state)
        factor: Tensor = torch.ones_like(after.x)
        factor[self.which] = 1e8
        return replace(after, x=after.x * factor + (factor - 1))


def strict(token: str) -> None:
    """For json.loads(parse_constant=strict): NaN and Infinity are not JSON."""
    raise AssertionError(f"{token} is not JSON")
