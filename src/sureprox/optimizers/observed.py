"""One step and the objective at the point it starts from, for the price of the step."""

from sureprox.errors import InputError
from sureprox.optimizers.base import Optimizer, S
from sureprox.problems import Problem
from sureprox.types import Scalars, Vectors


class ObservedProblem(Problem):
    """The same problem, which notes f(x) whenever grad f(x) is asked for: both need the same product A x."""

    def __init__(self, problem: Problem) -> None:
        self.f = problem.f
        self.r = problem.r
        self.shift = problem.shift
        self.noted: Scalars | None = None

    def grad(self, x: Vectors) -> Vectors:
        self.noted, gradient = self.f.value_and_grad(self.centred(x))
        return gradient


def observed_step(optimizer: Optimizer[S], problem: Problem, state: S) -> tuple[Scalars, S]:
    """F at the point of `state`, and the next state. For optimizers that take the gradient once, at that point."""
    observed = ObservedProblem(problem)
    after = optimizer.step(observed, state)
    if observed.noted is None:
        kind = type(optimizer).__name__
        raise InputError(f"{kind} does not ask for the gradient at its point; call step and problem.objective instead")
    return observed.noted + problem.r.value(problem.centred(state.x)), after
