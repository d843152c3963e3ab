"""Training on a stream of problems: long horizons with short back-propagation."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.kernels.runtime.compiled import tensor_fields, with_own_code
from sureprox.optimizers import Optimizer, State
from sureprox.optimizers.base import Seen
from sureprox.problems.smooth import LinearModel
from sureprox.sources import Family
from sureprox.training.backends import BackedRun
from sureprox.training.captured import CapturedUpdate
from sureprox.training.goal import SOLVED, Goal, inner, inside, log_gap, solved_problems, validation_problems
from sureprox.training.segment import Course
from sureprox.training.share import Share
from sureprox.training.stream_config import StreamConfig

LOST = 32.0  # a log gap beyond which an instance is given up
CEILING = 80.0  # of the log gap in the loss: from there on there is no gradient


class Limited(torch.autograd.Function):
    """The identity, whose gradient is made no longer than `limit` (B,) for each instance; what is not finite is 0."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, limit: Tensor) -> Tensor:
        ctx.save_for_backward(limit)
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        (limit,) = ctx.saved_tensors
        gradient = gradients[0].nan_to_num(0.0, 0.0, 0.0)
        norm: Tensor = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        least = torch.finfo(norm.dtype).tiny
        return gradient * (limit.unsqueeze(1) / norm.clamp(min=least)).nan_to_num(0.0, 0.0, 0.0).clamp(max=1.0), None


Values = tuple[Tensor, ...]
Step = Callable[[Optimizer[Any], Goal, type[State], tuple[str, ...], Values], tuple[Scalars, Values]]


def gap_step(
    optimizer: Optimizer[Any], goal: Goal, kind: type[State], names: tuple[str, ...], values: Values
) -> tuple[Scalars, Values]:
    """The log gap before a step, and the tensors of the state after it; every x is multiplied with A once."""
    state, f = kind(k=0, **dict(zip(names, values, strict=True))), goal.problem.f
    assert isinstance(f, LinearModel)
    z = inner(goal.problem, state.x)
    after = optimizer.move(goal.problem, state, Seen(f.grad_at(z)))
    return log_gap(goal, state.x, z), tuple(getattr(after, name) for name in names)


def unrolled(
    step: Step, optimizer: Optimizer[Any], goal: Goal, state: State, steps: int, flow: float | None = None
) -> tuple[Tensor, State]:
    """The log gaps (steps, B) after each of the next steps, and the state after them.

    `flow` limits the gradient that flows back through x, |dl/dx| |x - x*|, to that many times the share of the
    instance in a mean over the batch: far from the solution, or on an unstable path, it would swamp all others.
    """
    names = tensor_fields(state)
    values = tuple(getattr(state, name) for name in names)
    place = names.index("x")
    gaps = []
    for _ in range(steps):
        gap, values = step(optimizer, goal, type(state), names, values)
        gaps.append(gap)
        if flow is not None:
            x = values[place]
            distance: Tensor = torch.linalg.vector_norm(x.detach() - goal.x, dim=1)
            limit = flow * goal.weight / (len(x) * distance.clamp(min=1e-12))
            values = (*values[:place], Limited.apply(x, limit), *values[place + 1 :])
    state = replace(state, **dict(zip(names, values, strict=True)))
    gaps.append(log_gap(goal, state.x, inner(goal.problem, state.x)))
    return torch.stack(gaps[1:]), state


class Stream:
    """The instances at work, in memory that stays where it is, so that a segment can be one CUDA graph."""

    def __init__(self, pool: Goal, batch: int, optimizer: Optimizer[Any]) -> None:
        device = pool.scale.device
        self.pool = pool
        self.optimizer = optimizer
        self.index = torch.zeros(batch, dtype=torch.long, device=device)
        self.age = torch.zeros(batch, device=device)
        self.done = torch.ones(batch, dtype=torch.bool, device=device)
        self.goal = pool.select(self.index)
        state = optimizer.init(self.goal.problem, torch.zeros_like(self.goal.x), step_size=self.goal.step_size)
        self.names = tensor_fields(state)
        self.state: State = replace(state, **{name: getattr(state, name).clone() for name in self.names})

    def refill(self, fresh: Tensor, x0: Vectors) -> None:
        """Put problem `fresh[i]` of the pool, started at x0[i], in the place of every instance i that is done."""
        self.index.copy_(torch.where(self.done, fresh, self.index))
        for mine, theirs in zip(self.goal.tensors(), self.pool.select(self.index).tensors(), strict=True):
            mine.copy_(theirs)
        begun = self.optimizer.init(self.goal.problem, inside(self.goal.problem, x0), step_size=self.goal.step_size)
        self.age.masked_fill_(self.done, 0.0)
        self.put(begun, self.done)

    def put(self, state: State, where: Tensor | None = None) -> None:
        for name in self.names:
            mine, other = getattr(self.state, name), getattr(state, name).detach()
            if where is not None:
                other = torch.where(where.view(-1, *[1] * (mine.ndim - 1)), other, mine)
            mine.copy_(other)

    def retire(self, gap: Scalars, steps: int, horizon: int) -> None:
        """Note who is solved, lost, or has had its time; gap: the log gap now."""
        self.age.add_(steps)
        solved = gap < math.log(SOLVED)
        lost = ~torch.isfinite(gap) | (gap > LOST)
        self.done.copy_(solved | lost | (self.age >= horizon))

    def tensors(self) -> dict[str, Tensor]:
        own = {"index": self.index, "age": self.age, "done": self.done}
        return own | {f"state.{name}": getattr(self.state, name) for name in self.names}

    def load(self, saved: dict[str, Tensor]) -> None:
        for name, mine in self.tensors().items():
            mine.copy_(saved[name])


class StreamedRun(BackedRun):
    """loss = sum_t w_t mean_i weight_i log(relative gap of instance i after step t + 1e-10), w_t rising 0.3 to 1.7.

    A family with `parts`, families of problems that cannot share a batch, has a stream for each, which take turns.
    """

    def __init__(self, backend: str, *args: Any) -> None:
        super().__init__(*args)
        assert isinstance(self.config, StreamConfig)
        self.stream_config = self.config
        self.trainee = self.optimizer.sharing_weights(detached_features=self.config.detached)
        self.parts: Sequence[Family] = getattr(self.family, "parts", (self.family,))
        problems = torch.Generator(self.device).manual_seed(self.config.seed + 20_000)
        pools = [solved_problems(part, self.config.pool, problems, self.dtype) for part in self.parts]
        self.streams = [Stream(pool, self.share.size, self.trainee) for pool in pools]
        if self.resumed:
            for stream, prefix in zip(self.streams, self._prefixes(), strict=True):
                stream.load({name: self.share.rows(self.resumed[prefix + name]) for name in stream.tensors()})
        rising = torch.linspace(0.3, 1.7, self.config.segment, dtype=self.dtype, device=self.device)
        self.rising = rising / self.config.segment
        generator = self.validation_generator()
        self.validation = self._validation_sets(generator)
        self.graphs: dict[int, CapturedUpdate] = {}
        self.choose(backend, auto_on_cpu="plain")

    def _validation_sets(self, generator: torch.Generator) -> list[tuple[Goal, State]]:
        """Fixed problems of every part, as many of each, and where they start: this process's share of them."""
        goals = [validation_problems(part, self.config.validation, generator, self.dtype) for part in self.parts]
        count = min(len(goal.scale) for goal in goals)
        self.validation_share = Share(self.team, "validation, of problems that can be solved,", count)
        mine, sets = self.validation_share.index(self.device), []
        for part, goal in zip(self.parts, goals, strict=True):
            x0 = part.start(count, generator, self.dtype)
            own = goal.select(mine)
            start = inside(own.problem, self.validation_share.rows(x0))
            sets.append((own, self.optimizer.init(own.problem, start, step_size=own.step_size)))
        return sets

    @property
    def turn(self) -> int:
        """Whose turn it is among the parts."""
        return self.progress.batch % len(self.parts)

    @property
    def stream(self) -> Stream:
        return self.streams[self.turn]

    def _prefixes(self) -> list[str]:
        """Of the names of the streams' tensors in a checkpoint."""
        return [""] if len(self.parts) == 1 else [f"{k}." for k in range(len(self.parts))]

    def stream_state(self) -> dict[str, Tensor]:
        return {
            prefix + name: self.share.gather(value).cpu().clone()
            for stream, prefix in zip(self.streams, self._prefixes(), strict=True)
            for name, value in stream.tensors().items()
        }

    def learn(self) -> Tensor:
        random = self.generator.get_state()
        try:
            return self._learned()
        except Exception:  # a second attempt must draw the same
            self.generator.set_state(random)
            raise

    def _learned(self) -> Tensor:
        batch, stream = self.stream_config.batch, self.stream
        fresh = torch.randint(len(stream.pool.scale), (batch,), generator=self.generator, device=self.device)
        x0 = self.parts[self.turn].start(batch, self.generator, self.dtype)
        stream.refill(self.share.rows(fresh), self.share.rows(x0))
        if self.backend_name != "graph":
            return self._segment().unsqueeze(0)
        if self.turn not in self.graphs:
            kept = {name: value.clone() for name, value in stream.tensors().items()}
            before = self.meta.weights(), self.meta.state()
            try:
                self.graphs[self.turn] = CapturedUpdate(self.share, self._differentiate, self._learn)
            finally:
                stream.load(kept)
                self.meta.put(before[0])
                self.meta.load(before[1])
        return self.graphs[self.turn].replay().unsqueeze(0)

    def _segment(self) -> Tensor:
        return self._learn(self.share.mean(*self._differentiate()))

    def _differentiate(self) -> list[Tensor]:
        """Unroll, differentiate, and retire instances; neither here nor in `_learn` the host waits for the device."""
        config, stream = self.stream_config, self.stream
        gaps, after = unrolled(self.step, self.trainee, stream.goal, stream.state, config.segment, config.flow)
        terms = torch.where(torch.isfinite(gaps), gaps, CEILING).clamp(max=CEILING) * stream.goal.weight
        loss = (self.rising * terms.mean(1)).sum()
        gradients = torch.autograd.grad(loss, self.meta.parameters)
        stream.put(after)
        stream.retire(gaps[-1].detach(), config.segment, config.horizon)
        return [loss.detach(), *gradients]

    def _learn(self, means: list[Tensor]) -> Tensor:
        loss, *gradients = means
        norm, taken = self.meta.update(_finite(gradients), torch.isfinite(loss))
        code = torch.where(taken > 0, Course.TAKEN, Course.FAILED).double()
        return torch.stack([loss.double(), norm, code])

    @torch.no_grad()
    def validate(self) -> tuple[Tensor, Tensor]:
        """Weighted mean of the log gap over all iterations, and after the last."""
        every = []
        for goal, state in self.validation:
            gaps, _ = unrolled(self.step, self.optimizer, goal, state, self.stream_config.length)
            every.append((gaps.nan_to_num(CEILING, CEILING).clamp(max=CEILING).double() * goal.weight).mean(1))
        means = torch.stack(every).mean(0)
        return means.mean(), means[-1]

    def use_plain(self) -> None:
        self.step: Step = gap_step

    def use_quick(self) -> None:
        self.step = torch.compile(with_own_code(gap_step), fullgraph=True, dynamic=False)


def _finite(gradients: Sequence[Tensor]) -> list[Tensor]:
    """An instance that has left the range of numbers takes its own part of the gradient with it, not all of it."""
    return [gradient.nan_to_num(0.0, 0.0, 0.0) for gradient in gradients]
