"""Fresh LASSO problems (250 x 500, one A each) to a relative gap of 1e-6: ours, restarted FISTA, scikit-learn, celer.

"alone": as many iterations as every instance, or half of them, needs to (F - F*)/F* <= 1e-6, and nothing else.
"solve": `sureprox.solve` as a user calls it, until the duality gap itself is below 1e-6 F, estimate of L, checks and
float64 included, each time for problems that it has not seen before; from zero, as scikit-learn starts, and from the
paper's start N(0, 1), which is farther away.
scikit-learn and celer run one problem per thread or process, whichever is quicker, on all cores, told to stop at the
duality gap 1e-6 F. "seconds" of both: the median of five rounds.

    python benchmarks/throughput.py [--device cuda] [--batch 1024] [--cores 16]
"""

import argparse
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor

import sureprox as sp
from sureprox.base.machine import wait
from sureprox.evaluation.speed import FAST
from sureprox.optimizers import FISTA, Optimizer
from sureprox.problems import Problem
from sureprox.solve.plan import plan
from sureprox.sources import LassoFamily

from _record import write_record

SEED, LEVEL, ROUNDS = 20261117, 1e-6, 5
PARTS = 4  # of the problems of a core


def seconds(work: Callable[[], Any], device: torch.device) -> float:
    wait(device)
    began = time.perf_counter()
    work()
    wait(device)
    return time.perf_counter() - began


@torch.no_grad()
def alone(optimizer: Optimizer[Any], problem: Problem, exact: Problem, x0: Tensor, best: Tensor) -> dict[str, Any]:
    """Iterations until half, and until all instances are there, and the seconds of those."""
    step_size = problem.step_size()
    state = optimizer.init(problem, x0, step_size=step_size)
    hit = torch.full_like(best, -1)
    for after in sp.iterate(problem, optimizer, state, 2000):
        gap = (exact.objective(after.x.double()) - best) / best
        hit[(hit < 0) & (gap <= LEVEL)] = after.k
        if bool((hit >= 0).all()):
            break
    found: dict[str, Any] = {"unsolved": int((hit < 0).sum())}
    for name, count in (("median", int(hit.median())), ("all", int(hit.max()))):

        def steps(count: int = count) -> None:
            for _ in sp.iterate(problem, optimizer, state, count):
                pass

        times = [seconds(steps, problem.device) for _ in range(ROUNDS)]
        found[name] = {"iterations": count, "seconds": min(times)}
    return found


def fitted(package: str, A: np.ndarray, b: np.ndarray, lam: np.ndarray, objective: np.ndarray) -> np.ndarray:
    """The solutions of some problems by scikit-learn or celer, told to stop at the duality gap LEVEL F."""
    if package == "celer":
        from celer import Lasso
    else:
        from sklearn.linear_model import Lasso
    m, options = b.shape[1], {} if package == "celer" else {"copy_X": False}
    # their gaps are relative to |b|^2 / (2 m), of an objective divided by m, and to |b|^2
    aims = LEVEL * objective / (b**2).sum(1) * (2 if package == "celer" else 1)
    made = []
    for i, aim in enumerate(aims):
        model = Lasso(alpha=lam[i] / m, fit_intercept=False, tol=aim, max_iter=100_000, **options)
        made.append(np.asarray(model.fit(A[i].T, b[i]).coef_))  # columns in one piece, as it wants them
    return np.stack(made)


def classical(problem: Problem, objective: np.ndarray, cores: int, package: str) -> dict[str, Any] | None:
    """Seconds of all problems on all cores, by threads or by processes, whichever is quicker, and the largest gap left.

    Each core is given `PARTS` lots of problems, one after the other; its linear algebra has one thread. Processes read
    the matrices from a file that all of them map into their memory, so that these are not sent.
    """
    try:
        from joblib import Parallel, delayed
        from threadpoolctl import threadpool_limits

        __import__("celer" if package == "celer" else "sklearn")
    except ImportError:
        return None
    A, b = (value.double().cpu().numpy() for value in (problem.f.A.mT.contiguous(), problem.f.b))
    lam = problem.r.lam.double().cpu().numpy()
    lots = np.array_split(np.arange(len(b)), PARTS * cores)
    seconds, x = {}, None
    with TemporaryDirectory() as folder, threadpool_limits(1):
        np.save(Path(folder) / "A.npy", A)
        mapped = np.load(Path(folder) / "A.npy", mmap_mode="r")
        for way, matrices in (("threads", A), ("processes", mapped)):
            tasks = [(matrices[lot[0] : lot[-1] + 1], b[lot], lam[lot], objective[lot]) for lot in lots if len(lot)]
            with Parallel(n_jobs=cores, prefer=way, max_nbytes=None) as pool:
                times = []
                for _ in range(1 + ROUNDS):  # the first starts the workers and reads the file
                    began = time.perf_counter()
                    x = pool(delayed(fitted)(package, *task) for task in tasks)
                    times.append(time.perf_counter() - began)
                seconds[way] = median(times[1:])
    exact = problem.to(device="cpu", dtype=torch.float64)
    points = torch.from_numpy(np.concatenate(x))
    gap = exact.duality_gap(points) / exact.objective(points)
    return {
        "seconds": min(seconds.values()),
        "seconds_by": seconds,
        "largest_relative_duality_gap": float(gap.max()),
        "cores": cores,
    }


def paid_back(numbers: dict[str, Any], batch: int) -> dict[str, Any]:
    """After how many problems the seconds of training Sure are saved again; None against whoever is quicker."""
    card = sp.optimizers.read_card("sure/lasso")
    seconds = float(card.metrics["seconds"])
    mine = numbers["solve"]["default"]["seconds"] / batch
    others = {"fista-restart": numbers["solve"]["fista-restart"]["seconds"]}
    others |= {name: numbers[name]["seconds"] for name in ("scikit-learn", "celer") if numbers[name] is not None}
    saved = {name: value / batch - mine for name, value in others.items()}
    after = {name: math.ceil(seconds / value) if value > 0 else None for name, value in saved.items()}
    return {"seconds": seconds, "device": card.training.get("device"), "paid_after": after}


def main() -> None:
    parser = argparse.ArgumentParser(description="Fresh LASSO problems to a relative gap of 1e-6.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    options = parser.parse_args()
    device = torch.device(options.device)
    if device.type == "cpu":
        torch.set_num_threads(options.cores)
    generator = torch.Generator(device).manual_seed(SEED)
    family = LassoFamily()
    problem, x0 = family.sample(options.batch, generator), family.start(options.batch, generator)
    exact = problem.to(dtype=torch.float64)
    best = sp.reference(exact).objective
    numbers: dict[str, Any] = {"alone": {}, "solve": {}}
    for name in ("fista-restart", "go-math-l2o", "sure", "sure-light", "certified sure"):
        optimizer = FAST[name](device)
        with plan(problem, optimizer, wait=True).stepping() as stepping:
            numbers["alone"][name] = alone(stepping, problem, exact, x0, best)
        print("alone", name, numbers["alone"][name], flush=True)
    cases: dict[str, tuple[Any, bool, dict[str, Any]]] = {  # whether from zero
        "default": (None, True, {}),
        "default from N(0, 1)": (None, False, {}),
        "default, not polished": (None, True, {"polish": False}),
        "fista-restart": (FISTA(restart=True), True, {}),
    }
    fresh = [(family.sample(options.batch, generator), family.start(options.batch, generator)) for _ in range(ROUNDS)]
    for name, (optimizer, from_zero, arguments) in cases.items():
        solutions: list[sp.Solution] = []

        def work(given: tuple[Problem, Tensor], optimizer: Any = optimizer, more: dict[str, Any] = arguments) -> None:
            start = None if from_zero else given[1]  # noqa: B023
            solutions.append(sp.solve(given[0], optimizer, start, tol=LEVEL, **more))  # noqa: B023

        first = seconds(partial(work, (problem, x0)), device)
        sp.solve(problem, optimizer, None if from_zero else x0, tol=LEVEL, engine="kernels", **arguments)  # builds them
        times = [seconds(partial(work, given), device) for given in fresh]  # each of problems never seen before
        numbers["solve"][name] = {
            "seconds": median(times),
            "seconds_best": min(times),
            "seconds_worst": max(times),
            "first_call_seconds": first,
            "converged": min(int(solution.converged.sum()) for solution in solutions),
            "iterations_median": float(solutions[-1].iterations.double().median()),
            "iterations_largest": max(int(solution.iterations.max()) for solution in solutions),
            "finished_in_float64": int(solutions[-1].refined.sum()),
        }
        print("solve", name, numbers["solve"][name], flush=True)
    setting = {"batch": options.batch, "m": family.m, "n": family.n, "dtype": "float32", "device": device.type}
    command = f"python benchmarks/throughput.py --device {device.type} --batch {options.batch} --cores {options.cores}"
    numbers = {"command": command, "setting": setting, **numbers, "scikit-learn": None, "celer": None}
    name, cut = f"throughput_{device.type}", {"note": "ended before scikit-learn was timed"}
    write_record(name, numbers | cut)  # what takes longest comes last
    for package in ("scikit-learn", "celer"):
        numbers[package] = classical(problem, best.cpu().numpy(), options.cores, package)
        print(package, numbers[package], flush=True)
    if numbers["solve"]["default"]["iterations_largest"]:  # else nothing learned has taken part
        numbers["training"] = paid_back(numbers, options.batch)
        print("training", numbers["training"])
    print(write_record(name, numbers))


if __name__ == "__main__":
    main()
