"""A lower bound on F from the gradients a FISTA track has seen: the a-posteriori rate certificate."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Batched
from sureprox.problems import Problem
from sureprox.problems.smooth import LinearModel

ROUNDING = 64  # units of roundoff of its largest term by which the certificate is weakened


@dataclass(frozen=True)
class LowerModel(Batched):
    """l(x) = sum_i a_i [f(y_i) + <g_i, x - y_i> + r(x)] <= A F(x), A = sum_i a_i, kept relative to the start x_0."""

    x0: Vectors
    z0: Tensor  # its image, see `Points`
    slope: Vectors  # sum_i a_i g_i
    deficit: Scalars  # sum_i a_i [f(x_0) - f(y_i) - <g_i, x_0 - y_i>]
    weight: Scalars  # A

    def extended(
        self, problem: Problem, y: Vectors, zy: Tensor, g: Vectors, a: Scalars, total: Scalars
    ) -> "LowerModel":
        """With one more gradient g at y (image zy), of weight a; the others are scaled so that all sum to `total`."""
        f = problem.f
        if isinstance(f, LinearModel) and f.can_stack:
            short = f.bregman(self.z0 - zy, zy)
        else:
            short = (f.value(self.z0) - f.value(zy) - (g * (self.x0 - y)).sum(1)).clamp(min=0)
        scale = torch.where((a > 0) & (self.weight > 0), (total - a) / self.weight, 1.0)
        return LowerModel(
            x0=self.x0,
            z0=self.z0,
            slope=self.slope * scale.unsqueeze(1) + torch.where((a > 0).unsqueeze(1), a.unsqueeze(1) * g, 0.0),
            deficit=self.deficit * scale + torch.where(a > 0, a * short, 0.0),
            weight=self.weight * scale + a,
        )

    def scaled(self, share: Scalars) -> "LowerModel":
        """With all weights multiplied by `share`."""
        return replace(
            self,
            slope=self.slope * share.unsqueeze(1),
            deficit=self.deficit * share,
            weight=self.weight * share,
        )

    def margin(self, problem: Problem, fallen: Scalars) -> Scalars:
        """c, of any sign, with F(x) - F* <= (|x_0 - x*|^2 - c) / 2A and c <= |x_0 - x*|^2, F(x) = F(x_0) - fallen.

        Since l(x*) <= A F*, with psi = min_x 1/2 |x - x_0|^2 + l(x) <= 1/2 |x* - x_0|^2 + A F*, it is 2 (psi - A F(x)).
        The minimum is attained at p = prox_{A r}(x_0 - slope). NaN after an overflow.
        """
        A = self.weight
        p = problem.prox(self.x0 - self.slope, A.clamp(min=torch.finfo(A.dtype).tiny).unsqueeze(1))
        d = p - self.x0
        y, start = problem.centred(p), problem.centred(self.x0)
        terms = [
            d.square().sum(1) / 2,
            (self.slope * d).sum(1),
            A * problem.r.difference(y, start),
            -self.deficit,
            A * fallen,
        ]
        exact = torch.stack(terms, 1)
        doubt = ROUNDING * torch.finfo(A.dtype).eps * exact.abs().sum(1)
        return 2 * (exact.sum(1) - doubt)

    def credit(self, problem: Problem, fallen: Scalars) -> Scalars:
        """max(c, 0), c being the `margin`; zero as long as A is zero."""
        margin = self.margin(problem, fallen)
        return torch.where(self.weight > 0, margin, 0.0).clamp(min=0).nan_to_num(nan=0.0)


def lower_model(x0: Vectors, z0: Tensor) -> LowerModel:
    nothing = torch.zeros_like(x0[:, 0])
    return LowerModel(x0=x0, z0=z0, slope=torch.zeros_like(x0), deficit=nothing, weight=nothing)
