"""PANOC: quasi-Newton steps on the fixed-point residual of the proximal gradient method."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, State, resolve_step_size
from sureprox.problems import Problem

SHARE = 0.95  # gamma, as a part of 1/L
DECREASE = 0.0125  # sigma / gamma; (1 - SHARE) / 2 is what a proximal step gives, the theory wants less
SHORTEST = 1 / 8  # shorter trials are proximal steps
ROUNDING = 8  # units of roundoff of its terms by which an envelope may be wrong


@dataclass(frozen=True)
class PANOCState(State):
    """x is the proximal point z of u."""

    u: Vectors  # where the last accepted gradient was taken
    grad: Vectors  # grad f(u)
    value: Scalars  # f(u)
    envelope: Scalars  # phi(u); the largest number before anything was evaluated
    gamma: Scalars
    direction: Vectors  # d
    tau: Scalars  # of the trial that comes next
    moves: Tensor  # (B, memory, n) changes of u, the latest last
    turns: Tensor  # (B, memory, n) changes of R
    weights: Tensor  # (B, memory) 1 / <move, turn>; 0 where there is none


class PANOC(Optimizer[PANOCState]):
    """u+ = u + (1 - tau) (z - u) + tau d,  z = prox_{gamma r}(u - gamma grad f(u)),  gamma = 0.95/L,

    d = -H R, H the L-BFGS matrix of the last `memory` changes of u and of R = (u - z)/gamma. Of tau = 1, 1/2, 1/4,
    1/8, 0 the first is taken with phi(u+) <= phi(u) - 0.0125 gamma |R|^2, phi being the forward-backward envelope
    phi(u) = f(u) + <grad f(u), z - u> + |z - u|^2 / (2 gamma) + r(z) >= F(z) for gamma <= 1/L.

    A step evaluates f and its gradient once, at u+: where the trial is rejected, x stays and the next tau is tried.
    tau = 0 is a plain proximal step, which cannot fail unless the given 1/L is too long. Then, and where the gradients
    at u and u+ differ by more than L allows, gamma is halved and the memory is dropped. x is z.
    """

    def __init__(self, memory: int = 10) -> None:
        if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
            raise InputError(f"memory is {memory!r}; pass a whole number >= 1, 5 to 20 are usual")
        self.memory = memory

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> PANOCState:
        x = problem.start(x0)
        step = resolve_step_size(problem, step_size)
        zero, nothing = torch.zeros_like(step), torch.zeros_like(x)
        pairs = nothing.unsqueeze(1).repeat(1, self.memory, 1)
        return PANOCState(
            x=x,
            k=0,
            step_size=step,
            u=x,
            grad=nothing,
            value=zero,
            envelope=torch.full_like(step, torch.finfo(step.dtype).max),
            gamma=SHARE * step,
            direction=nothing,
            tau=zero,
            moves=pairs,
            turns=pairs,
            weights=zero.unsqueeze(1).repeat(1, self.memory),
        )

    def query(self, state: PANOCState) -> Vectors:
        """The trial u+."""
        tau = state.tau.unsqueeze(1)
        return state.u + (1 - tau) * (state.x - state.u) + tau * state.direction

    def step(self, problem: Problem, state: PANOCState) -> PANOCState:
        u = self.query(state)
        value, grad = problem.f.value_and_grad(problem.centred(u))
        x, envelope, doubt = forward_backward(problem, u, value, grad, state.gamma)
        residual = (u - x) / state.gamma.unsqueeze(1)
        before = (state.u - state.x) / state.gamma.unsqueeze(1)
        lower = envelope <= state.envelope - DECREASE * state.gamma * before.square().sum(1) + doubt
        steep = _is_steep(state, u, grad)
        accepted = lower & ~steep & torch.isfinite(u).all(1) & torch.isfinite(grad).all(1)
        too_long = steep | (~accepted & (state.tau == 0))
        moves, turns, weights = self._remembered(state, u - state.u, residual - before, accepted)
        direction = -_inverse_hessian_times(residual, moves, turns, weights, state.gamma)
        direction = torch.where(torch.isfinite(direction).all(1, keepdim=True), direction, x - u)
        halved = torch.where(state.tau > SHORTEST, state.tau / 2, 0.0)
        after = replace(
            state,
            x=_where(accepted, x, state.x),
            k=state.k + 1,
            u=_where(accepted, u, state.u),
            grad=_where(accepted, grad, state.grad),
            value=torch.where(accepted, value, state.value),
            envelope=torch.where(accepted, envelope, state.envelope),
            direction=_where(accepted, direction, state.direction),
            tau=torch.where(accepted, 1.0, halved),
            moves=moves,
            turns=turns,
            weights=weights,
        )
        return _shortened(problem, after, too_long)

    def _remembered(
        self, state: PANOCState, move: Vectors, turn: Vectors, accepted: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The pairs with one more, where it was `accepted` and the curvature along it is positive."""
        product = (move * turn).sum(1)
        sizes = _norm(move) * _norm(turn)
        taken = accepted & (product > torch.finfo(product.dtype).eps * sizes)
        weight = torch.where(taken, 1 / torch.where(taken, product, 1.0), 0.0)
        pushed = [
            torch.cat([old[:, 1:], new.unsqueeze(1)], 1)
            for old, new in ((state.moves, move), (state.turns, turn), (state.weights, weight))
        ]
        moves, turns, weights = state.moves, state.turns, state.weights
        wide = taken.view(-1, 1, 1)
        return (
            torch.where(wide, pushed[0], moves),
            torch.where(wide, pushed[1], turns),
            torch.where(taken.unsqueeze(1), pushed[2], weights),
        )


def forward_backward(
    problem: Problem, u: Vectors, value: Scalars, grad: Vectors, gamma: Scalars
) -> tuple[Vectors, Scalars, Scalars]:
    """z = prox_{gamma r}(u - gamma g), phi(u), and by how much rounding may have changed phi."""
    z = problem.descended(u, grad, gamma.unsqueeze(1))
    penalty, move = problem.r.value(problem.centred(z)), z - u
    envelope = value + (grad * move).sum(1) + move.square().sum(1) / (2 * gamma) + penalty
    return z, envelope, ROUNDING * torch.finfo(u.dtype).eps * (value.abs() + penalty.abs())


def _is_steep(state: PANOCState, u: Vectors, grad: Vectors) -> Tensor:
    """Whether <grad f(u+) - grad f(u), u+ - u> > L |u+ - u|^2, L = 0.95/gamma, beyond rounding."""
    move, turn = u - state.u, grad - state.grad
    limit = SHARE / state.gamma
    length = _norm(move)
    sizes = _norm(grad) + _norm(state.grad) + limit * (_norm(u) + _norm(state.u))
    doubt = ROUNDING * torch.finfo(u.dtype).eps * sizes
    begun = state.envelope < torch.finfo(u.dtype).max
    steep: Tensor = (turn * move).sum(1) > (1.001 * limit * length + doubt) * length
    return begun & steep


def _inverse_hessian_times(residual: Vectors, moves: Tensor, turns: Tensor, weights: Tensor, gamma: Scalars) -> Vectors:
    """H R by the two loops of L-BFGS; H starts at <s, y>/<y, y> of the latest pair (s, y), at gamma without one."""
    q = residual
    shares: list[Tensor] = []
    for i in reversed(range(moves.shape[1])):
        share = (weights[:, i] * (moves[:, i] * q).sum(1)).unsqueeze(1)
        q = q - share * turns[:, i]
        shares.append(share)
    steepness = weights[:, -1] * turns[:, -1].square().sum(1)
    known = steepness > 0
    q = torch.where(known, 1 / torch.where(known, steepness, 1.0), gamma).unsqueeze(1) * q
    for i, share in enumerate(reversed(shares)):
        q = q + moves[:, i] * (share - (weights[:, i] * (turns[:, i] * q).sum(1)).unsqueeze(1))
    return q


def _shortened(problem: Problem, state: PANOCState, where: Tensor) -> PANOCState:
    """With half of gamma, without memory and with a proximal step from u next, in those instances."""
    gamma = torch.where(where, state.gamma / 2, state.gamma)
    x, envelope, _ = forward_backward(problem, state.u, state.value, state.grad, gamma)
    begun = where & (state.envelope < torch.finfo(gamma.dtype).max)
    return replace(
        state,
        x=_where(begun, x, state.x),
        envelope=torch.where(begun, envelope, state.envelope),
        gamma=gamma,
        tau=torch.where(where, 0.0, state.tau),
        weights=torch.where(where.unsqueeze(1), 0.0, state.weights),
    )


def _where(mask: Tensor, new: Vectors, old: Vectors) -> Vectors:
    return torch.where(mask.unsqueeze(1), new, old)


def _norm(vectors: Vectors) -> Scalars:
    norm: Tensor = torch.linalg.vector_norm(vectors, dim=1)
    return norm
