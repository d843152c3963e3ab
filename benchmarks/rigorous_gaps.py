"""`solve(rigorous=True)`: is F(x) - F* ever above its bound?

Least squares: F(x) and F* in rational arithmetic, at points from far away to the solution rounded to float64. Logistic:
both with 60 digits.

    python benchmarks/rigorous_gaps.py [--trials 1000000] [--logistic 20000]
"""

import argparse
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from mpmath import mp, mpf
from torch import Tensor

import sureprox as sp
from certified_supports import drawn, exact_solution
from sureprox import penalties
from sureprox.problems import LeastSquares, Logistic, Problem
from sureprox.problems.rigorous import rigorous_gap

from _record import write_record

POINTS = 100  # for each problem
ROUNDS = 20
QUANTUM = 80  # x is a multiple of 2^-80
UNIT = 2 * QUANTUM + 9  # F is a multiple of 2^-169
SHAPES = ((3, 4), (6, 4), (4, 7))
KINDS = ("l1", "elastic net", "nonnegative")
DIGITS = 60


def integers(values: Tensor, power: int) -> Any:
    """values 2^power, which are whole, as Python integers."""
    return np.vectorize(int, otypes=[object])(np.ldexp(values.double().numpy(), power))


def near(best: Tensor, k: int, generator: torch.Generator, positive: bool) -> Tensor:
    """Points (P, n): zero, then noise of 10^1 ... 10^-17 around the solution, and at last the solution itself."""
    noise = torch.randn(best.shape, generator=generator, dtype=torch.float64)
    on = best if k % 2 else torch.ones_like(best)  # every other time on the support alone
    x = torch.where(on != 0, best + 10.0 ** (1 - 18 * k / (POINTS - 2)) * noise, 0.0)
    x = torch.zeros_like(best) if k == 0 else best if k == POINTS - 1 else x
    x = torch.ldexp(torch.ldexp(x, torch.tensor(QUANTUM)).round(), torch.tensor(-QUANTUM))
    return x.clamp(min=0) if positive else x


def squares(trials: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(20284 + seed)
    each = -(-trials // (POINTS * len(SHAPES) * len(KINDS)))
    count = {"trials": 0, "below": 0, "plain gap below": 0, "problems without an exact solution": 0}
    for (m, n), kind in ((shape, kind) for shape in SHAPES for kind in KINDS):
        A, positive = drawn((each, m, n), generator), kind == "nonnegative"
        A = A * 2.0 ** torch.randint(0, 12, (each, 1, n), generator=generator)  # columns of different sizes
        fits = torch.rand(each, 1, generator=generator) < 0.3
        b = torch.where(fits, (A @ drawn((each, n, 1), generator)).squeeze(2), drawn((each, m), generator))
        share = 0.9 * torch.rand(each, generator=generator, dtype=torch.float64)
        lam = (16 * share * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2))).ceil() / 16 + 1 / 16
        l2 = lam / 4 if kind == "elastic net" else torch.zeros_like(lam)
        problem = Problem(LeastSquares(A, b), penalties.Separable(lam, l2, 0.0 if positive else None))
        best = sp.reference(problem, tol=1e-12).x
        exact = [
            exact_solution(
                A[i], b[i], float(lam[i]), float(l2[i]), positive, torch.where(best[i].abs() > 1e-9, best[i], 0.0)
            )
            for i in range(each)
        ]
        known = [i for i in range(each) if exact[i] is not None]
        count["problems without an exact solution"] += each - len(known)
        best = torch.stack([torch.tensor([float(v) for v in exact[i] or []], dtype=torch.float64) for i in known])
        problem = problem.select(torch.tensor(known))
        data = [integers(of[known], power) for of, power in ((A, 4), (b, 8), (lam, 4), (l2, 6))]
        lowest = [least(exact[i] or [], A[i], b[i], float(lam[i]), float(l2[i])) for i in known]
        for k in range(POINTS):
            x = near(best, k, generator, positive)
            bound, plain = rigorous_gap(problem, x), problem.certificate(x).gap
            F = objective(*data, integers(x, QUANTUM))
            for i, (p, q) in enumerate(lowest):
                excess = F[i] * q - p * 2**UNIT  # (F(x) - F*) q 2^UNIT
                count["trials"] += 1
                for name, value in (("below", bound[i]), ("plain gap below", plain[i])):
                    top, bottom = float(value).as_integer_ratio()
                    count[name] += excess * bottom > top * q * 2**UNIT
    return count


def objective(A: Any, b: Any, lam: Any, l2: Any, x: Any) -> Any:
    """(P,) F(x) 2^UNIT."""
    z = (A * x[:, None, :]).sum(2) - b * 2 ** (QUANTUM - 4)
    return (z * z).sum(1) + lam * abs(x).sum(1) * 2 ** (QUANTUM + 5) + l2 * (x * x).sum(1) * 4


def least(x: Any, A: Tensor, b: Tensor, l1: float, l2: float) -> tuple[int, int]:
    """F* as a fraction."""
    z = [
        sum(Fraction(a) * v for a, v in zip(row, x, strict=True)) - Fraction(t)
        for row, t in zip(A.tolist(), b.tolist(), strict=True)
    ]
    F = sum(v * v for v in z) / 2 + Fraction(l1) * sum(abs(v) for v in x) + Fraction(l2) / 2 * sum(v * v for v in x)
    return F.numerator, F.denominator


def logistic(trials: int, seed: int) -> dict[str, Any]:
    mp.dps = DIGITS
    generator = torch.Generator().manual_seed(20285 + seed)
    count, points, m, n = {"trials": 0, "below": 0, "plain gap below": 0}, 40, 5, 4
    problems = -(-trials // points)
    A = 3 * torch.randn(problems, m, n, generator=generator, dtype=torch.float64)
    y = (torch.rand(problems, m, generator=generator) < 0.5).double()
    f = Logistic(A, y)
    lam = (
        0.9
        * torch.rand(problems, generator=generator, dtype=torch.float64)
        * f.grad(torch.zeros(problems, n, dtype=torch.float64)).abs().amax(1)
        + 0.01
    )
    problem = Problem(f, penalties.L1(lam))
    best = sp.reference(problem, tol=1e-12).x
    best = torch.where(best.abs() > 1e-9, best, 0.0)
    lowest = [refined(A[i], y[i], lam[i], best[i]) for i in range(problems)]
    count["problems without a solution of 60 digits"] = sum(low is None for low in lowest)
    for k in range(points):
        x = near(best, round(k * (POINTS - 1) / (points - 1)), generator, False)
        bound, plain = rigorous_gap(problem, x), problem.certificate(x).gap
        for i, low in enumerate(lowest):
            if low is None:
                continue
            excess = digits(A[i], y[i], lam[i], [mpf(v) for v in x[i].tolist()])[0] - low
            count["trials"] += 1
            count["below"] += excess > mpf(float(bound[i]))
            count["plain gap below"] += excess > mpf(float(plain[i]))
    return count


def digits(A: Tensor, y: Tensor, lam: Tensor, x: list[Any]) -> tuple[Any, list[Any], list[Any]]:
    """F(x), grad f and the rows' sigma, with all digits."""
    rows = [[mpf(a) * (1 - 2 * int(t)) for a in row] for row, t in zip(A.tolist(), y.tolist(), strict=True)]
    z = [sum(a * v for a, v in zip(row, x, strict=True)) for row in rows]
    sigma = [1 / (1 + mp.exp(-v)) for v in z]
    value = sum(mp.log(1 + mp.exp(v)) for v in z) / len(rows) + mpf(float(lam)) * sum(abs(v) for v in x)
    return value, [sum(r[j] * s for r, s in zip(rows, sigma, strict=True)) / len(rows) for j in range(len(x))], sigma


def refined(A: Tensor, y: Tensor, lam: Tensor, near_: Tensor) -> Any:
    """F* by Newton's method on the support of `near_`; None where the result is no solution."""
    x, on = [mpf(v) for v in near_.tolist()], [j for j, v in enumerate(near_.tolist()) if v != 0]
    signs, l1, m = {j: 1 if near_[j] > 0 else -1 for j in on}, mpf(float(lam)), len(y)
    for _ in range(8 if on else 0):
        _, g, sigma = digits(A, y, lam, x)
        H = mp.matrix(
            [
                [
                    sum(mpf(float(A[i, j])) * mpf(float(A[i, k])) * sigma[i] * (1 - sigma[i]) for i in range(m)) / m
                    for k in on
                ]
                for j in on
            ]
        )
        step = mp.lu_solve(H, mp.matrix([g[j] + l1 * signs[j] for j in on]))
        for j, move in zip(on, step, strict=True):
            x[j] -= move
    value, g, _ = digits(A, y, lam, x)
    small = mpf(10) ** -(DIGITS - 15)
    right = all(
        abs(g[j] + l1 * signs[j]) < small and x[j] * signs[j] > 0 if j in signs else abs(g[j]) <= l1
        for j in range(len(x))
    )
    return value if right else None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=1_000_000)
    parser.add_argument("--logistic", type=int, default=20_000)
    options = parser.parse_args()
    counts: dict[str, dict[str, int]] = {}
    for seed in range(ROUNDS):
        parts = {
            "least squares, exact": squares(options.trials // ROUNDS, 100 * seed),
            "logistic, 60 digits": logistic(options.logistic // ROUNDS, 100 * seed),
        }
        for name, part in parts.items():
            total = counts.setdefault(name, dict.fromkeys(part, 0))
            counts[name] = {key: total[key] + int(value) for key, value in part.items()}
        print(counts, flush=True)
        write_record("rigorous_gaps", counts)  # what has been counted so far


if __name__ == "__main__":
    main()
