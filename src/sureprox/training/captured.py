"""The fast path on a GPU: a whole segment, forward, backward and update, as one CUDA graph."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.backends import Compiled
from sureprox.backends.compiled import tensor_fields
from sureprox.optimizers import LearnedOptimizer, State
from sureprox.problems import Problem
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import Course, meta_gradients

WARM_UP = 3


class CapturedSegments:
    """Same numbers as `PlainSegments`, from a graph captured once and replayed for every segment.

    The graph reads and writes fixed memory: each batch of problems is copied over the first one, and the state after a
    segment over the state before it. The smoothness constants come from a second graph.
    """

    def __init__(
        self, optimizer: LearnedOptimizer[Any], meta: MetaAdam, weights: Sequence[float], mode: str | None = None
    ) -> None:
        self.plain = optimizer
        self.optimizer = Compiled(optimizer, mode=mode)
        self.meta = meta
        self.weights = list(weights)
        self.graph: torch.cuda.CUDAGraph | None = None

    def run(self, problem: Problem, x0: Tensor, count: int, **options: Any) -> Tensor:
        """(count, 3): what `Course.learn` says of each segment."""
        if self.graph is None:
            self._capture(problem, x0, options)
        assert self.graph is not None
        for ours, theirs in zip(self.problem.tensors(), problem.tensors(), strict=True):
            ours.copy_(theirs)
        self.constants.replay()
        state = self.plain.init(self.problem, x0, step_size=self.step_size, **options)
        for name in self.names:
            getattr(self.state, name).copy_(getattr(state, name))
        self.course.begin(self.problem, x0)
        rows = []
        for _ in range(count):
            self.graph.replay()
            rows.append(self.outcome.clone())
        return torch.stack(rows)

    def _capture(self, problem: Problem, x0: Tensor, options: dict[str, Any]) -> None:
        """Warm up on a side stream (this compiles), put the weights back as they were, then record the graphs."""
        generator = options.get("generator")
        random = generator.get_state() if generator is not None else None
        self.problem = problem.select(torch.arange(problem.batch, device=problem.device))  # memory of our own
        state = self.plain.init(self.problem, x0, **options)
        self.names = tensor_fields(state)
        self.state: State = replace(state, **{name: getattr(state, name).clone() for name in self.names})
        self.course = Course(problem.device)
        self.course.begin(self.problem, x0)
        before = self.meta.weights(), self.meta.state()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(WARM_UP):
                self.step_size = self.problem.step_size()
                self._segment()
        torch.cuda.current_stream().wait_stream(stream)
        self.constants = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.constants):
            self.step_size = self.problem.step_size()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.outcome = self._segment()
        self.meta.put(before[0])
        self.meta.load(before[1])
        if generator is not None and random is not None:
            generator.set_state(random)

    def _segment(self) -> Tensor:
        loss, gradients, after = meta_gradients(
            self.problem, self.optimizer, self.state, self.weights, self.meta.parameters
        )
        outcome = self.course.learn(self.meta, loss, gradients)
        for name in self.names:
            getattr(self.state, name).copy_(getattr(after, name))
        return outcome
