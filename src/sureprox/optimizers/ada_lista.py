"""Ada-LISTA: ISTA unrolled into layers, with learned steps, thresholds and weight matrices (made for LASSO)."""

from dataclasses import replace
from typing import Any

import torch
from torch import Generator, Tensor, nn

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.base.words import require_whole
from sureprox.optimizers.base import State
from sureprox.optimizers.black_box import unused_step_size
from sureprox.optimizers.learned import LearnedOptimizer
from sureprox.problems import Problem
from sureprox.problems.forms import Loss, Shape, dense, loss_of, shape_of
from sureprox.problems.operators.dense import Dense
from sureprox.problems.separable import soft_threshold


class AdaLISTA(LearnedOptimizer[State]):
    """x+ = soft(x - s_k A' W1' W1 A x + s_k A' W2 b, theta_k), W1 and W2 of shape (m, m).

    Step k uses layer min(k, layers - 1): after the last layer, the last one is repeated. The thresholds stand for
    lam / L; lam itself does not enter. Before training, W1 = W2 = I and it is ISTA with step 0.15 and lam = 0.1.

    `labels=True` is for logistic problems: b is then the vector of labels y, and nothing else is different. That is
    how the authors' released code runs it on them; it minimises another function, unless it learns not to.
    """

    uses_lipschitz = False
    kind = "ada-lista"

    def __init__(
        self, m: int, layers: int = 10, *, step: float = 0.15, threshold: float = 0.015, labels: bool = False
    ) -> None:
        super().__init__()
        for name, value in (("m", m), ("layers", layers)):
            require_whole(name, value, 1)
        for name, number in (("step", step), ("threshold", threshold)):
            if not 0 < number < float("inf"):
                raise InputError(f"{name} is {number}; it must be finite and > 0")
        self.m = m
        self.layers = layers
        self.step_before, self.threshold_before = float(step), float(threshold)
        self.labels = bool(labels)
        self.W1 = nn.Parameter(torch.eye(m))
        self.W2 = nn.Parameter(torch.eye(m))
        self.step_sizes = nn.ParameterList([nn.Parameter(torch.tensor(step)) for _ in range(layers)])
        self.thresholds = nn.ParameterList([nn.Parameter(torch.tensor(threshold)) for _ in range(layers)])

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "m": self.m,
            "layers": self.layers,
            "step": self.step_before,
            "threshold": self.threshold_before,
            "labels": self.labels,
        }

    def released_names(self) -> dict[str, str]:
        return {name: name for name, _ in self.named_parameters()}

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> State:
        self.check_device(problem)
        self._data(problem)
        return State(x=problem.start(x0), k=0, step_size=unused_step_size(problem, step_size))

    def step(self, problem: Problem, state: State) -> State:
        linear, b = self._data(problem)
        layer = min(state.k, self.layers - 1)
        dtype = state.x.dtype
        W1, W2 = self.W1.to(dtype), self.W2.to(dtype)
        y = problem.centred(state.x)
        pull = linear.forward(y) @ (W1.mT @ W1) - b @ W2.mT  # W1'W1 is symmetric
        moved = y - self.step_sizes[layer].to(dtype) * linear.adjoint(pull)
        shrunk = soft_threshold(moved, self.thresholds[layer].to(dtype))
        return replace(state, x=problem.uncentred(shrunk), k=state.k + 1)

    def _data(self, problem: Problem) -> tuple[Dense, Tensor]:
        """A and b, or A and the labels."""
        loss = loss_of(problem)
        suits = loss is (Loss.LOGISTIC if self.labels else Loss.SQUARES)
        A, b = dense(problem) if suits else (None, None)
        lasso = shape_of(problem) is Shape.L1
        if A is None or b is None or A.shape[-2] != self.m or not lasso:
            got = type(problem.f).__name__ + ("" if A is None else f" with {A.shape[-2]} rows")
            got += " with weights or an offset" if loss is Loss.WEIGHTED_SQUARES else ""
            got += "" if lasso else f" + {type(problem.r).__name__}"
            what = "logistic problems" if self.labels else "LASSO"
            raise InputError(f"this AdaLISTA solves {what} with {self.m} rows, got {got}; build AdaLISTA(m) to fit")
        return Dense.of(A), b
