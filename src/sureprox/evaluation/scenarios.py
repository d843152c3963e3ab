"""What is solved in one curve of a figure: where the problems come from, and what is moved."""

import re
from dataclasses import dataclass
from enum import StrEnum

from sureprox.base.errors import InputError
from sureprox.base.types import Vectors
from sureprox.evaluation.paper_prox import PaperProxProblem
from sureprox.problems import Problem

FAMILY = {  # source of the problems: the family whose optimizers are run on them
    "lasso": "lasso",
    "logistic": "logistic",
    "patches": "lasso",
    "ionosphere": "logistic",
    "spambase": "logistic",
}
_NAME = re.compile(r"(?P<source>\w+)(/(?P<what>start|objective)(?P<shift>[+-][^/]+)(?P<paper>/paper-prox)?)?")


class Move(StrEnum):
    """What is moved, on every coordinate by the same number."""

    NONE = "none"
    START = "start"  # trigger 1: x_0 + s
    OBJECTIVE = "objective"  # trigger 2: F'(x) = F(x + t), exact proximal operator
    PAPER_PROX = "paper-prox"  # trigger 2 with the proximal operator as the paper prints it (see `PaperProxProblem`)


@dataclass(frozen=True)
class Scenario:
    """A source of problems and a move.

    Starts are the same standard normal draw x_0 in all of them. So trigger 2 by t starts, seen from the minimiser,
    where trigger 1 by s = t does, and an optimizer whose features hold no x walks the same path: x'_k = x_k - t.
    """

    source: str
    move: Move = Move.NONE
    shift: float = 0.0

    def __post_init__(self) -> None:
        if self.source not in FAMILY:
            raise InputError(f"source is {self.source!r}; choose one of {', '.join(FAMILY)}")
        if (self.move is Move.NONE) != (self.shift == 0) or not abs(self.shift) < float("inf"):
            raise InputError(f"move is {self.move.value!r} by {self.shift}; every move but 'none' needs a number not 0")

    @property
    def family(self) -> str:
        return FAMILY[self.source]

    @property
    def name(self) -> str:
        """For example "lasso", "lasso/start+10", "lasso/objective-50/paper-prox"."""
        if self.move is Move.NONE:
            return self.source
        short = f"{self.shift:+g}"
        shift = short if float(short) == self.shift else f"{self.shift:+}"
        if self.move is Move.PAPER_PROX:
            return f"{self.source}/objective{shift}/paper-prox"
        return f"{self.source}/{self.move.value}{shift}"

    @classmethod
    def parse(cls, name: str) -> "Scenario":
        """The scenario called `name`."""
        found = _NAME.fullmatch(name)
        if found is None or (found["paper"] and found["what"] == "start"):
            raise InputError(f"no scenario {name!r}; names look like lasso/start+10 or lasso/objective-50/paper-prox")
        if found["what"] is None:
            return cls(found["source"])
        try:
            shift = float(found["shift"])
        except ValueError:
            raise InputError(f"scenario {name!r} moves by {found['shift']!r}, which is not a number") from None
        return cls(found["source"], Move.PAPER_PROX if found["paper"] else Move(found["what"]), shift)

    def problem(self, base: Problem) -> Problem:
        """What is minimised."""
        if self.move is Move.OBJECTIVE:
            return base.shifted(self.shift)
        if self.move is Move.PAPER_PROX:
            return PaperProxProblem.of(base.shifted(self.shift))
        return base

    def start(self, x0: Vectors) -> Vectors:
        """Where the optimizer starts."""
        return x0 + self.shift if self.move is Move.START else x0
