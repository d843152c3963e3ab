"""What `solve` should run where neither working sets nor the two special Sures apply: CPU seconds of candidates.

    python benchmarks/general_sure.py [--rounds 2] [--seed 7] [--kinds ...]

`solve(problem, candidate)` with everything else as users get it (certify="auto", which is an audit here, tol 1e-6, the
engine "auto"), one thread, CPU seconds of the whole call, certificates included; candidates take turns, the first turn
does not count. Kinds are those of the second battery that `solve` leaves to restarted FISTA, with other seeds than any
record of it, and the same forms in larger sizes; each in a batch and as one problem.
"""

import argparse
import json
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

import sureprox as sp
from sureprox.base.files import write_atomically
from sureprox.evaluation.battery import draw
from sureprox.optimizers import FISTA, PANOC, LocalFISTA, Optimizer, SpaRSA
from sureprox.problems import Huber, LeastSquares, Logistic, Problem, SquaredHinge
from sureprox.problems.forms import Form, Loss, Shape, form_of
from sureprox.problems.operators import Compose, Convolution, Haar
from sureprox.problems.penalties import L1, ElasticNet
from sureprox.solve.plan import at_once
from sureprox.sources import designs as make

from _battery_kinds import FROM_ZERO
from _form_samplers import F64, Chance, binary, clean, matrix, noisy, share
from _record import write_record

BATCH = 8
CANDIDATES: dict[str, Callable[[], Optimizer[Any]]] = {
    "restarted FISTA": partial(FISTA, restart=True),
    "LocalFISTA": LocalFISTA,
    "SpaRSA": SpaRSA,
    "PANOC": PANOC,
    "sure": lambda: sp.load("sure/general"),
}
FIRST = "restarted FISTA"


def elastic_logistic(m: int, n: int, chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, m, n)
    f = Logistic(A, binary(chance, A, n // 6))
    return Problem(f, ElasticNet(share(f, 0.02), 1e-3 * f.lipschitz()))


def hinge(m: int, n: int, chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, m, n)
    f = SquaredHinge(A, binary(chance, A, n // 8))
    return Problem(f, L1(share(f, 0.05)))


def huber(m: int, n: int, chance: Chance, count: int) -> Problem:
    A = matrix(chance, count, m, n)
    f = Huber(A, noisy(chance, clean(chance, A, n // 5), 0.5), 0.3)
    return Problem(f, L1(share(f, 0.05)))


def blurred(side: int, chance: Chance, count: int) -> Problem:
    place = torch.arange(-4, 5, dtype=F64)
    kernel = torch.exp(-(place**2) / 4)
    A = Compose(Convolution(torch.outer(kernel, kernel) / kernel.sum() ** 2, (side, side)), Haar((side, side)).T)
    f = LeastSquares(A, noisy(chance, A.forward(make.sparse_signal(chance, count, side**2, side**2 // 16)), 0.02))
    return Problem(f, L1(share(f, 0.005)))


LARGER: dict[str, Callable[[Chance, int], Problem]] = {
    "logistic-elastic-net, 1000 x 300": partial(elastic_logistic, 1000, 300),
    "logistic-elastic-net, 4000 x 1000": partial(elastic_logistic, 4000, 1000),
    "squared-hinge, 1000 x 400": partial(hinge, 1000, 400),
    "squared-hinge, 4000 x 1000": partial(hinge, 4000, 1000),
    "huber, 1000 x 500": partial(huber, 1000, 500),
    "huber, 4000 x 1000": partial(huber, 4000, 1000),
    "deblurring, 128 x 128": partial(blurred, 128),
    "deblurring, 256 x 256": partial(blurred, 256),
}


def left_to_the_default(form: Form) -> bool:
    """Neither solved on working sets, nor by a Sure of its own, nor with groups, which no Sure reads."""
    special = form.loss in (Loss.SQUARES, Loss.LOGISTIC) and form.penalty is Shape.L1
    return not special and form.separable and at_once(form, "kernels").solved is None


def problems(name: str, seed: int) -> Problem:
    if name in LARGER:
        return LARGER[name](torch.Generator().manual_seed(seed), BATCH if "4000" not in name else 1)
    return draw(FROM_ZERO[name], BATCH, 1000 + seed).problem


def raced(problem: Problem, rounds: int) -> dict[str, dict[str, Any]]:
    """CPU seconds, the rounds' median, iterations and unsolved instances of every candidate."""
    spent: dict[str, list[float]] = {name: [] for name in CANDIDATES}
    found: dict[str, dict[str, Any]] = {}
    for turn in range(rounds + 1):
        for name, make_one in CANDIDATES.items():
            optimizer = make_one()
            optimizer = optimizer.requires_grad_(False) if isinstance(optimizer, torch.nn.Module) else optimizer
            began = time.process_time()
            with torch.no_grad():
                solution = sp.solve(problem, optimizer)
            if turn:
                spent[name].append(time.process_time() - began)
            found[name] = {
                "seconds": None,
                "iterations": float(solution.iterations.double().median()),
                "unsolved": int((~solution.converged).sum()),
            }
    for name, times in spent.items():
        found[name]["seconds"] = float(f"{statistics.median(times):.4g}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Seconds of solve with the candidates for its default.")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--kinds", nargs="*", default=[])
    parser.add_argument("--work", type=Path, default=Path("out/general_sure"), help="finished kinds are kept here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows: dict[str, dict[str, Any]] = {}
    for name in options.kinds or [*LARGER, *FROM_ZERO]:
        problem = problems(name, options.seed)
        form = form_of(problem)
        if not left_to_the_default(form):
            continue
        for batch in sorted({1, problem.batch}):
            kept = options.work / f"{name}-{batch}-{options.rounds}-{options.seed}.json"
            if not kept.exists():
                part = problem.select(torch.arange(batch))
                write_atomically(kept, json.dumps(raced(part, options.rounds)).encode())
            methods = json.loads(kept.read_text())
            quicker = {m: round(methods[FIRST]["seconds"] / methods[m]["seconds"], 3) for m in list(methods)[1:]}
            about = {"loss": form.loss.value, "penalty": form.penalty.value, "m": form.m, "n": form.n, "batch": batch}
            rows[f"{name}, batch {batch}"] = about | {"times_quicker": quicker, "methods": methods}
            print(f"{name}, batch {batch}", about, quicker, {m: methods[m]["iterations"] for m in methods}, flush=True)
    found = {group: summary(rows, chosen) for group, chosen in groups(rows).items()}
    for group, means in found.items():
        print(group, means, flush=True)
    if not options.kinds:
        setting = {"rounds": options.rounds, "seed": options.seed, "tol": 1e-6, "dtype": "float64", "threads": 1}
        print(write_record("general_sure", {"setting": setting, "summary": found, "kinds": rows}))


def groups(rows: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    operators = [name for name, row in rows.items() if row["m"] == 0]
    return {
        "all": list(rows),
        "dense": [name for name in rows if name not in operators],
        "operators": operators,
        "larger sizes": [name for name in rows if name.rpartition(", batch")[0] in LARGER],
        "one problem": [name for name, row in rows.items() if row["batch"] == 1],
        "a batch": [name for name, row in rows.items() if row["batch"] > 1],
    }


def summary(rows: dict[str, dict[str, Any]], names: list[str]) -> dict[str, Any]:
    """Geometric means and extremes of how many times quicker than restarted FISTA each candidate is."""
    found: dict[str, Any] = {"kinds": len(names)}
    for method in list(CANDIDATES)[1:] if names else []:
        ratios = [rows[name]["times_quicker"][method] for name in names]
        found[method] = {
            "mean": round(math.exp(statistics.fmean(map(math.log, ratios))), 3),
            "least": min(ratios),
            "slower": sum(ratio < 1 for ratio in ratios),
            "unsolved": sum(rows[name]["methods"][method]["unsolved"] for name in names),
        }
    return found


if __name__ == "__main__":
    main()
