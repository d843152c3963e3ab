"""A user's own problems as a family, so that an optimizer can be trained on them."""

from typing import Any, ClassVar

import torch
from torch import Tensor

from sureprox.many.labels import problem_digest
from sureprox.problems import Problem


class GivenProblems:
    """The instances of `problem`, each at most once in what is drawn; those of `validation` judge the training.

    Solves start at zero, and so does training. Hard problems are kept, where random families leave them out.
    """

    name: ClassVar[str] = "given"

    def __init__(self, problem: Problem, validation: Problem) -> None:
        self.problem = problem
        self.validation = validation

    @property
    def n(self) -> int:
        return self.problem.n

    @property
    def described(self) -> dict[str, Any]:
        """For cards, and to know the problems of a run again."""
        form = f"{type(self.problem.f).__name__} + {type(self.problem.r).__name__}"
        return {"form": form, "n": self.n, "count": self.problem.batch, "digest": problem_digest(self.problem)}

    def sample(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        """At most `batch` of the instances, in random order."""
        return _some(self.problem, batch, generator, dtype)

    def sample_validation(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Problem:
        return _some(self.validation, batch, generator, dtype)

    def start(self, batch: int, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
        return torch.zeros(batch, self.n, dtype=dtype, device=generator.device)

    def __repr__(self) -> str:
        return f"GivenProblems({self.problem!r})"


def _some(problem: Problem, batch: int, generator: torch.Generator, dtype: torch.dtype) -> Problem:
    order = torch.randperm(problem.batch, generator=generator, device=generator.device)
    return problem.select(order[:batch].to(problem.device)).to(device=generator.device, dtype=dtype)
