"""Certified: any optimizer, with the convergence of FISTA and of restarted FISTA guaranteed beside it."""

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Generator, Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.guarantee.guaranteed import GuaranteedState, beginning, best_of, common, copied, is_check
from sureprox.guarantee.lower_model import LowerModel, lower_model
from sureprox.guarantee.tracks import Tracks, adapted, started
from sureprox.optimizers.base import Optimizer, Seen, State, usable_steps
from sureprox.optimizers.classical import FISTA
from sureprox.problems import Problem
from sureprox.problems.checks import trusted
from sureprox.problems.stacked import Comparison, Points, Stacked, is_still

# columns of CertifiedState.above
LEARNED, CLASSICAL, MARK, ORIGIN, NOW = range(5)


@dataclass(frozen=True)
class CertifiedState(GuaranteedState):
    tracks: Tracks  # FISTA, then restarted FISTA
    inner: State | None  # of the wrapped optimizer; None where that is FISTA itself
    inner_z: Tensor  # image of inner.x
    g: Tensor  # (B, K, n) gradients where the next step starts: at inner.x, if there is one, and at the tracks' y
    above: Tensor  # (B, 5) how far above F(x) are: the best point of the optimizer since its last start, that of the
    # FISTA tracks, the latter at the last check, x_0, and the optimizer's current point
    lower: LowerModel | None  # kept where no duality gap is known
    generator: torch.Generator | None  # what the optimizer's memory was drawn from; never advanced

    @property
    def last(self) -> Vectors:
        return self.tracks.x[:, -1]


class Ahead(NamedTuple):
    """An iteration before it is judged: K new points, and T tracks as they will go on where they are accepted."""

    x: Tensor  # (B, K, n)
    z: Tensor  # (B, K, m) their images
    there: Tensor  # (B, K, m) images of where the next step starts
    g: Tensor | None  # (B, K, n) gradients there; None where they are taken after the judgement, since L may fall
    t: Tensor  # (B, T)
    momentum: Tensor  # (B, T)


class Certified(Optimizer[CertifiedState]):
    """The best point seen of `optimizer`, of FISTA and of restarted FISTA, which run beside each other.

    F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2 for every k >= 1, F(x_k) never rises, and it is never above what
    restarted FISTA has reached after k iterations, whatever `optimizer` does (docs/certified.md has the proof). All
    tracks share the two reads of A of an iteration. Where L proves too small the FISTA tracks repeat the step with a
    larger one; k then counts the accepted steps, and L is the largest they had. For an f without known structure L
    falls again where it was raised, and FISTA's t and y follow it.

    `optimizer` runs free. After 16, 32, 64, ... iterations it is judged, for each instance alone: if its point is not
    finite or worse than x_0, or if the best it has seen is worse than what the FISTA tracks had at the check before (at
    the first one: than x_0), it starts anew from the best point, its memory reset.
    """

    def __init__(self, optimizer: Optimizer[Any], operations: Operations = PLAIN) -> None:
        self.optimizer = optimizer
        self.operations = operations
        self.own = type(optimizer) is FISTA  # then it is one of the tracks itself
        self.count = 1 if isinstance(optimizer, FISTA) and self.own and not optimizer.restart else 2

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> CertifiedState:
        begun, g = beginning(problem, x0, step_size, self.operations)
        x, z, step = begun.x, begun.z, begun.step_size
        source = copied(generator)
        inner = None
        if not self.own:
            # a copy, which the optimizer may overwrite
            steps = trusted(usable_steps(step))
            inner = self.optimizer.init(problem, trusted(x.clone()), generator=generator, step_size=steps)
        return CertifiedState(
            **common(begun),
            tracks=started(x, z, self.count),
            inner=inner,
            inner_z=z,
            g=g.expand(-1, self.count + (inner is not None), -1),
            above=torch.zeros_like(step).unsqueeze(1).repeat(1, 5),
            lower=None if problem.has_duality_gap else lower_model(x.detach(), z.detach()),
            generator=source,
        )

    def step(self, problem: Problem, state: CertifiedState) -> CertifiedState:
        state = self.advance(self.stack(problem), state)
        return self.pull_back(problem, state) if is_check(state.k) else state

    def stack(self, problem: Problem) -> Stacked:
        """The problem with one point for each track and, first, one for the optimizer."""
        return Stacked(problem, self.count + (not self.own), self.operations)

    def advance(self, stack: Stacked, state: CertifiedState) -> CertifiedState:
        """One iteration of all tracks; nothing in it waits for the device."""
        inner = state.inner
        if inner is not None:
            inner = moved(self.optimizer, stack.problem, inner, state.g[:, 0], self.operations)
        return self.follow(stack, state, inner)

    def follow(self, stack: Stacked, state: CertifiedState, inner: State | None) -> CertifiedState:
        """The FISTA tracks take their steps too, beside the wrapped optimizer's, to `inner`, and all are judged."""
        if self.operations.follow is not None:
            found: CertifiedState = self.operations.follow(self, stack, state, inner)
            return found
        base = self._bases(state)
        new = stack.proximal_step(base.x, state.g, state.step_size)
        if inner is not None:
            new = torch.cat([inner.x.unsqueeze(1), new[:, 1:]], 1)
        first = 0 if inner is None else 1  # the first FISTA track
        pace = state.tracks.pace(new[:, first:], 1)
        before, momentum = state.tracks.z, pace[1]
        if inner is not None:  # it goes on from where it is
            before = torch.cat([state.inner_z.unsqueeze(1), before], 1)
            momentum = torch.cat([torch.zeros_like(momentum[:, :1]), momentum], 1)
        if not stack.knows_images:
            seen = Ahead(new, *stack.beyond(new, before, momentum), None, *pace)
        else:
            seen = Ahead(new, *stack.ahead(new, before, momentum), *pace)
        return replace(self._judged(stack, state, base, seen), inner=inner)

    def _judged(self, stack: Stacked, state: CertifiedState, base: Points, ahead: Ahead) -> CertifiedState:
        """The state after an iteration from `base`, but for the wrapped optimizer's own."""
        first = stack.count - self.count
        new, g, L = Points(ahead.x, ahead.z), state.g, 1 / state.step_size
        seen = stack.compare(new, base, g, Points(state.x.unsqueeze(1), state.z.unsqueeze(1)), L)
        flat = None if seen.flat is None else seen.flat[:, first:]
        L_next, accepted = adapted(L, 1 / state.longest, seen.curvature[:, first:], flat)
        fista = Points(new.x[:, first:], new.z[:, first:])
        tracks = state.tracks.moved(fista, ahead.there[:, first:], accepted, (ahead.t, ahead.momentum))
        weight = torch.where(accepted[:, 0], state.tracks.t[:, 0].square() / L, state.weight)
        if ahead.g is None:
            tracks = tracks.paced(weight, L_next)
            g = stack.grad(torch.cat([ahead.there[:, :first], tracks.zy], 1))
        else:
            kept = torch.where(accepted.unsqueeze(2), ahead.g[:, first:], g[:, first:])
            g = torch.cat([ahead.g[:, :first], kept], 1)
        return replace(
            self._updated(state, first, new, seen),
            step_size=1 / L_next,
            rejected=state.rejected + ~accepted.all(1),
            weight=weight,
            tracks=tracks,
            g=g,
            lower=self._lower(stack.problem, state, accepted[:, 0], weight),
        )

    def _bases(self, state: CertifiedState) -> Points:
        base = state.tracks.bases
        if state.inner is None:
            return base
        x = torch.cat([state.inner.x.unsqueeze(1), base.x], 1)
        return Points(x, torch.cat([state.inner_z.unsqueeze(1), base.z], 1))

    def _updated(self, state: CertifiedState, first: int, new: Points, seen: Comparison) -> CertifiedState:
        """With the best point among `new`, of which those from number `first` on are FISTA's."""
        best = best_of(state, new, seen)
        track = torch.where(best.better, best.winner + 2 - first, state.track)
        finder = torch.where(track == 0, seen.move.shape[1] - 1, track - 2 + first).unsqueeze(1)
        still = is_still(seen.move)
        calm = still[:, first:].any(1)  # whatever the optimizer does
        idle = state.idle + (~best.better & (calm | still.gather(1, finder).squeeze(1)))
        return replace(
            state,
            x=best.x,
            k=state.k + 1,
            z=best.z,
            track=track,
            idle=torch.where(calm | (idle > state.idle), idle, 0),
            inner_z=new.z[:, 0],
            above=_raised_above(state.above + best.drop.unsqueeze(1), best.above, first),
        )

    @torch.no_grad()
    def _lower(self, problem: Problem, state: CertifiedState, taken: Tensor, total: Scalars) -> LowerModel | None:
        """The lower model with FISTA's step in it, of weight t/L, where it was `taken`; all weights sum to `total`."""
        if state.lower is None:
            return None
        y, zy, t = (part[:, 0] for part in (state.tracks.y, state.tracks.zy, state.tracks.t))
        weight = torch.where(taken, t * state.step_size, 0.0)
        first = 0 if state.inner is None else 1
        return state.lower.extended(problem, y, zy, state.g[:, first], weight, total)

    def pull_back(self, problem: Problem, state: CertifiedState) -> CertifiedState:
        """Judge the optimizer, and start it anew from the best point where it has failed."""
        inner = state.inner
        if inner is None:
            return state
        learned, classical, mark, origin, now = state.above.unbind(1)
        slack = 4 * torch.finfo(origin.dtype).eps * origin
        failed = ~torch.isfinite(inner.x.detach()).all(1) | ~(now <= origin + slack) | (learned > mark + slack)
        if bool(failed.any()):
            steps = usable_steps(state.step_size)
            fresh = self.optimizer.init(problem, state.x.clone(), generator=copied(state.generator), step_size=steps)
            learned, now = torch.where(failed, 0.0, learned), torch.where(failed, 0.0, now)
            g = Stacked(problem, 1, self.operations).grad(state.z.unsqueeze(1))
            state = replace(
                state,
                inner=inner.replaced(failed, fresh),
                inner_z=torch.where(failed.unsqueeze(1), state.z, state.inner_z),
                g=torch.cat([torch.where(failed.view(-1, 1, 1), g, state.g[:, :1]), state.g[:, 1:]], 1),
                pull_backs=state.pull_backs + failed,
            )
        return replace(state, above=torch.stack([learned, classical, classical, origin, now], 1))


def moved(optimizer: Optimizer[Any], problem: Problem, state: State, g: Tensor, operations: Operations) -> State:
    """A step of `optimizer`, without a new gradient if it needs that at its point, where g is known.

    It gets a copy of g, which it may overwrite. An optimizer that queries another point computes its own gradient.
    """
    after: State
    if not optimizer.looks_once or optimizer.query(state) is not state.x:
        after = optimizer.step(problem, state)
    elif operations.move is None:
        after = optimizer.move(problem, state, Seen(g.clone()))
    else:
        after = operations.move(optimizer, problem, state, Seen(g.clone()))
    return after


def credit(problem: Problem, state: CertifiedState) -> Scalars:
    """c >= 0 with F(x) - F* <= (|x_0 - x*|^2 - c) / (2 weight); zero where a duality gap says more."""
    with torch.no_grad():
        if state.lower is None:
            return torch.zeros_like(state.weight)
        return state.lower.credit(problem, state.above[:, ORIGIN])


def _raised_above(known: Tensor, new: Tensor, first: int) -> Tensor:
    """`CertifiedState.above` after an iteration whose points lie `new` (B, K) above the best one."""
    learned, classical, mark, origin, _ = known.unbind(1)
    now = new[:, 0] if first else learned
    return torch.stack(
        [torch.minimum(learned, now), torch.minimum(classical, new[:, first:].amin(1)), mark, origin, now], 1
    )
