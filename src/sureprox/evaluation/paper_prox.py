"""The shifted proximal operator as the paper prints it; wrong, and kept only to reproduce its figures."""

import torch

from sureprox.base.errors import InputError
from sureprox.base.types import Steps, Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, lam_of, shape_of


class PaperProxProblem(Problem):
    """F'(x) = F(x + t) with prox(v) = -t + sign(v) max(0, |v| - lam p + sign(v) t).

    This is the proximal operator of lam |x + t| only where v and v + t have the same sign. Elsewhere, if
    |v + t| > lam p, it returns -t, that is x + t = 0, whatever v is. Near x + t = 0 v has the sign of -t, so that for
    t > 0 no method gets past x + t <= 0, for t < 0 none past x + t >= 0: what is solved is the problem on that orthant.
    The exact operator is `Problem.prox`. Objective, gradient and subdifferential are exact.
    """

    @classmethod
    def of(cls, problem: Problem) -> "PaperProxProblem":
        if shape_of(problem) is not Shape.L1 or problem.shift is None:
            raise InputError(f"the paper's formula is for a shifted L1 penalty, got {problem!r}")
        return cls(problem.f, problem.r, problem.shift)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        assert self.shift is not None
        sign = torch.sign(v)
        size = v.abs() - lam_of(self).unsqueeze(-1) * step + sign * self.shift
        return sign * size.clamp(min=0) - self.shift

    def descended(self, x: Vectors, g: Vectors, step: Steps) -> Vectors:
        return self.prox(x - step * g, step)

    def shifted(self, t: object) -> Problem:
        return self.of(super().shifted(t))

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> Problem:
        return self.of(super().to(device, dtype))

    def select(self, index: torch.Tensor) -> Problem:
        return self.of(super().select(index))
