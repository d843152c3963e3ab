"""A guarantee at one gradient per iteration: the optimizer runs alone and is audited after 16, 32, 64, ... of them."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.guarantee.certified import moved
from sureprox.guarantee.guaranteed import TRACKS, GuaranteedState, Track, beginning, best_of, common, is_check
from sureprox.guarantee.lower_model import LowerModel, lower_model
from sureprox.guarantee.planned import Planned
from sureprox.guarantee.tracks import Tracks, adapted, started
from sureprox.optimizers.base import Optimizer, State, usable_steps
from sureprox.problems import Problem
from sureprox.problems.checks import trusted
from sureprox.problems.stacked import Points, Stacked, is_still

ASKED = 1 / 2  # an audit after k iterations asks for the bound of k/2 steps of FISTA
OPTIMIZER, FISTA, RESTARTED = (TRACKS.index(track) for track in (Track.OPTIMIZER, Track.FISTA, Track.RESTARTED))
REACHES = (4.0, 1.0, 1 / 4, 1 / 16, 1 / 64)  # weights, in units of the one that is asked for, that an audit tries


@dataclass(frozen=True)
class AuditedState(GuaranteedState):
    inner: State  # of the wrapped optimizer
    turn: Tensor  # (B,) whose turn it is: OPTIMIZER, FISTA or RESTARTED
    free: bool  # whether the optimizer has a turn in any instance, and
    bound: bool  # whether a FISTA track has: known without waiting for the device (after a selection too cautious)
    fista: Tracks  # from x_0; it carries the bound, and stands still while others have their turn
    fista_weight: Scalars  # its t_j^2 / L_j
    successor: Tracks  # restarted FISTA, where the optimizer has been given up
    given_up: Tensor  # (B,) bool
    idle_turn: Tensor  # (B,) bool: the last audit has seen no progress
    start: LowerModel  # that of the gradient at x_0, of weight 1/L
    radius: Scalars  # proved: |x_0 - x*|^2 is at least this
    origin: Scalars  # F(x_0) - F(x)

    def shown(self) -> "AuditedState":
        """With the current point of the method whose turn it is as x; at the optimizer's F is not known yet."""
        if not self.bound:
            return self.changed(x=self.inner.x, track=self.turn)
        here = self.turn == OPTIMIZER
        return self.changed(
            x=torch.where(here.unsqueeze(1), self.inner.x, self.x),
            track=torch.where(here, OPTIMIZER, self.track),
        )

    @property
    def last(self) -> Vectors | None:
        return self.successor.x[:, 0] if self.bound else None


class Audited(Optimizer[AuditedState]):
    """`optimizer` alone, and FISTA where its point is not proved to be as good as FISTA's would be; the best seen.

    F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k/6)^2 for every k >= 20 and F(x_k) never rises, whatever `optimizer` does
    (rejected steps and L: as in `Certified`), at one gradient per iteration, and one more at the start and at each
    audit. After k = 16, 32, 64, ... iterations, for each instance alone: if the gradient at the optimizer's point
    proves that no solution is lower than what k/2 steps of FISTA guarantee, and if the point is better than the best
    one at the audit before, the optimizer goes on undisturbed. Else FISTA, from where it stood, from x_0 at first,
    takes the next k/2 iterations. If it finds a better point than the optimizer has, or if that had got no further, the
    optimizer is given up: restarted FISTA goes on from the best point in its place, and is audited like it.
    """

    def __init__(self, optimizer: Optimizer[Any], operations: Operations = PLAIN) -> None:
        self.optimizer = optimizer
        self.operations = operations
        self.planned = Planned(optimizer, operations)

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> AuditedState:
        begun, g = beginning(problem, x0, step_size, self.operations)
        x, z, step = begun.x, begun.z, begun.step_size
        steps = trusted(usable_steps(step))
        # a copy, which the optimizer may overwrite
        inner = self.optimizer.init(problem, trusted(x.clone()), generator=generator, step_size=steps)
        nobody = torch.zeros_like(step, dtype=torch.bool)
        return AuditedState(
            **common(begun),
            inner=inner,
            turn=torch.full_like(begun.track, OPTIMIZER),
            free=True,
            bound=False,
            fista=started(x, z, 1),
            fista_weight=torch.zeros_like(step),
            successor=started(x, z, 1),
            given_up=nobody,
            idle_turn=nobody,
            start=LowerModel(x.detach(), z.detach(), g[:, 0], torch.zeros_like(step), torch.ones_like(step)),
            radius=torch.zeros_like(step),
            origin=torch.zeros_like(step),
        )

    def step(self, problem: Problem, state: AuditedState) -> AuditedState:
        after = self._optimizer_step(problem, state) if state.free else state
        if state.bound:
            after = self._fista_step(Stacked(problem, 1, self.operations), after)
        k = state.k + 1
        # k of a paused optimizer counts on: it must not depend on which neighbours pause
        after = after.changed(k=k, inner=after.inner if after.inner.k == k else replace(after.inner, k=k))
        if is_check(k):
            return self._audited(problem, after)
        return self._handed_back(after) if state.bound and k % 3 == 0 and is_check(2 * k // 3) else after

    def _optimizer_step(self, problem: Problem, state: AuditedState) -> AuditedState:
        before = state.inner
        if state.k == 0:  # the gradient is known
            inner = moved(self.optimizer, problem, before, state.start.slope, self.operations)
        else:
            inner = self.planned.step(problem, before)
        idle = state.idle
        if inner.x.dtype == torch.float32:  # which may rest before it has converged
            length = torch.linalg.vector_norm(inner.x.detach(), dim=1)
            move = torch.linalg.vector_norm((inner.x - before.x).detach(), dim=1)
            still = is_still(move / length.clamp(min=torch.finfo(length.dtype).tiny))
            idle = torch.where(still, state.idle + 1, 0)
        if state.bound:
            mine = state.turn == OPTIMIZER
            inner, idle = before.replaced(mine, inner), torch.where(mine, idle, state.idle)
        return state.changed(inner=inner, idle=idle)

    def _fista_step(self, stack: Stacked, state: AuditedState) -> AuditedState:
        """A step of FISTA where that has the turn, and of restarted FISTA where the optimizer has been given up."""
        L, fista = 1 / state.step_size, state.fista
        if not stack.knows_images:  # L may have fallen since its last step
            fista = fista.paced(state.fista_weight, L)
        plain, restarted = state.turn == FISTA, state.turn == RESTARTED
        track = state.successor.where(plain, fista)
        base = track.bases
        g = stack.grad(base.z)
        x = stack.proximal_step(base.x, g, state.step_size)
        new = Points(x, stack.image(x))
        seen = stack.compare(new, base, g, Points(state.x.unsqueeze(1), state.z.unsqueeze(1)), L)
        curvature = torch.where((plain | restarted).unsqueeze(1), seen.curvature, 0.0)
        flat = None if seen.flat is None else seen.flat & (plain | restarted).unsqueeze(1)
        L_next, accepted = adapted(L, 1 / state.longest, curvature, flat)
        track = track.advanced(new, accepted, 0).where(plain, track.advanced(new, accepted, 1))
        above = torch.where((plain | restarted).unsqueeze(1), seen.above, torch.inf)
        best = best_of(state, new, replace(seen, above=above))
        weight = torch.where(plain & accepted[:, 0], fista.t[:, 0].square() / L, state.fista_weight)
        idle = torch.where(~best.better & is_still(seen.move[:, 0]), state.idle + 1, 0)
        return state.changed(
            x=best.x,
            z=best.z,
            track=torch.where(best.better, state.turn, state.track),
            step_size=1 / L_next,
            rejected=state.rejected + ~accepted[:, 0],
            idle=torch.where(plain | restarted, idle, state.idle),
            fista=fista.where(plain, track),
            successor=state.successor.where(restarted, track),
            fista_weight=weight,
            weight=torch.maximum(state.weight, weight),
            origin=state.origin + best.drop,
        )

    def _audited(self, problem: Problem, state: AuditedState) -> AuditedState:
        """Audit the method whose turn it is: where its last point does not prove what is asked for, FISTA is next."""
        stack = Stacked(problem, 1, self.operations)
        x = torch.where((state.turn == OPTIMIZER).unsqueeze(1), state.inner.x, state.successor.x[:, 0]).unsqueeze(1)
        z, g = stack.look(x)
        point, L = Points(x, z), 1 / state.step_size
        best = best_of(
            state, point, stack.compare(point, point, g, Points(state.x.unsqueeze(1), state.z.unsqueeze(1)), L)
        )
        origin = state.origin + best.drop
        with torch.no_grad():
            one = torch.ones_like(L)
            model = lower_model(state.start.x0, state.start.z0).extended(problem, x[:, 0], z[:, 0], g[:, 0], one, one)
            asked = (ASKED * state.k) ** 2 / (4 * L)
            radius = torch.maximum(state.radius, _least_radius(problem, state.start, origin, L))
            weight, radius = _proved(problem, model, origin, asked, radius)
        progress = best.better | (state.turn == RESTARTED)
        failed = ~(weight >= asked) | ~progress
        turn = torch.where(failed, FISTA, torch.where(state.given_up, RESTARTED, OPTIMIZER))
        return state.changed(
            x=best.x,
            z=best.z,
            track=torch.where(best.better, state.turn, state.track),
            turn=turn,
            free=bool((turn == OPTIMIZER).any()),
            bound=bool((turn != OPTIMIZER).any()),
            idle_turn=~progress,
            weight=torch.maximum(state.weight, weight),
            radius=radius,
            origin=origin,
        )

    def _handed_back(self, state: AuditedState) -> AuditedState:
        """End FISTA's turn: back to the optimizer or, where FISTA found a better point, on with restarted FISTA."""
        over = state.turn == FISTA
        lost = over & ((state.track == FISTA) | state.idle_turn)
        given_up = state.given_up | lost
        turn = torch.where(over, torch.where(given_up, RESTARTED, OPTIMIZER), state.turn)
        return state.changed(
            turn=turn,
            free=bool((turn == OPTIMIZER).any()),
            bound=bool((turn != OPTIMIZER).any()),
            given_up=given_up,
            pull_backs=state.pull_backs + (lost & ~state.given_up),
            successor=state.successor.restarted(lost, state.x, state.z),
        )


def _least_radius(problem: Problem, start: LowerModel, fallen: Scalars, L: Scalars) -> Scalars:
    """|x_0 - x*|^2 is at least this, by the gradient at x_0.

    F(x_0) - F* <= |v| |x_0 - x*| with the shortest subgradient v of F at x_0, which L (x_0 - prox(x_0 - g/L)) stands
    for: the weight at which the margin is largest is near (F(x_0) - F(x)) / |v|^2.
    """
    v = L.unsqueeze(1) * (start.x0 - problem.descended(start.x0, start.slope, (1 / L).unsqueeze(1)))
    best = fallen / v.square().sum(1)
    tried = [start.scaled(A).margin(problem, fallen) for A in (best, best / 4)]
    return torch.fmax(tried[0], tried[1]).nan_to_num(nan=0.0).clamp(min=0)


def _proved(
    problem: Problem, model: LowerModel, fallen: Scalars, asked: Scalars, radius: Scalars
) -> tuple[Scalars, Scalars]:
    """(A, R^2): F(x) - F* <= |x_0 - x*|^2 / 2A, and R <= |x_0 - x*|, of which `radius` was known.

    By the margins c of the model with several weights: R^2 is the largest of them, and of the bounds
    (|x_0 - x*|^2 - c) / 2A <= |x_0 - x*|^2 (1 + max(-c, 0)/R^2) / 2A the lowest counts.
    """
    tried = [(A, model.scaled(A).margin(problem, fallen)) for A in (asked * reach for reach in REACHES)]
    for _, c in tried:
        radius = torch.fmax(radius, c)
    weight = torch.zeros_like(asked)
    for A, c in tried:
        weight = torch.fmax(weight, torch.where(c >= 0, A, A * radius / (radius - c)))
    return weight, radius
