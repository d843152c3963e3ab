"""An optimizer together with the operations that a plan offers it."""

from torch import Generator

from sureprox.base.operations import Operations
from sureprox.base.types import Scalars, Vectors
from sureprox.optimizers.base import Optimizer, S, Seen
from sureprox.problems import Problem
from sureprox.problems.checks import trusted


class Planned(Optimizer[S]):
    """The steps of `optimizer`, each part of them by a function of `operations` where there is one."""

    def __init__(self, optimizer: Optimizer[S], operations: Operations) -> None:
        self.optimizer = optimizer
        self.operations = operations

    def init(
        self, problem: Problem, x0: Vectors, *, generator: Generator | None = None, step_size: Scalars | None = None
    ) -> S:
        if step_size is None and self.optimizer.uses_lipschitz:
            step_size = estimated_step(problem, self.operations)
        return self.optimizer.init(problem, x0, generator=generator, step_size=step_size)

    def step(self, problem: Problem, state: S) -> S:
        optimizer, operations = self.optimizer, self.operations
        if not optimizer.looks_once:  # a guarantee, which hands the operations on, or a method with products of its own
            return optimizer.step(problem, state)
        if operations.step is not None:
            whole: S = operations.step(optimizer, problem, state)
            return whole
        y = optimizer.query(state)
        seen = Seen(problem.grad(y) if operations.gradient is None else operations.gradient(problem, y))
        if operations.move is None:
            return optimizer.move(problem, state, seen)
        after: S = operations.move(optimizer, problem, state, seen)
        return after


def estimated_step(problem: Problem, operations: Operations) -> Scalars:
    """1/L."""
    if operations.largest is None:
        return trusted(problem.step_size(), everywhere=True)
    L: Scalars = problem.f.lipschitz(largest=operations.largest)  # type: ignore[call-arg]
    # unchecked here; `Run.finish` ends instances whose step size is not usable
    return trusted(problem.step_size(L), everywhere=True)
