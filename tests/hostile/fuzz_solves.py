"""Random problems solved with random options, every answer judged by a truth in long double: what is false is listed.

    PYTHONPATH=tests python tests/hostile/fuzz_solves.py COUNT OUT.json FIRST
    PYTHONPATH=tests python tests/hostile/fuzz_solves.py CASE

COUNT solves, an instance of a batch counting as one, from the case FIRST on; or the batch of one case alone, with every
instance shown.

False is: "converged" further above the minimum than promised (`StoppingRule`); a gap, a bound or an objective that is
not one; a point that is not finite; a certified answer that diverged or is above its start; a `ConvergenceWarning`
where all have converged, none where one has not, any other warning; an exception other than `SureproxError` with one
line.
"""

import json
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exact import ROUNDS, Exact, Truth, as_long, lowest
from random_options import Options, random_options, solved
from random_problems import Batch, random_batch

import sureprox as sp

SEED = 19
DOUBLE = float(np.finfo(np.float64).eps)
LIMIT = 1 + 1e-6
GOOD = 0.1  # of what is promised: a truth known so well is called tight


@dataclass(frozen=True)
class Verdict:
    """What was found out about one instance."""

    faults: list[str]
    status: str
    tight: bool  # the truth is proved to be close enough to F* to catch any false "converged"
    ratio: float  # (F - truth) / what is promised, where converged


def case(number: int) -> tuple[Batch, Options]:
    chance = np.random.default_rng([SEED, number])
    batch = random_batch(chance)
    return batch, random_options(chance, batch.problem)


def judged(number: int, show: bool = False) -> tuple[list[Verdict], str]:
    """The verdicts on the instances of a case, none where it was refused with one line; and the case in words."""
    batch, options = case(number)
    text = f"{batch.text}; {options.text}"
    arguments = dict(options.arguments)
    x0 = arguments.get("x0")
    start = np.zeros((batch.problem.batch, batch.problem.n)) if x0 is None else x0.double().numpy().copy()
    try:
        solution, warned = solved(batch.problem, options)
    except sp.SureproxError as error:
        message = str(error)
        if show:
            print("refused:", message)
        good = message and message.isprintable()
        return ([] if good else [Verdict([f"message: {message!r}"], "error", True, 0.0)]), text
    except Exception as error:
        if show:
            traceback.print_exc()
        what = f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
        return [Verdict([what], "error", True, 0.0)], text
    verdicts = []
    for i, exact in enumerate(batch.exact):
        verdict = _judged(batch, exact, i, options.arguments, start[i], solution)
        if warned == bool(solution.converged.all()):
            verdict.faults.append(f"warned: {warned}, with status {list(map(str, solution.status))}")
        verdicts.append(verdict)
        if show:
            print(i, verdict.status, f"{verdict.ratio:.3g}", "tight" if verdict.tight else "loose", verdict.faults)
    return verdicts, text


def _judged(batch: Batch, exact: Exact, i: int, given: dict[str, Any], start: np.ndarray, found: Any) -> Verdict:
    status, gap, objective = str(found.status[i]), float(found.gap[i]), float(found.objective[i])
    x = as_long(found.x[i].detach().double().numpy())
    if not np.isfinite(x.astype(float)).all() or np.isnan(gap) or np.isnan(objective):
        return Verdict([f"not finite: gap {gap}, objective {objective}, or the point"], status, True, 0.0)
    t = 0 if batch.shift is None else as_long(batch.shift[i])
    x, x0, converged = x + t, as_long(start) + t, status == "converged"
    value, least = exact.value(x), given["tol"] * given.get("floor", given["tol"]) * exact.value(_origin(exact, x0))
    wanted = GOOD / 2 * max(least, given["tol"] * value) if converged else 0.01 * gap
    truth = lowest(exact, x, float(wanted), rounds=ROUNDS if converged else 5)
    promised = float(max(given["tol"] * (truth.value if batch.by_gap else value), least))
    slack, rounding = exact.rounding(x) + exact.rounding(truth.x), exact.rounding(x, DOUBLE)
    above = float(value - truth.value)
    faults, ratio = [], 0.0
    if converged:
        ratio = max(above - slack, 0.0) / promised if promised > 0 else float(above > slack)
        faults += _converged(exact, x, given["tol"], ratio, batch.bounded[i])
    if np.isfinite(objective) and abs(objective - float(value)) > rounding + slack:
        faults.append(f"objective {objective:.17g} is {float(value):.17g}")
    if above > gap * LIMIT + slack + exact.gap_rounding(x, DOUBLE):
        faults.append(f"gap {gap:.3g}, {above:.3g} above the minimum")
    if given["certify"] is not False:
        coarse = 0.0 if batch.shift is None else exact.rounding(x, torch.finfo(batch.problem.dtype).eps)
        if bool(torch.isfinite(batch.problem.objective(given.get("x0", batch.problem.start()))[i])):
            faults += _guarantee(exact, x0, value, truth, found, i, exact.gap_rounding(x, DOUBLE) + slack + coarse)
    return Verdict(faults, status, truth.excess <= GOOD * promised or promised == 0, ratio)


def _origin(exact: Exact, x0: np.ndarray) -> np.ndarray:
    """What stands for the origin: the start, where coordinates are free and the gradient at the origin is zero."""
    zero = np.zeros_like(x0)
    free = (exact.w == 0) & (exact.mu == 0) & (np.isinf(exact.low) | np.isinf(exact.high))
    return x0 if free.any() and not (exact.slope(zero) @ exact.A).any() else zero


def _converged(exact: Exact, x: np.ndarray, tol: float, ratio: float, bounded: bool) -> Iterator[str]:
    """What "converged" promises: a bound on F - F*, or on the KKT residual where nothing bounds a coordinate."""
    if bounded and not ratio <= LIMIT:
        yield f"converged {ratio:.3g} times further above the minimum than promised"
    steepest = np.abs(exact.slope(np.zeros_like(x)) @ exact.A).max()
    residual = np.abs(exact.pull(x, exact.slope(x) @ exact.A)).max()
    if not bounded and steepest > 0 and not residual <= tol * LIMIT * steepest + exact.pull_rounding(x, DOUBLE):
        yield f"converged with a KKT residual of {float(residual):.3g}"


def _guarantee(
    exact: Exact, x0: np.ndarray, value: Any, truth: Truth, found: Any, i: int, slack: float
) -> Iterator[str]:
    """What a certified solve promises beside its certificate."""
    before = exact.value(x0)
    if not np.isfinite(before):
        return
    if found.status[i] == "diverged":
        yield "certified, and diverged"
    if value > before + slack + exact.rounding(x0, DOUBLE):
        yield f"certified, and F(x) {float(value):.17g} > F(x0) {float(before):.17g}"
    radius = float(np.sqrt(((x0 - truth.x) ** 2).sum())) * (1 + 1e-12)
    bound = float(found.bound(radius)[i])
    if not float(value - truth.value) <= bound * LIMIT + slack:
        yield f"bound {bound:.3g}, {float(value - truth.value):.3g} above the minimum"


def main() -> None:
    torch.set_num_threads(1)
    if len(sys.argv) == 2:
        print(judged(int(sys.argv[1]), show=True)[1])
        return
    count, out, number = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    failures: list[str] = []
    refused = solves = claims = tight = 0
    while solves < count:
        out.write_text(json.dumps({"solving": number}))  # for the parent, should this crash
        verdicts, text = judged(number)
        refused += not verdicts
        solves += len(verdicts)
        for i, verdict in enumerate(verdicts):
            claims += verdict.status == "converged"
            tight += verdict.status == "converged" and verdict.tight
            failures += [f"case {number}, instance {i}: {fault}; {text}" for fault in verdict.faults]
        number += 1
    counted = {"solves": solves, "refused": refused, "claims": claims, "tight": tight, "failures": failures}
    out.write_text(json.dumps(counted))


if __name__ == "__main__":
    main()
