"""Training runs small enough for tests, families and optimizers that misbehave, and what a run has left behind."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import LearnedOptimizer, Optimizer, State
from sureprox.optimizers.base import Seen
from sureprox.optimizers.kinds import build
from sureprox.problems import LeastSquares, Problem
from sureprox.sources import LassoFamily, LogisticFamily
from sureprox.training import LayerwiseConfig, Recipe, TrainingConfig
from sureprox.training.checkpoint import Checkpoint
from sureprox.training.unrolled import UnrolledRun

CPU = torch.device("cpu")
LASSO = LassoFamily(m=6, n=8, nonzeros=2)
LOGISTIC = LogisticFamily(m=10, n=6, nonzeros=2, lam=0.01)
LSTM_KINDS = ("go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop")


def small_config(**changes: Any) -> TrainingConfig:
    """12 batches of two segments, a validation every 4 and a checkpoint every 3."""
    base = TrainingConfig(
        segment=2, length=4, batch=3, batches=6, epochs=2, validate_every=4, validation=4, checkpoint_every=3
    )
    return replace(base, **changes)


def layerwise_config(**changes: Any) -> LayerwiseConfig:
    """2 layers x 3 stages x 3 updates: 18 batches."""
    base = LayerwiseConfig(layers=2, steps=3, batch=4, pool=2, validate_every=5, validation=4, checkpoint_every=4)
    return replace(base, **changes)


def network(kind: str = "go-math-l2o", seed: int = 0, **arguments: Any) -> LearnedOptimizer:
    """A small optimizer whose first weights depend on `seed` alone."""
    sizes = {"m": LASSO.m, "layers": 2} if kind == "ada-lista" else {"hidden": 4, "layers": 1}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build(kind, sizes | arguments)


def unrolled_run(optimizer: LearnedOptimizer, family: Any, config: TrainingConfig, *listeners: Any) -> UnrolledRun:
    """The run behind `train`, without files, for tests that look inside."""
    recipe = Recipe(optimizer.kind, optimizer.arguments, family, config)
    return UnrolledRun("plain", recipe, optimizer, CPU, None, list(listeners), False)


def weights_of(optimizer: LearnedOptimizer) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in optimizer.named_parameters()}


def bitwise(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def changed(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> set[str]:
    return {name for name in before if not torch.equal(before[name], after[name])}


def flat(tensors: Any) -> Tensor:
    return torch.cat([value.reshape(-1) for value in tensors])


def timeless(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Events without their times, and without "start", which every resumption says again."""
    return [{k: v for k, v in event.items() if k != "seconds"} for event in events if event["event"] != "start"]


def of_kind(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["event"] == kind]


def strict_lines(path: Path) -> list[dict[str, Any]]:
    """Every line of a log, read by a parser that refuses NaN and Infinity."""

    def refuse(token: str) -> None:
        raise AssertionError(f"{token} is not JSON")

    text = path.read_text()
    assert text.endswith("\n")
    return [json.loads(line, parse_constant=refuse) for line in text.splitlines()]


def left_behind(out: Path, recipe: Recipe) -> tuple[dict[str, Tensor], dict[str, Tensor], dict[str, Tensor], Tensor]:
    """Weights, best weights, momentum and generator of the checkpoint in `out`."""
    found = Checkpoint.load(out / "checkpoint.pt", recipe.as_dict())
    return found.weights, found.best_weights, found.meta, found.generator


class Poisoned:
    """A family of the user's own (no dataclass, no name) whose samples number `bad` have a b that is not a number.

    Sample 0 is the validation set, sample k the batch k.
    """

    def __init__(self, *bad: int) -> None:
        self.bad = bad
        self.count = 0
        self.n = LASSO.n

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        problem = LASSO.sample(batch, generator, dtype)
        if self.count in self.bad:
            assert isinstance(problem.f, LeastSquares)
            b = problem.f.b.clone()
            b[0, 0] = torch.nan
            problem = Problem(LeastSquares.trusted(A=problem.f.A, b=b), problem.r)
        self.count += 1
        return problem

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        return LASSO.start(batch, generator, dtype)


class _NaNBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * torch.nan


class Misbehaving(Optimizer[State]):
    """`inner`, whose step number `at` (from 0) does what `how` says: "nan", "gradient" (backwards only) or "grows"."""

    def __init__(self, inner: Optimizer[Any], at: int, how: str) -> None:
        self.inner, self.at, self.how = inner, at, how

    def init(self, problem: Problem, x0: Tensor, **options: Any) -> State:
        return self.inner.init(problem, x0, **options)

    def move(self, problem: Problem, state: State, seen: Seen) -> State:
        after = self.inner.move(problem, state, seen)
        if state.k != self.at:
            return after
        change = {"nan": lambda x: x * torch.nan, "gradient": _NaNBackward.apply, "grows": lambda x: x + 1e6}[self.how]
        return replace(after, x=change(after.x))
