"""A problem at a point whose gradient is known already."""

from sureprox.problems import Problem
from sureprox.types import Steps, Vectors


class KnownGradient(Problem):
    """The same problem; the gradient at this very tensor `x` is not computed again."""

    def __init__(self, problem: Problem, x: Vectors, gradient: Vectors) -> None:
        self.f = problem.f
        self.r = problem.r
        self.shift = problem.shift
        self.x = x
        self.gradient = gradient

    def grad(self, x: Vectors) -> Vectors:
        return self.gradient if x is self.x else super().grad(x)

    def proximal_step(self, x: Vectors, step: Steps) -> Vectors:
        if x is not self.x:
            return super().proximal_step(x, step)
        return self.uncentred(self.r.prox(self.centred(x) - step * self.gradient, step))
