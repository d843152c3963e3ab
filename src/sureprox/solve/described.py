"""A solution in a few lines: what `repr` shows."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from sureprox.solve.solution import Solution


def described(solution: "Solution") -> str:
    """How many problems converged, and the range of their iterations, gaps and nonzeros."""
    B, n = solution.x.shape
    problems = "1 problem" if B == 1 else f"{B:,} problems"
    if len(solution.grid) > 1:
        problems += f" ({' x '.join(map(str, solution.grid))})"
    lines = {
        "iterations": span(solution.iterations.tolist()),
        "relative gap": _gap(solution),
        "nonzeros": f"{span((solution.x != 0).sum(1).tolist())} of {n:,}",
        "found by": _counted(solution.track),
        "engine": f"{solution.engine}, {str(solution.x.dtype).removeprefix('torch.')} on {solution.x.device}",
    }
    head = f"Solution of {problems} in {n:,} unknowns: {_counted(solution.status, always=True)}"
    return "\n".join([head, *(f"  {name:12}  {text}" for name, text in lines.items())])


def span(values: list[int]) -> str:
    """12, or 3 to 12."""
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


def _gap(solution: "Solution") -> str:
    gap, objective = solution.gap.detach(), solution.objective.detach().abs()
    if not bool(torch.isfinite(gap).all()):
        return f"unknown; KKT residual at most {float(solution.kkt.detach().max()):.1e}"
    return f"at most {float(torch.where(objective > 0, gap / objective, gap).max()):.1e}"


def _counted(names: Iterable[object], always: bool = False) -> str:
    """sure 18, fista 2; a single name alone."""
    counts = Counter(map(str, names))
    if len(counts) == 1 and not always:
        return next(iter(counts))
    return ", ".join(f"{count:,} {name}" if always else f"{name} {count:,}" for name, count in counts.most_common())
