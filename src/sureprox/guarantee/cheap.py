"""A guarantee for CPUs, where running several methods at once costs time: one method at a time."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.guarantee.certified import moved
from sureprox.guarantee.guaranteed import TRACKS, GuaranteedState, Track, beginning, best_of, common, is_check
from sureprox.guarantee.tracks import Tracks, adapted, started
from sureprox.optimizers.base import Optimizer, State, usable_steps
from sureprox.problems import Problem
from sureprox.problems.stacked import Points, Stacked, is_still

SHARE = 10  # FISTA takes a step at every tenth iteration
SLOW = 0.9  # an optimizer that leaves more than this of the duality gap from check to check is given up


@dataclass(frozen=True)
class CheapState(GuaranteedState):
    inner: State
    inner_z: Tensor  # image of inner.x
    g: Tensor  # (B, 1, n) gradient at inner.x; no longer kept up once any instance has been given up
    fista: Tracks  # the track that carries the bound
    fista_g: Tensor  # (B, 1, n) gradient where it goes on from
    fallback: Tracks  # restarted FISTA, where the optimizer has been given up
    given_up: Tensor  # (B,) bool
    any_up: bool  # whether any instance has been given up, and whether any has not: known without waiting for the
    any_on: bool  # device (after a selection they may be too cautious)
    gained: Scalars  # by how much F(x) has fallen since the last check
    gap: Scalars  # the duality gap at the last check; zero where none is known
    origin: Scalars  # F(x_0) - F(x)
    now: Scalars  # F at the optimizer's point, minus F(x)


class CertifiedCheap(Optimizer[CheapState]):
    """`optimizer`, with a step of FISTA at every tenth iteration; the best point seen of both.

    F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k // 10 + 1)^2 for every k >= 10 and F(x_k) never rises, whatever `optimizer`
    does (rejected steps and L: as in `Certified`), at 2.2 products with A per iteration instead of 2, and two more at
    each check. After 16, 32, 64, ... iterations the optimizer is judged, for each instance alone: it is given up, and
    restarted FISTA goes on from the best point in its place, if its point is not finite or worse than x_0, if FISTA's
    tenth has found a better point than it has, or if the duality gap has fallen by less than a tenth since the last
    check (where no gap is known, if it has found no better point since).
    """

    def __init__(self, optimizer: Optimizer[Any], operations: Operations = PLAIN) -> None:
        self.optimizer = optimizer
        self.operations = operations

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> CheapState:
        begun, g = beginning(problem, x0, step_size, self.operations)
        x, z, step = begun.x, begun.z, begun.step_size
        return CheapState(
            **common(begun),
            inner=self.optimizer.init(problem, x.clone(), generator=generator, step_size=usable_steps(step)),
            inner_z=z,
            g=g,
            fista=started(x, z, 1),
            fista_g=g,
            fallback=started(x, z, 1),
            given_up=torch.zeros_like(step, dtype=torch.bool),
            any_up=False,
            any_on=True,
            gained=torch.zeros_like(step),
            gap=_gap(problem, x),
            origin=torch.zeros_like(step),
            now=torch.zeros_like(step),
        )

    def step(self, problem: Problem, state: CheapState) -> CheapState:
        state = self.turn(problem, state)
        return self._judged(problem, state) if is_check(state.k) else state

    def turn(self, problem: Problem, state: CheapState) -> CheapState:
        """A step of the optimizer, or of restarted FISTA where it has been given up; in its turn also one of FISTA."""
        if self.operations.turn is not None and not state.any_up:
            found: CheapState = self.operations.turn(self, problem, state)
            return found
        stack, inner = Stacked(problem, 1, self.operations), state.inner
        up = state.given_up.view(-1, 1, 1)
        base = Points(inner.x.unsqueeze(1), state.inner_z.unsqueeze(1))
        if state.any_up:
            held = state.fallback.bases
            base = Points(torch.where(up, held.x, base.x), torch.where(up, held.z, base.z))
        g = stack.grad(base.z) if state.any_up else state.g
        if state.any_on:
            # what it makes of the gradient of a track is lost: those instances have been given up
            inner = moved(self.optimizer, problem, inner, g[:, 0], self.operations)
        return self.follow(stack, state, base, g, inner)

    def follow(self, stack: Stacked, state: CheapState, base: Points, g: Tensor, inner: State) -> CheapState:
        """The state after a turn from `base` with gradients g there, in which the optimizer has stepped to `inner`."""
        if self.operations.follow_cheap is not None and not state.any_up:
            found: CheapState = self.operations.follow_cheap(stack, state, inner)
            return found
        after = self._compared(stack, state, base, g, inner)
        return self._fista_step(stack, after) if after.k % SHARE == 0 else after

    def _compared(self, stack: Stacked, state: CheapState, base: Points, g: Tensor, inner: State) -> CheapState:
        up, there = state.given_up.view(-1, 1, 1), inner.x.unsqueeze(1)
        if state.any_up:
            there = torch.where(up, stack.proximal_step(base.x, g, state.step_size), there)
            z, g_next = stack.image(there), state.g
        else:
            z, _, g_next = stack.ahead(there, base.z, torch.zeros_like(state.step_size).unsqueeze(1))
        new = Points(there, z)
        L = 1 / state.step_size
        seen = stack.compare(new, base, g, Points(state.x.unsqueeze(1), state.z.unsqueeze(1)), L)
        best = best_of(state, new, seen)
        finder = torch.where(state.given_up, TRACKS.index(Track.RESTARTED), TRACKS.index(Track.OPTIMIZER))
        still = ~best.better & is_still(seen.move[:, 0])
        fallback, step, rejected = state.fallback, state.step_size, state.rejected
        if state.any_up:
            flat = None if seen.flat is None else seen.flat & up[:, 0]
            L_next, accepted = adapted(L, 1 / state.longest, torch.where(up[:, 0], seen.curvature, 0.0), flat)
            fallback, step = fallback.advanced(new, accepted & up[:, 0], 0), 1 / L_next
            rejected = rejected + ~accepted[:, 0]
        return replace(
            state,
            x=best.x,
            k=state.k + 1,
            step_size=step,
            z=best.z,
            track=torch.where(best.better, finder, state.track),
            rejected=rejected,
            idle=torch.where(still, state.idle + 1, 0),
            inner=inner,
            inner_z=new.z[:, 0],
            g=g_next,
            fallback=fallback,
            gained=state.gained + best.drop,
            origin=state.origin + best.drop,
            now=best.above[:, 0],
        )

    def _fista_step(self, stack: Stacked, state: CheapState) -> CheapState:
        fista, L, g = state.fista, 1 / state.step_size, state.fista_g
        if not stack.knows_images:  # L may have fallen since the gradient was taken
            fista = fista.paced(state.weight, L)
            g = stack.grad(fista.zy)
        base = fista.bases
        x = stack.proximal_step(base.x, g, state.step_size)
        pace = fista.pace(x, 1)
        if not stack.knows_images:
            (z, there), g_next = stack.beyond(x, fista.z, pace[1]), g
        else:
            z, there, g_next = stack.ahead(x, fista.z, pace[1])
        new = Points(x, z)
        seen = stack.compare(new, base, g, Points(state.x.unsqueeze(1), state.z.unsqueeze(1)), L)
        best = best_of(state, new, seen)
        L_next, accepted = adapted(L, 1 / state.longest, seen.curvature, seen.flat)
        return replace(
            state,
            x=best.x,
            step_size=1 / L_next,
            z=best.z,
            track=torch.where(best.better, TRACKS.index(Track.FISTA), state.track),
            rejected=state.rejected + ~accepted[:, 0],
            weight=torch.where(accepted[:, 0], fista.t[:, 0].square() / L, state.weight),
            idle=torch.where(best.better, 0, state.idle),
            fista=fista.moved(new, there, accepted, pace),
            fista_g=torch.where(accepted.unsqueeze(2), g_next, g),
            gained=state.gained + best.drop,
            origin=state.origin + best.drop,
            now=state.now + best.drop,
        )

    def _judged(self, problem: Problem, state: CheapState) -> CheapState:
        slack = 4 * torch.finfo(state.origin.dtype).eps * state.origin
        failed = ~torch.isfinite(state.inner.x.detach()).all(1) | ~(state.now <= state.origin + slack)
        gap = _gap(problem, state.x)
        slow = gap > SLOW * state.gap if problem.has_duality_gap else state.gained <= 0
        failed |= (state.track != TRACKS.index(Track.OPTIMIZER)) | slow
        failed &= ~state.given_up
        given_up = state.given_up | failed
        any_up = bool(given_up.any())
        return replace(
            state,
            pull_backs=state.pull_backs + failed,
            fallback=state.fallback.restarted(failed, state.x, state.z) if any_up else state.fallback,
            given_up=given_up,
            any_up=any_up,
            any_on=not bool(given_up.all()),
            gained=torch.zeros_like(state.gained),
            gap=gap,
        )


@torch.no_grad()
def _gap(problem: Problem, x: Vectors) -> Scalars:
    return problem.certificate(x).gap if problem.has_duality_gap else torch.zeros_like(x[:, 0])
