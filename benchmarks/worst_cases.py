"""Worst cases computed, beside the constants of the theorems on guaranteed solves.

    python benchmarks/worst_cases.py [--part exact | search] [--small]

exact: FISTA's largest F(x_k) - F*, L = |x_0 - x*| = 1, over all f and r, from a semidefinite program whose multipliers
are checked by linear algebra, and the same number attained by f = 0, r = c |x|. Needs cvxpy and Clarabel.

search: the largest F(x_k) - F* that can be made of `Certified`, `Audited` and `CertifiedCheap` on quadratics with three
coordinates, alone, with l1, and with l1 over x >= 0, by an optimizer that knows the solution and does its worst: the
eigenvalues, their directions, x_0 - x*, l1, the subgradient at x* and the points of the optimizer evolve, the worst
twentieth of a population being kept. `--small` tries the script and writes no record.
"""

import argparse
import json
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sureprox.guarantee import Audited, Certified, CertifiedCheap
from sureprox.optimizers import Optimizer, State
from sureprox.penalties import Separable, Zero
from sureprox.problems import LeastSquares, Problem

import _performance_estimation as pep
from _record import RECORDS, write_record

F64 = torch.float64
N = 3  # coordinates
PHASES = (0, 16, 24, 32)  # iterations from which the optimizer stands at another point
KS = (20, 24, 28, 32, 36, 40)
EXACT = (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20)
KINDS = ("quadratic", "with l1", "with l1, x >= 0")
SCHEMES = {"certified": Certified, "audit": Audited, "cheap": CertifiedCheap}
GENES = 2 * N + 3 + 2 * N + N * len(PHASES)  # eigenvalues, x_0, angles, x* and l1, subgradients, points


def theorem(scheme: str, k: int) -> float:
    """Of docs/certified.md, for L = |x_0 - x*| = 1 and no rejected step."""
    return 2 / {"certified": k + 1, "audit": k / 6, "cheap": k // 10 + 1}[scheme] ** 2


def exact() -> list[dict[str, Any]]:
    """k, what the program says, what its multipliers prove, what is attained, and the theorem's bound."""
    found = []
    for k in EXACT:
        task = pep.program(*pep.fista(k))
        value, multipliers = pep.solved(task)
        bound, eigenvalue = pep.proved(task, multipliers)
        row = {"k": k, "program": value, "proved": bound, "smallest_eigenvalue": eigenvalue}
        row |= {"attained": pep.linear_case(*pep.fista(k)), "theorem": theorem("certified", k)}
        row["attained_over_theorem"] = row["attained"] / row["theorem"]
        if k == 5:
            row["multipliers"] = [float(f"{v:.12g}") if v > 1e-7 * multipliers.max() else 0.0 for v in multipliers]
        found.append(row)
        print(row, flush=True)
    return found


def ceiling(scheme: str, k: int) -> float | None:
    """What the proof of the theorem leaves possible, FISTA's steps at their exact worst: a bound for any optimizer.

    Audits at 16 and 32, each passed (2/(K/2)^2 holds) or failed (then FISTA has the next K/2 iterations).
    """
    if scheme != "audit":
        return pep.linear_case(*pep.fista(k if scheme == "certified" else k // 10))
    first = [2 / 8**2, pep.linear_case(*pep.fista(min(k - 16, 8)))]  # passed, failed
    if k <= 32:
        return max(first)
    later = [2 / 16**2, min(first[0], pep.linear_case(*pep.fista(k - 32))), pep.linear_case(*pep.fista(8 + k - 32))]
    return max(later)


@dataclass(frozen=True)
class Scripted(Optimizer[State]):
    """Stands where it was told to stand at iteration `now`."""

    points: Tensor  # (B, phases, n)
    clock: list[int]

    def init(self, problem: Problem, x0: Tensor, **_: Any) -> State:
        return State(x=x0, k=0, step_size=torch.ones(problem.batch, dtype=F64))

    def move(self, problem: Problem, state: State, seen: Any) -> State:
        phase = sum(self.clock[0] >= start for start in PHASES) - 1
        return replace(state, x=self.points[:, phase].clone(), k=state.k + 1)


@dataclass(frozen=True)
class Cases:
    """Problems with known solutions, starts at distance 1, and what the optimizer does."""

    problem: Problem
    x0: Tensor
    solution: Tensor
    points: Tensor


def cases(genes: Tensor, kind: str) -> Cases:
    """f(x) = 1/2 (x - x*)' H (x - x*) - l1 <s, x - x*>, s a subgradient of r / l1 at x*, H = Q diag(d) Q', d <= 1."""
    d, start, angles, inner, slopes, points = genes.split([N, N, 3, N, N, N * len(PHASES)], 1)
    d = torch.sigmoid(4 * d).clamp(min=1e-6)
    skew = torch.zeros(len(genes), N, N, dtype=F64)
    rows, columns = torch.triu_indices(N, N, 1)
    skew[:, rows, columns] = angles
    Q = torch.matrix_exp(skew - skew.mT)
    x = torch.zeros_like(start)
    s = torch.zeros_like(start)
    l1 = torch.zeros(len(genes), dtype=F64)
    r: Any = Zero()
    if kind != "quadratic":
        l1 = inner[:, 0].exp() / 4
        # where slopes is large x* is not zero
        positive = kind == KINDS[2]
        away = slopes.abs() > 1
        sign = torch.ones_like(slopes) if positive else slopes.sign()
        x = torch.where(away, sign * (slopes.abs() - 1), 0.0)
        s = torch.where(away, sign, slopes)
        r = Separable(l1.unsqueeze(1).expand(-1, N), low=0.0) if positive else Separable(l1.unsqueeze(1).expand(-1, N))
    A = d.sqrt().unsqueeze(2) * Q.mT  # H = A'A
    b = (A @ x.unsqueeze(2)).squeeze(2) + l1.unsqueeze(1) * (Q.mT @ s.unsqueeze(2)).squeeze(2) / d.sqrt()
    return Cases(*shaped(Problem(LeastSquares(A, b), r), x, start, points, kind == KINDS[2]))


def shaped(
    problem: Problem, x: Tensor, start: Tensor, points: Tensor, positive: bool
) -> tuple[Problem, Tensor, Tensor, Tensor]:
    """The problem, x_0 at distance 1 and within the domain, x*, the points."""
    if positive:
        start = torch.where(x == 0, start.abs(), torch.maximum(start, -x))
    x0 = x + start / torch.linalg.vector_norm(start, dim=1, keepdim=True).clamp(min=1)
    if positive:
        x0 = x0.clamp(min=0)
    away = torch.linalg.vector_norm(x0 - x, dim=1, keepdim=True).clamp(min=1e-12)
    x0 = x + (x0 - x) / away
    there = x.unsqueeze(1) + points.view(len(x), len(PHASES), N)
    return problem, x0.clamp(min=0) if positive else x0, x, there.clamp(min=0) if positive else there


@torch.no_grad()
def ratios(scheme: str, some: Cases) -> Tensor:
    """(F(b_k) - F*) / |x_0 - x*|^2 (B, len(KS)), L being 1."""
    clock = [0]
    method = SCHEMES[scheme](Scripted(some.points, clock))
    one = torch.ones(some.problem.batch, dtype=F64)
    state = method.init(some.problem, some.x0, step_size=one)
    lowest, found = some.problem.objective(some.solution), []
    square = (some.x0 - some.solution).square().sum(1)
    for k in range(1, KS[-1] + 1):
        clock[0] = k - 1
        state = method.step(some.problem, state)
        if k in KS:
            found.append((some.problem.objective(state.x) - lowest) / square)
    return torch.stack(found, 1)


def searched(scheme: str, kind: str, population: int, generations: int) -> dict[int, float]:
    """The largest ratio at every k of KS; for each a population of its own."""
    random = torch.Generator().manual_seed(20261119)
    groups = len(KS)

    def drawn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=random, dtype=F64)

    genes = 2 * drawn(groups * population, GENES)
    best = torch.zeros(groups, dtype=F64)
    spread = 1.0
    for _ in range(generations):
        values = ratios(scheme, cases(genes, kind)).nan_to_num(nan=0.0)
        values = torch.stack([values[g * population : (g + 1) * population, g] for g in range(groups)])
        best = torch.maximum(best, values.max(1).values)
        kept = values.topk(population // 20, dim=1).indices
        parts = []
        for g in range(groups):
            elite = genes[g * population + kept[g]]
            parents = elite[torch.randint(len(elite), (population,), generator=random)]
            others = elite[torch.randint(len(elite), (population,), generator=random)]
            mixed = torch.where(torch.rand(population, GENES, generator=random) < 0.8, parents, others)
            child = mixed + spread * drawn(population, GENES) * (torch.rand(population, 1, generator=random) ** 2)
            child[: len(elite)] = elite
            parts.append(child)
        genes, spread = torch.cat(parts), max(0.88 * spread, 0.01)
    return dict(zip(KS, best.tolist(), strict=True))


def kept_parts() -> dict[str, Any]:
    path = RECORDS / "worst_cases.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    return {part: known[part] for part in ("exact", "exact_table", "search") if part in known}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=("exact", "search"))
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    parts = kept_parts()
    if options.part != "search":
        try:
            parts["exact"] = exact()
            shown = {"program": "program", "proved": "no more than", "attained": "attained", "theorem": "theorem"}
            parts["exact_table"] = {
                f"{row['k']}": {name: row[key] for key, name in shown.items()}
                | {"attained / theorem": row["attained_over_theorem"]}
                for row in parts["exact"]
            }
        except ImportError as error:
            print(f"exact worst cases are left out: {error}; pip install cvxpy clarabel")
    if options.part != "exact":
        population, generations = (40, 3) if options.small else (300, 40)
        rows: dict[str, dict[str, Any]] = {}
        for scheme in SCHEMES:
            for kind in KINDS:
                found = searched(scheme, kind, population, generations)
                for k, value in found.items():
                    rows.setdefault(f"{scheme}, k = {k}", {})[kind] = value
                print(scheme, kind, found, flush=True)
            for k in KS:
                rows[f"{scheme}, k = {k}"] |= {"no more than": ceiling(scheme, k), "theorem": theorem(scheme, k)}
        facts = {"population": population, "generations": generations, "coordinates": N}
        parts["search"] = {"options": facts, "table": rows}
    if not options.small:
        print(write_record("worst_cases", parts))


if __name__ == "__main__":
    main()
