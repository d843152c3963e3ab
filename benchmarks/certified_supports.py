"""Certified supports: is a coordinate ever proved wrong, and how many supports are certified?

Exact: least squares with an L1, elastic net or nonnegative L1 penalty, data in sixteenths, solved to tolerances from
1e-1 to 1e-12; the solution is computed, and its optimality checked, in rational arithmetic. Accurate: the other losses
against references with a gap of 1e-13. The paper's problems: the share of supports certified at a relative gap of 1e-8.

    python benchmarks/certified_supports.py [--problems 10000] [--accurate 500] [--paper 500]
"""

import argparse
from fractions import Fraction
from itertools import product
from typing import Any

import torch
from torch import Tensor

import sureprox as sp
from sureprox import penalties
from sureprox.problems import Huber, LeastSquares, Logistic, Poisson, Problem, Quantile, SquaredHinge
from sureprox.sources.families import LassoFamily, LogisticFamily

from _record import write_record

TOLERANCES = (1e-1, 1e-2, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12)
SIZES = ((6, 4), (6, 9), (8, 8), (5, 12))
KINDS = ("l1", "elastic net", "nonnegative")
SIXTEENTH = 16
Exact = list[Fraction]


def drawn(shape: tuple[int, ...], generator: torch.Generator) -> Tensor:
    return (SIXTEENTH * torch.randn(shape, generator=generator, dtype=torch.float64)).round() / SIXTEENTH


def exact_solution(A: Tensor, b: Tensor, l1: float, l2: float, positive: bool, near: Tensor) -> Exact | None:
    """A minimiser in rational numbers with the signs of `near`, or None where optimality does not hold with them."""
    rows = [[Fraction(v) for v in row] for row in A.tolist()]
    target, l1_, l2_ = [Fraction(v) for v in b.tolist()], Fraction(l1), Fraction(l2)
    on = [j for j, v in enumerate(near.tolist()) if v != 0]
    signs = {j: 1 if near[j] > 0 else -1 for j in on}
    columns = {j: [row[j] for row in rows] for j in range(A.shape[1])}
    system = [
        [sum((u * v for u, v in zip(columns[i], columns[j], strict=True)), l2_ if i == j else Fraction()) for j in on]
        + [sum((u * v for u, v in zip(columns[i], target, strict=True)), Fraction()) - l1_ * signs[i]]
        for i in on
    ]
    values = solved(system)
    if values is None:
        return None
    x = [Fraction()] * A.shape[1]
    for j, value in zip(on, values, strict=True):
        x[j] = value
    residual = [sum((row[j] * x[j] for j in on), -t) for row, t in zip(rows, target, strict=True)]
    for j, column in columns.items():
        slope = sum((u * v for u, v in zip(column, residual, strict=True)), l2_ * x[j])
        if j in signs:
            if x[j] * signs[j] <= 0 or slope + l1_ * signs[j] != 0:
                return None
        elif slope < -l1_ or (not positive and slope > l1_):
            return None
    return x


def solved(system: list[list[Fraction]]) -> Exact | None:
    """Gauss and Jordan; None where the matrix is singular."""
    size = len(system)
    for k in range(size):
        pivot = next((i for i in range(k, size) if system[i][k] != 0), None)
        if pivot is None:
            return None
        system[k], system[pivot] = system[pivot], system[k]
        system[k] = [v / system[k][k] for v in system[k]]
        for i in range(size):
            if i != k and system[i][k] != 0:
                factor = system[i][k]
                system[i] = [v - factor * w for v, w in zip(system[i], system[k], strict=True)]
    return [row[-1] for row in system]


def small_problem(kind: str, m: int, n: int, count: int, generator: torch.Generator) -> Problem:
    A, b = drawn((count, m, n), generator), drawn((count, m), generator)
    share = torch.rand(count, generator=generator, dtype=torch.float64)
    lam = (SIXTEENTH * share * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2))).ceil() / SIXTEENTH
    made = {
        "l1": lambda: penalties.L1(lam),
        "elastic net": lambda: penalties.ElasticNet(lam, lam / 4),
        "nonnegative": lambda: penalties.NonNegative(lam),
    }
    return Problem(LeastSquares(A, b), made[kind]())


def exact(problems: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(20281)
    count = {"problems": 0, "proofs": 0, "wrong": 0, "supports": 0, "without an exact solution": 0}
    each = -(-problems // (len(SIZES) * len(KINDS)))
    for (m, n), kind in product(SIZES, KINDS):
        problem = small_problem(kind, m, n, each, generator)
        lam = problem.r.l1
        best = sp.reference(problem, tol=1e-13).x
        best = torch.where(best.abs() > 1e-9, best, 0.0)
        found = [sp.solve(problem, sp.optimizers.FISTA(restart=True), tol=tol, check_every=3) for tol in TOLERANCES]
        for i in range(each):
            sizes = float(lam[i]), float(lam[i]) / 4 if kind == "elastic net" else 0.0
            x = exact_solution(problem.f.A[i], problem.f.b[i], *sizes, kind == "nonnegative", best[i])
            if x is None:
                count["without an exact solution"] += 1
                continue
            nonzero = torch.tensor([value != 0 for value in x])
            count["problems"] += 1
            for solution in found:
                zeros, nonzeros = solution.inactive[i], solution.active[i]
                count["proofs"] += int(zeros.sum() + nonzeros.sum())
                count["wrong"] += int((zeros & nonzero).sum() + (nonzeros & ~nonzero).sum())
                if bool(solution.support_certified[i]):
                    count["supports"] += 1
                    count["wrong"] += int(((solution.x[i] != 0) != nonzero).any())
    return count


def accurate(problems: int) -> dict[str, Any]:
    """The other losses, against references."""
    generator = torch.Generator().manual_seed(20282)
    m, n = 15, 25
    A = torch.randn(problems, m, n, generator=generator, dtype=torch.float64)
    b = torch.randn(problems, m, generator=generator, dtype=torch.float64)
    y, counts = (b > 0).double(), (2 * b.abs()).floor()
    losses = {
        "logistic": Logistic(A, y),
        "huber": Huber(A, 2 * b, 0.7),
        "quantile": Quantile(A, b, 0.3, 0.4),
        "squared hinge": SquaredHinge(A, y),
        "poisson": Poisson(A / 4, counts),
    }
    table = {}
    for name, f in losses.items():
        size = f.grad(torch.zeros(problems, n, dtype=torch.float64)).abs().amax(1)
        problem = Problem(f, penalties.L1(0.4 * size))
        best = sp.reference(problem, tol=1e-13).x
        nonzero = best.abs() > 1e-6 * best.abs().amax(1, keepdim=True).clamp(min=1e-300)
        proofs = wrong = supports = 0
        for tol in TOLERANCES[:-1]:
            found = sp.solve(problem, sp.optimizers.FISTA(restart=True), tol=tol, max_iter=20_000)
            proofs += int(found.inactive.sum() + found.active.sum())
            wrong += int((found.inactive & nonzero).sum() + (found.active & ~nonzero).sum())
            supports += int(found.support_certified.sum())
            wrong += int((((found.x != 0) != nonzero).any(1) & found.support_certified).sum())
        table[name] = {"problems": problems, "proofs": proofs, "wrong": wrong, "supports": supports}
    return table


def paper(problems: int, chunk: int = 50) -> dict[str, Any]:
    table = {}
    for name, family in (("lasso", LassoFamily()), ("logistic", LogisticFamily())):
        generator = torch.Generator().manual_seed(20283)
        certified = solved_ = zeros = proved = 0
        for _ in range(0, problems, chunk):
            problem = family.sample(chunk, generator, torch.float64)
            solution = sp.solve(problem, tol=1e-8)
            best = sp.reference(problem, tol=1e-13).x
            solved_ += int(solution.converged.sum())
            certified += int(solution.support_certified.sum())
            zeros += int((best == 0).sum())
            proved += int((solution.inactive & (best == 0)).sum())
        table[name] = {
            "problems": -(-problems // chunk) * chunk,
            "converged": solved_,
            "supports certified": certified,
            "share": certified / (-(-problems // chunk) * chunk),
            "zeros proved": proved / zeros,
        }
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--problems", type=int, default=10_000)
    parser.add_argument("--accurate", type=int, default=500)
    parser.add_argument("--paper", type=int, default=500)
    options = parser.parse_args()
    numbers = {
        "exact": exact(options.problems),
        "accurate": accurate(options.accurate),
        "paper, relative gap 1e-8": paper(options.paper),
        "tolerances": TOLERANCES,
    }
    print(numbers)
    print(write_record("certified_supports", numbers))


if __name__ == "__main__":
    main()
