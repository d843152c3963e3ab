"""What the points of several solvers are worth, by one measure, and the table and the record that say so."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import sureprox as sp

SAME = 1e-6  # of F: two answers that differ by no more are the same


@dataclass(frozen=True)
class Answer:
    """The points x (k, n) of the first k instances of a batch, and the seconds of one core that they took."""

    name: str
    x: Tensor
    seconds: float


@torch.no_grad()
def judged(problem: sp.Problem, answers: Iterable[Answer]) -> dict[str, dict[str, float]]:
    """By name: seconds, the largest duality gap over F, and the largest (F - the lowest F of all answers) over that.

    All in float64; a point outside the domain has F = inf.
    """
    answers, exact = list(answers), problem.to(dtype=torch.float64)
    lowest = torch.full((problem.batch,), torch.inf, dtype=torch.float64)
    seen = {}
    for answer in answers:
        first = torch.arange(len(answer.x))
        some = exact.select(first)
        seen[answer.name] = some.certificate(answer.x.double())
        lowest[first] = torch.minimum(lowest[first], seen[answer.name].objective)
    rows = {}
    for answer in answers:
        value, gap = seen[answer.name].objective, seen[answer.name].gap
        excess = (value - lowest[: len(value)]) / lowest[: len(value)]
        rows[answer.name] = {
            "instances": len(value),
            "seconds": round(answer.seconds, 3),
            "milliseconds_each": round(1e3 * answer.seconds / len(value), 4),
            "largest_gap_over_F": float((gap / value).max()),
            "largest_excess_over_the_best": float(excess.max()),
            "share_within_1e-6_of_the_best": float((excess <= SAME).double().mean()),
        }
    return rows


def times_faster(rows: dict[str, dict[str, float]], ours: str) -> dict[str, float]:
    """Milliseconds an instance of each of the others over ours."""
    mine = rows[ours]["milliseconds_each"]
    return {name: round(row["milliseconds_each"] / mine, 2) for name, row in rows.items() if name != ours}


def show(rows: dict[str, dict[str, Any]]) -> None:
    print(f"{'':<34}{'instances':>10}{'seconds':>9}{'ms each':>10}{'gap / F':>10}{'over best':>11}{'same':>7}")
    for name, row in rows.items():
        print(
            f"{name:<34}{row['instances']:>10,}{row['seconds']:>9.2f}{row['milliseconds_each']:>10.3f}"
            f"{row['largest_gap_over_F']:>10.1e}{row['largest_excess_over_the_best']:>11.1e}"
            f"{row['share_within_1e-6_of_the_best']:>7.0%}"
        )
