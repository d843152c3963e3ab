"""The fast path on a GPU: a whole segment, forward, backward and update, as one CUDA graph."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from sureprox.guarantee.planned import estimated_step
from sureprox.kernels import Compiled, can_fuse, fused
from sureprox.kernels.runtime.compiled import tensor_fields
from sureprox.optimizers import FISTA, LearnedOptimizer, State
from sureprox.problems import Problem
from sureprox.solve.plan import plan
from sureprox.training.meta import MetaAdam
from sureprox.training.segment import Course, Start, meta_gradients
from sureprox.training.share import Share, unpack
from sureprox.training.team import Team

T = TypeVar("T")
WARM_UP = 3


def capture(work: Callable[[], T]) -> tuple[torch.cuda.CUDAGraph, T]:
    """Run `work` a few times on a side stream (this compiles), then record it: the graph, and what it writes to."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    # in a team NCCL has a thread of its own that asks the device how far it is, which must not spoil the recording
    together = torch.distributed.is_available() and torch.distributed.is_initialized()
    with torch.cuda.graph(graph, capture_error_mode="thread_local" if together else "global"):
        result = work()
    return graph, result


class CapturedUpdate:
    """learn(means over the batch of what compute() gives), as one graph, or in a team two with the exchange between."""

    def __init__(
        self, share: Share, compute: Callable[[], list[Tensor]], learn: Callable[[list[Tensor]], Tensor]
    ) -> None:
        self.share = share
        self.update: torch.cuda.CUDAGraph | None = None
        if share.team.alone:
            self.graph, self.outcome = capture(lambda: learn(compute()))
            return
        self.graph, (self.message, like) = capture(lambda: _message(share, compute()))
        self.update, self.outcome = capture(lambda: learn(unpack(self.message, like)))

    def replay(self) -> Tensor:
        """What `learn` says, in memory that the next replay writes to again."""
        self.graph.replay()
        if self.update is not None:
            self.share.team.sum_(self.message)
            self.update.replay()
        return self.outcome


def _message(share: Share, means: list[Tensor]) -> tuple[Tensor, list[Tensor]]:
    return share.pack(means), means


class CapturedSegments:
    """Same numbers as `PlainSegments`, from a graph captured once and replayed for every segment.

    The graph reads and writes fixed memory: each batch of problems is copied over the first one, and the state after a
    segment over the state before it. The smoothness constants come from a second graph, in memory of its own, so that
    the next batch can be drawn while this one is still at work (`beside`). Where the kernel of `sureprox.kernels` is
    made for the network, it is used; `network` says whether.
    """

    def __init__(
        self,
        optimizer: LearnedOptimizer[Any],
        meta: MetaAdam,
        weights: Sequence[float],
        share: Share | None = None,
        mode: str | None = None,
    ) -> None:
        self.share = share or Share(Team(), "batch", 1)
        self.plain = optimizer
        self.meta = meta
        self.leaves: list[Tensor] = meta.parameters
        self.network = "composed"
        parameter = self.leaves[0]
        if can_fuse(optimizer, parameter.device, parameter.dtype):
            optimizer, flat = fused(optimizer)
            self.leaves, self.network = [flat], "fused"
        self.optimizer = Compiled(optimizer, mode=mode)
        self.weights = list(weights)
        self.segment: CapturedUpdate | None = None

    def begin(self, problem: Problem, x0: Tensor, **options: Any) -> Start:
        """Take over this process's share of a batch of problems, with their constants and the first state."""
        mine = self.share.part(problem)
        if self.segment is None:
            self._capture(mine, x0 if self.share.team.alone else self.share.rows(x0), options)
        _overwrite(self.upcoming, mine)
        self.constants.replay()
        whole = self.upcoming if self.share.team.alone else problem
        state = self.share.begin(self.plain, whole, self.upcoming, x0, self.step_size, **options)
        return Start(self.upcoming, state)

    def run(self, start: Start, count: int) -> Tensor:
        """(count, 3): what `Course.learn` says of each segment."""
        assert self.segment is not None
        torch.cuda.current_stream().wait_stream(self.side)
        _overwrite(self.problem, start.problem)
        for name in self.names:
            getattr(self.state, name).copy_(getattr(start.state, name))
        self.taken.record()
        self.course.begin(self.problem, self.state.x)
        rows = []
        for _ in range(count):
            rows.append(self.segment.replay().clone())
        return torch.stack(rows)

    @contextlib.contextmanager
    def beside(self) -> Iterator[None]:
        """Work that may go on while the segments of the batch in hand do."""
        with torch.cuda.stream(self.side):
            self.side.wait_event(self.taken)
            yield

    def _capture(self, problem: Problem, x0: Tensor, options: dict[str, Any]) -> None:
        """Record the graphs, and leave weights and generator as they were."""
        generator = options.get("generator")
        random = generator.get_state() if generator is not None else None
        everything = torch.arange(problem.batch, device=problem.device)
        self.problem, self.upcoming = problem.select(everything), problem.select(everything)  # own memory
        operations = plan(self.problem, FISTA(), wait=True).operations
        self.optimizer.operations = operations
        # many small kernels, which would otherwise wait for the large ones of the segments
        self.side, self.taken = torch.cuda.Stream(priority=-1), torch.cuda.Event()
        state = self.plain.init(self.problem, x0, **options)
        self.names = tensor_fields(state)
        self.state: State = replace(state, **{name: getattr(state, name).clone() for name in self.names})
        self.course = Course(problem.device)
        self.course.begin(self.problem, x0)
        before = self.meta.weights(), self.meta.state()
        self.constants, self.step_size = capture(lambda: estimated_step(self.upcoming, operations))
        self.segment = CapturedUpdate(self.share, self._differentiate, self._learn)
        self.meta.put(before[0])
        self.meta.load(before[1])
        if generator is not None and random is not None:
            generator.set_state(random)

    def _differentiate(self) -> list[Tensor]:
        loss, gradients, after = meta_gradients(self.problem, self.optimizer, self.state, self.weights, self.leaves)
        for name in self.names:
            getattr(self.state, name).copy_(getattr(after, name))
        return [loss, self.course.start, *gradients]

    def _learn(self, means: list[Tensor]) -> Tensor:
        loss, start, *gradients = means
        return self.course.learn(self.meta, loss, gradients, start)


def _overwrite(ours: Problem, theirs: Problem) -> None:
    for mine, other in zip(ours.tensors(), theirs.tensors(), strict=True):
        mine.copy_(other)
