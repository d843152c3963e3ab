"""What a kernel may compute in a solve. Every field is a function, or None for the plain PyTorch that specifies it.

A plan fills in what exists for a form of problem, once, before the first iteration, and hands the value down.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Operations:
    """Each function has the arguments of the plain one that its comment names."""

    gradient: Function | None = None  # (problem, x): Problem.grad
    observe: Function | None = None  # (problem, x): f and its gradient, Smooth.value_and_grad
    move: Function | None = None  # (optimizer, problem, state, seen): Optimizer.move
    step: Function | None = None  # (optimizer, problem, state): Optimizer.step, one read of A for gradient and move
    look: Function | None = None  # (stack, x): Stacked.look
    ahead: Function | None = None  # (stack, x, before, momentum): Stacked.ahead
    compare: Function | None = None  # (stack, new, base, g, best, L): Stacked.compare
    follow: Function | None = None  # (certified, stack, state, inner): Certified.follow
    turn: Function | None = None  # (cheap, problem, state): CertifiedCheap.turn
    follow_cheap: Function | None = None  # (stack, state, inner): CertifiedCheap.follow, before anything is given up
    certificate: Function | None = None  # (problem, x in float64): Problem.certificate in float64
    largest: Function | None = None  # (stack of matrices): spectrum.largest_eigenvalue
    points: Function | None = None  # (attempt): support.newton.Attempt.plain
    solved: Function | None = None  # (problem, tol, floor, start, chain): working_set.solved
    active_set: Function | None = None  # (candidates): support.newton.Candidates.active_set


PLAIN = Operations()
