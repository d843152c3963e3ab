"""`solve(rigorous=True)`: is F(x) - F* ever above its bound?

Least squares: F(x) and F* in rational arithmetic, at points from far away to the solution rounded to float64; columns
of different sizes, nearly equal columns, weights, and all numbers times powers of two, down to subnormal ones.
Logistic: both with 60 digits.

    python benchmarks/rigorous_gaps.py [--rounds 10]

Goes on where an earlier run has ended.
"""

import argparse
import json
import math
import warnings
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

from _record import RECORDS, write_record

ROUNDS, SQUARES, LOGISTIC = 10, 105_000, 20_000  # trials of each round
POINTS = 100  # for each problem
OF_A, OF_B, OF_LAM, OF_L2, QUANTUM = 14, 18, 4, 6, 80  # A is a multiple of 2^-14, and so on; x one of 2^-80
UNIT = 2 * (QUANTUM + OF_A) + 1  # F is a multiple of 2^-189
SHAPES = ((3, 4), (6, 4), (4, 7))
KINDS = ("l1", "elastic net", "nonnegative", "weighted", "nearly equal columns")
SCALES = (0, 0, 30, -30, 160, -160, 330, -330, 480)  # of A and of b, as powers of two
SMALLEST = -505, -535  # of A, where its squares are subnormal; and of b, where F is
DIGITS = 60


def integers(values: Tensor, power: int) -> Any:
    """values 2^power, which are whole, as Python integers."""
    scaled = np.ldexp(values.double().numpy(), power)
    if (scaled != np.rint(scaled)).any():
        raise ValueError(f"not multiples of 2^-{power}")
    return np.vectorize(int, otypes=[object])(scaled)


def times(values: Tensor, power: Tensor) -> Tensor:
    """values 2^power, in two steps: 2^power itself may be no number."""
    half = power // 2
    return torch.ldexp(torch.ldexp(values, half), power - half)


def nearly_solved(problem: Problem) -> Tensor:
    """x; whether its signs are those of a solution is found out afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sp.solve(problem, tol=1e-12, max_iter=20_000).x


def near(best: Tensor, k: int, generator: torch.Generator, kind: str = "l1") -> Tensor:
    """Points (P, n): zero, then noise of 10^1 ... 10^-17 around the solution, and at last the solution itself."""
    noise = torch.randn(best.shape, generator=generator, dtype=torch.float64)
    if kind == "nearly equal columns":  # what one adds the other takes away
        noise[:, 1::2] = -noise[:, : 2 * (noise.shape[1] // 2) : 2]
    on = best if k % 2 else torch.ones_like(best)  # every other time on the support alone
    x = torch.where(on != 0, best + 10.0 ** (1 - 18 * k / (POINTS - 2)) * noise, 0.0)
    x = torch.zeros_like(best) if k == 0 else best if k == POINTS - 1 else x
    x = torch.ldexp(torch.ldexp(x, torch.tensor(QUANTUM)).round(), torch.tensor(-QUANTUM))
    return x.clamp(min=0) if kind == "nonnegative" else x


def squares(trials: int, seed: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(20284 + seed)
    each = -(-trials // (POINTS * len(SHAPES) * len(KINDS)))
    counted = ("trials", "below", "infinite", "plain gap below", "plain gap no number")
    count = dict.fromkeys((*counted, "problems without an exact solution"), 0)
    for (m, n), kind in ((shape, kind) for shape in SHAPES for kind in KINDS):
        A, low = drawn((each, m, n), generator), 0.0 if kind == "nonnegative" else None
        A = A * 2.0 ** torch.randint(0, 12, (each, 1, n), generator=generator)  # columns of different sizes
        if kind == "nearly equal columns":
            A[:, :, 1::2] = A[:, :, : 2 * (n // 2) : 2] + 2.0**-10 * drawn((each, m, n // 2), generator)
        fits = torch.rand(each, 1, generator=generator) < 0.3
        b = torch.where(fits, (A @ drawn((each, n, 1), generator)).squeeze(2), drawn((each, m), generator))
        powers = torch.randint(-1, 2, (each, m), generator=generator) if kind == "weighted" else torch.zeros(each, m)
        A, b = A * 2.0 ** powers.unsqueeze(2), b * 2.0**powers  # of the rows, with their weights
        share = 0.9 * torch.rand(each, generator=generator, dtype=torch.float64)
        lam = (16 * share * (A.mT @ b.unsqueeze(2)).abs().amax((1, 2))).ceil() / 16 + 1 / 16
        l2 = lam / 4 if kind == "elastic net" else torch.zeros_like(lam)
        problem = Problem(LeastSquares(A, b), penalties.Separable(lam.unsqueeze(1), l2.unsqueeze(1), low))
        best = nearly_solved(problem)
        exact = [
            exact_solution(
                A[i], b[i], float(lam[i]), float(l2[i]), low == 0.0, torch.where(best[i].abs() > 1e-9, best[i], 0.0)
            )
            for i in range(each)
        ]
        known = [i for i in range(each) if exact[i] is not None]
        count["problems without an exact solution"] += each - len(known)
        if not known:
            continue
        lowest = [least(exact[i] or [], A[i], b[i], float(lam[i]), float(l2[i])) for i in known]
        best = torch.stack([torch.tensor([float(v) for v in exact[i] or []], dtype=torch.float64) for i in known])
        A, b, lam, l2, powers = (of[known] for of in (A, b, lam, l2, powers))
        data = [integers(of, power) for of, power in ((A, OF_A), (b, OF_B), (lam, OF_LAM), (l2, OF_L2))]
        p, q = (
            torch.tensor((*SCALES, least_power))[torch.randint(len(SCALES) + 1, (len(known),), generator=generator)]
            for least_power in SMALLEST
        )
        scaled = scaled_problem(A, b, lam, l2, powers, p, q, low)
        for k in range(POINTS):
            moved = times(near(best, k, generator, kind), (q - p).unsqueeze(1))
            bound, plain = rigorous_gap(scaled, moved), scaled.certificate(moved).gap
            F = objective(*data, integers(times(moved, (p - q).unsqueeze(1)), QUANTUM))
            for i, (top, bottom) in enumerate(lowest):
                excess = F[i] * bottom - top * 2**UNIT  # (F(x) - F*) bottom 2^UNIT
                power = 2 * int(q[i])  # the scaled F is F 2^power
                count["trials"] += 1
                count["infinite"] += bool(torch.isinf(bound[i]))
                count["plain gap no number"] += bool(torch.isnan(plain[i]))
                for name, value in (("below", float(bound[i])), ("plain gap below", float(plain[i]))):
                    count[name] += above(excess, bottom, power, value)
    return count


def scaled_problem(
    A: Tensor, b: Tensor, lam: Tensor, l2: Tensor, powers: Tensor, p: Tensor, q: Tensor, low: float | None
) -> Problem:
    """That of A 2^p and b 2^q: its solutions are x 2^(q - p), its F is F 2^(2 q). Weights hold the 2^powers of rows."""
    rows, column = 2.0**-powers, p.unsqueeze(1)
    weights = None if bool((powers == 0).all()) else 4.0 ** powers.double()
    f = LeastSquares(times(A * rows.unsqueeze(2), column.unsqueeze(2)), times(b * rows, q.unsqueeze(1)), weights)
    return Problem(f, penalties.Separable(times(lam, p + q).unsqueeze(1), times(l2, 2 * p).unsqueeze(1), low))


def above(excess: int, bottom: int, power: int, value: float) -> bool:
    """Whether excess 2^(power - UNIT) / bottom > value."""
    if not math.isfinite(value):
        return False
    over, under = value.as_integer_ratio()
    return excess * under * 2 ** max(power, 0) > over * bottom * 2 ** (UNIT + max(-power, 0))


def objective(A: Any, b: Any, lam: Any, l2: Any, x: Any) -> Any:
    """(P,) F(x) 2^UNIT."""
    z = (A * x[:, None, :]).sum(2) - b * 2 ** (QUANTUM + OF_A - OF_B)
    linear, quadratic = UNIT - QUANTUM - OF_LAM, UNIT - 2 * QUANTUM - OF_L2 - 1
    return (z * z).sum(1) + lam * abs(x).sum(1) * 2**linear + l2 * (x * x).sum(1) * 2**quadratic


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
    count, points, m, n = {"trials": 0, "below": 0, "plain gap below": 0, "infinite": 0}, 40, 5, 4
    problems = -(-trials // points)
    size = 10.0 ** (4 * torch.rand(problems, 1, 1, generator=generator, dtype=torch.float64) - 2)
    A = size * torch.randn(problems, m, n, generator=generator, dtype=torch.float64)
    y = (torch.rand(problems, m, generator=generator) < 0.5).double()
    f = Logistic(A, y)
    largest = f.grad(torch.zeros(problems, n, dtype=torch.float64)).abs().amax(1)
    lam = (0.9 * torch.rand(problems, generator=generator, dtype=torch.float64) + 0.01) * largest
    best = nearly_solved(Problem(f, penalties.L1(lam)))
    best = torch.where(best.abs() > 1e-9 * best.abs().amax(1, keepdim=True), best, 0.0)
    lowest = [refined(A[i], y[i], lam[i], best[i]) for i in range(problems)]
    count["problems without a solution of 60 digits"] = sum(low is None for low in lowest)
    p = torch.tensor(SCALES)[torch.randint(len(SCALES), (problems,), generator=generator)]
    scaled = Problem(Logistic(times(A, p.view(-1, 1, 1)), y), penalties.L1(times(lam, p)))  # of the same F
    for k in range(points):
        x = near(best, round(k * (POINTS - 1) / (points - 1)), generator)
        moved = times(x, -p.unsqueeze(1))
        bound, plain = rigorous_gap(scaled, moved), scaled.certificate(moved).gap
        for i, low in enumerate(lowest):
            if low is None:
                continue
            excess = digits(A[i], y[i], lam[i], [mpf(v) for v in x[i].tolist()])[0] - low
            count["trials"] += 1
            count["infinite"] += bool(torch.isinf(bound[i]))
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
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    path = RECORDS / "rigorous_gaps.json"
    earlier = json.loads(path.read_text()) if path.exists() else {"rounds": 0, "counts": {}}
    counts: dict[str, dict[str, int]] = earlier["counts"]
    for done in range(earlier["rounds"], options.rounds):
        parts = {
            "least squares, exact": squares(SQUARES, 100 * done),
            "logistic, 60 digits": logistic(LOGISTIC, 100 * done),
        }
        for name, part in parts.items():
            total = counts.setdefault(name, dict.fromkeys(part, 0))
            counts[name] = {key: total[key] + int(value) for key, value in part.items()}
        print(counts, flush=True)
        write_record("rigorous_gaps", {"rounds": done + 1, "counts": counts})


if __name__ == "__main__":
    main()
