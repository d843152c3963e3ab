"""Sure: a learned correction, coordinate by coordinate, of the best classical method."""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Generator, Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Seen, State, resolve_step_size
from sureprox.optimizers.learned import LearnedOptimizer, choice
from sureprox.optimizers.sure_network import SureNetwork
from sureprox.optimizers.sure_place import Features, Form
from sureprox.optimizers.sure_sight import Given, conjugate_share, sight
from sureprox.problems import Problem
from sureprox.problems.forms import hessian_diagonal

REACH = {Features.ABSOLUTE: 8.0, Features.GENERAL: 32.0}  # R lies between 1 / (REACH L) and REACH / L
MOMENTUM = (0.02, 0.995)  # FISTA's is kept inside, where its logit is finite
UNKNOWN = 0.1  # the diagonal of the Hessian over L, where nothing is known of it
RELUCTANCE = 1.0  # an untrained network takes sigmoid(-RELUCTANCE) of the conjugate direction


@dataclass(frozen=True)
class SureState(State):
    x_before: Vectors
    g_before: Vectors  # gradient at x_before
    G_before: Vectors  # L (x - prox(x - g/L)) a step ago
    side_before: Vectors  # sign of the slope of r a step ago
    G_first: Scalars  # |G| at the start
    t: Scalars  # t_k of FISTA
    momentum: Scalars  # FISTA's, for the next step
    fresh: Scalars  # 1 before the first step, then 0
    instance_h: Tensor  # (B, instance)
    instance_c: Tensor
    R: Vectors  # R and P are for inspection, without gradient: as applied in the last step, zero before the first
    P: Vectors
    coordinate_h: Tensor | None = None  # (B, coordinate, n); None where coordinates have no memory of their own
    coordinate_c: Tensor | None = None
    diagonal: Vectors | None = None  # of a bound of the Hessian of f, over L; None where the features leave it out


class Sure(LearnedOptimizer[SureState]):
    """x+ = prox_{r,R}( x + P d - R (g + gamma P dg) ),  d = x - x_before,  dg = g - g_before,  g = grad f(x).

    R = reach^tanh(o_1) / L, P = sigmoid(logit(m) + o_2), gamma = 2 sigmoid(o_3), coordinate-wise; m is the momentum of
    FISTA with adaptive restart, kept inside `MOMENTUM`, and o the output of `SureNetwork`. With o = 0 this is
    restarted FISTA but for those bounds: for quadratic f, g + P dg is the gradient at the extrapolated point x + P d,
    and for others close to it. Each step needs one gradient.

    The network sees ratios and signs only (`sure_features`): moving the problem moves the path, and multiplying b, lam
    and x_0, or A and lam, by a number scales it.

    `coordinate`: width of the LSTM of the coordinates; 0 leaves one R, P, gamma for all coordinates of an instance,
    which is much cheaper. `instance`: width of the LSTM of the instances. `conjugate=True` adds an output o_4: a share
    s = sigmoid(o_4 - 1) of the step becomes, where r is smooth, one of conjugate gradients. There x, before anything
    else, takes the share s of an exact line search along d, and P moves to the Hestenes-Stiefel beta.

    `features` says what it sees of r, and how far a step may reach. "l1" was made for r = lam |x|_1, reach 8. "general"
    is for every separable r, reach 32: l2 x belongs to the gradient, bounds differ from kinks, and it sees the
    diagonal of a bound of the Hessian (`hessian_diagonal`; a neutral 1/10 of L where f says nothing of it).

    `detached_features` cuts the features off from the gradient, which training needs and derivatives do not want.
    """

    same_every_step = True
    kind = "sure"

    def __init__(
        self, coordinate: int = 8, instance: int = 32, conjugate: bool = False, features: str = Features.ABSOLUTE
    ) -> None:
        super().__init__()
        self.features = choice(Features, "features", features)
        if not isinstance(conjugate, bool):
            raise InputError(f"conjugate is {conjugate!r}; it must be True or False")
        self.network = SureNetwork(instance, coordinate, 4 if conjugate else 3, self.features)
        self.conjugate = conjugate
        self.detached_features = False

    @property
    def arguments(self) -> dict[str, Any]:
        return {
            "coordinate": self.network.coordinate,
            "instance": self.network.instance,
            "conjugate": self.conjugate,
            "features": self.features.value,
        }

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> SureState:
        self.check_device(problem)
        x, step = problem.start(x0), resolve_step_size(problem, step_size)
        zeros, nothing, one = torch.zeros_like(x), torch.zeros_like(step), torch.ones_like(step)
        memory = zeros.new_zeros(problem.batch, self.network.instance)
        small = zeros.new_zeros(problem.batch, self.network.coordinate, problem.n) if self.network.coordinate else None
        return SureState(
            x=x,
            k=0,
            step_size=step,
            x_before=x,
            g_before=zeros,
            G_before=zeros,
            side_before=zeros,
            G_first=one,
            t=one,
            momentum=nothing,
            fresh=one,
            instance_h=memory,
            instance_c=memory,
            R=zeros,
            P=zeros,
            coordinate_h=small,
            coordinate_c=small,
            diagonal=self._diagonal(problem, step),
        )

    def _diagonal(self, problem: Problem, step: Scalars) -> Vectors | None:
        """Where f says nothing of it, `UNKNOWN`."""
        if self.features is not Features.GENERAL or not self.network.coordinate:
            return None
        found = hessian_diagonal(problem)
        share = torch.full_like(step, UNKNOWN).unsqueeze(1) if found is None else found * step.unsqueeze(1)
        return share.expand(problem.batch, problem.n)

    def _form(self, problem: Problem, x: Vectors, diagonal: Vectors | None) -> Form | None:
        """What the general features ask of r at x."""
        if self.features is not Features.GENERAL:
            return None
        y = problem.centred(x)
        l2 = problem.r.curvature(y)
        return Form(l2, l2 * y, torch.ones_like(y) if diagonal is None else diagonal)

    def move(self, problem: Problem, state: SureState, seen: Seen) -> SureState:
        x, g, inverse_L = state.x, seen.grad, state.step_size.unsqueeze(1)
        fresh = state.fresh.unsqueeze(1) > 0
        d, dg = x - state.x_before, torch.where(fresh, 0.0, g - state.g_before)

        seen_x, seen_g, seen_d, seen_dg = [v.detach() if self.detached_features else v for v in (x, g, d, dg)]
        G = (seen_x - problem.prox(seen_x - inverse_L * seen_g, inverse_L)) / inverse_L
        given = Given(
            seen_g,
            *problem.subdiff(seen_x),
            G,
            seen_d,
            seen_dg,
            state.G_before,
            state.side_before,
            state.G_first,
            state.momentum,
            state.fresh,
            L=1 / state.step_size,
            form=self._form(problem, seen_x, state.diagonal),
        )
        view = sight(given, self.network.coordinate > 0)
        out, instance = self.network.instances(view.instance, (state.instance_h, state.instance_c))
        h, c = state.coordinate_h, state.coordinate_c
        if h is not None and c is not None:
            out, (h, c) = self.network.coordinates(view.coordinate, instance[0], out, (h, c))

        o = out.unbind(1)
        R = inverse_L * torch.exp(math.log(REACH[self.features]) * torch.tanh(o[0]))
        P = torch.sigmoid(torch.logit(state.momentum.clamp(*MOMENTUM)).unsqueeze(1) + o[1])
        ahead = 2 * torch.sigmoid(o[2]) * P  # how far the gradient is extrapolated
        if self.conjugate:
            share = torch.where(view.stable, torch.sigmoid(o[3] - RELUCTANCE), 0.0)
            line = view.line.unsqueeze(1)
            turned = torch.where(view.stable, (view.slope + line * view.bent) * view.bent, 0.0)
            beta = conjugate_share(R, turned, view.curvature).unsqueeze(1)
            P, ahead = torch.lerp(P.expand_as(share), beta.expand_as(share), share), ahead * (1 - share)
            base, g = x + share * line * d, g + share * line * dg
        else:
            base = x
        y = base + P * d
        x_next = problem.prox(y - R * (g + ahead * dg), R)

        against = ((y - x_next) / R * (x_next - x)).sum(1) > 0
        t = torch.where(against, 1.0, state.t)
        t_next = (1 + torch.sqrt(1 + 4 * t.square())) / 2
        return replace(
            state,
            x=x_next,
            k=state.k + 1,
            x_before=base,
            g_before=g,
            G_before=G,
            side_before=view.side,
            G_first=view.G_first,
            t=t_next,
            momentum=(t - 1) / t_next,
            fresh=torch.zeros_like(state.fresh),
            instance_h=instance[0],
            instance_c=instance[1],
            R=R.detach().expand_as(x),
            P=P.detach().expand_as(x),
            coordinate_h=h,
            coordinate_c=c,
        )
