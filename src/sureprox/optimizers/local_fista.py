"""FISTA whose L is the curvature along its own steps."""

from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, State, resolve_step_size
from sureprox.problems import Problem
from sureprox.problems.smooth import LinearModel

REJECTED = 1.5  # after a rejected step L becomes this multiple of the curvature along it,
MARGIN = 1.05  # after an accepted step it is at least this multiple of that,
FALL = 0.85  # and at least this part of itself
TRIVIAL = 16  # units of roundoff; a relative move of so little tells nothing about the curvature
ROUNDING = 8  # units of roundoff of its terms by which a difference of values may be wrong


@dataclass(frozen=True)
class LocalFISTAState(State):
    y: Vectors  # the extrapolated point, where the gradient is taken
    t: Scalars
    L: Scalars  # local; 1/step_size at the start
    image: Tensor  # of x, see `_image`
    image_y: Tensor


class LocalFISTA(Optimizer[LocalFISTAState]):
    """FISTA with L from c = 2 [f(z) - f(y) - <grad f(y), z - y>] / |z - y|^2,  z = prox_{r/L}(y - grad f(y)/L):

    if c > L the step is rejected, x and y stay and L+ = 1.5 c; else x+ = z, L+ = max(1.05 c, 0.85 L),
    t+ = (1 + sqrt(1 + 4 t^2 L+/L))/2 and y+ = x+ + (t - 1)/t+ (x+ - x). With `restart`, t = 1 and y+ = x+ for each
    instance alone whenever <y - x+, x+ - x> > 0. Without it F(x) - F* <= L |x_0 - x*|^2 / (2 (t^2 - t)) from the first
    accepted step on.

    A step needs one product with A and one with A', and one of A at the start: the curvature comes from the images that
    give the gradient. An f of your own is asked for value and gradient at y, and for the value at z.
    """

    def __init__(self, restart: bool = True) -> None:
        self.restart = restart

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> LocalFISTAState:
        x = problem.start(x0)
        step = resolve_step_size(problem, step_size)
        image = _image(problem, x)
        return LocalFISTAState(
            x=x, k=0, step_size=step, y=x, t=torch.ones_like(step), L=1 / step, image=image, image_y=image
        )

    def query(self, state: LocalFISTAState) -> Vectors:
        return state.y

    def step(self, problem: Problem, state: LocalFISTAState) -> LocalFISTAState:
        L, t = state.L, state.t
        value, grad = _looked(problem, state)
        x = problem.descended(state.y, grad, (1 / L).unsqueeze(1))
        image = _image(problem, x)
        low, high = _curvature(problem, state, value, grad, x, image)
        finite = torch.isfinite(x).all(1) & torch.isfinite(low)
        accepted = finite & (low <= L * (1 + ROUNDING * torch.finfo(L.dtype).eps))
        higher = torch.where(finite, REJECTED * low, 2 * L)
        # where rounding hides the curvature, the given L is the best that is known
        unsure = torch.minimum(MARGIN * high, torch.maximum(L, 1 / state.step_size))
        lower = torch.maximum(torch.maximum(MARGIN * low, unsure), FALL * L)
        L_next = torch.where(accepted, lower, higher)
        move = x - state.x
        if self.restart:
            against = ((state.y - x) * move).sum(1) > 0
            t = torch.where(against, 1.0, t)
        t_next = (1 + torch.sqrt(1 + 4 * t.square() * L_next / L)) / 2
        momentum, take = ((t - 1) / t_next).unsqueeze(1), accepted.unsqueeze(1)
        return replace(
            state,
            x=torch.where(take, x, state.x),
            k=state.k + 1,
            y=torch.where(take, x + momentum * move, state.y),
            t=torch.where(accepted, t_next, state.t),
            L=L_next,
            image=torch.where(take, image, state.image),
            image_y=torch.where(take, image + momentum * (image - state.image), state.image_y),
        )


def _known(problem: Problem) -> LinearModel | None:
    """f, if it is a function of images A x (`can_stack`)."""
    f = problem.f
    return f if isinstance(f, LinearModel) and f.can_stack else None


def _image(problem: Problem, x: Vectors) -> Tensor:
    """What f depends on: A x - b or the like, affine in x; nothing, (B, 0), for an f without known structure."""
    f = _known(problem)
    return x[:, :0] if f is None else f.inner(problem.centred(x))


def _looked(problem: Problem, state: LocalFISTAState) -> tuple[Scalars, Vectors]:
    """f and its gradient at y; the value only where it is needed."""
    f = _known(problem)
    if f is None:
        value, grad = problem.f.value_and_grad(problem.centred(state.y))
        return value, grad
    return torch.zeros_like(state.t), f.grad_at(state.image_y)


def _curvature(
    problem: Problem, state: LocalFISTAState, value: Scalars, grad: Vectors, x: Vectors, image: Tensor
) -> tuple[Scalars, Scalars]:
    """(low, high): the curvature between y and x lies in between, whatever rounding has done.

    (0, L/1.05), which leave L unchanged, where x is y up to rounding.
    """
    f, step, eps = _known(problem), x - state.y, torch.finfo(x.dtype).eps
    if f is None:
        there, slope = problem.f.value(problem.centred(x)), (grad * step).sum(1)
        rise = there - value - slope
        doubt = ROUNDING * eps * (there.abs() + value.abs() + slope.abs())
    else:
        rise = f.bregman(image - state.image_y, state.image_y)
        doubt = torch.zeros_like(rise)
    square = step.square().sum(1)
    still = square <= (TRIVIAL * eps) ** 2 * x.square().sum(1)
    halves = torch.where(still, 1.0, square) / 2
    low, high = (rise - doubt).clamp(min=0) / halves, (rise + doubt).clamp(min=0) / halves
    return torch.where(still, 0.0, low), torch.where(still, state.L / MARGIN, high)
