"""What the points of several solvers are worth, by one measure, and the table and the record that say so."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import sureprox as sp

Measure = Callable[[Tensor], tuple[Tensor, Tensor]]  # x (k, n): F and an upper bound on F - F*, each (k,)
SAME = 1e-6  # of F: two answers that differ by no more are the same


@dataclass(frozen=True)
class Answer:
    """The points x (k, n) of the first k instances of a batch, and the processor seconds that they took."""

    name: str
    x: Tensor
    seconds: float


def by_certificate(problem: sp.Problem) -> Measure:
    """F and the duality gap of points of the first instances of a problem, in float64; outside the domain F = inf."""
    exact = problem.to(dtype=torch.float64)

    @torch.no_grad()
    def measure(x: Tensor) -> tuple[Tensor, Tensor]:
        seen = exact.select(torch.arange(len(x))).certificate(x.double())
        return seen.objective, seen.gap

    return measure


def judged(measure: Measure, answers: Iterable[Answer]) -> dict[str, dict[str, float]]:
    """By name: seconds, the largest gap over F, and the largest (F - the lowest F of all answers) over that."""
    answers = list(answers)
    lowest = torch.full((max(len(answer.x) for answer in answers),), torch.inf, dtype=torch.float64)
    seen = {}
    for answer in answers:
        value, _ = seen[answer.name] = measure(answer.x)
        lowest[: len(value)] = torch.minimum(lowest[: len(value)], value)
    rows = {}
    for answer in answers:
        value, gap = seen[answer.name]
        excess = (value - lowest[: len(value)]) / lowest[: len(value)]
        rows[answer.name] = {
            "instances": len(value),
            "seconds": round(answer.seconds, 3),
            "ms each": round(1e3 * answer.seconds / len(value), 4),
            "largest gap / F": float((gap / value).max()),
            "above the best / F": float(excess.max()),
            "share within 1e-6": float((excess <= SAME).double().mean()),
        }
    return rows


def times_faster(rows: dict[str, dict[str, float]], ours: str) -> dict[str, float]:
    """Milliseconds an instance of each of the others over ours."""
    mine = rows[ours]["ms each"]
    return {name: round(row["ms each"] / mine, 2) for name, row in rows.items() if name != ours}


def show(rows: dict[str, dict[str, Any]]) -> None:
    print(f"{'':<34}{'instances':>10}{'seconds':>9}{'ms each':>10}{'gap / F':>10}{'over best':>11}{'same':>7}")
    for name, row in rows.items():
        print(
            f"{name:<34}{row['instances']:>10,}{row['seconds']:>9.2f}{row['ms each']:>10.3f}"
            f"{row['largest gap / F']:>10.1e}{row['above the best / F']:>11.1e}"
            f"{row['share within 1e-6']:>7.0%}"
        )
