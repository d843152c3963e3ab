"""A CPU at home: this package against scikit-learn and celer on their own ground, to the same duality gap, in one run.

Rows: 128 LASSO problems of 250 x 500; `LassoCV` of 500 x 1000, at scikit-learn's tolerance; `sparse_encode` of 10,000
patches with 128 atoms; 256 logistic problems of 250 x 500, and one LASSO problem of several sizes, one of them sparse,
with lam = lam_max / 10, as `sureprox.solve(problem)` from tensors that are there and as `fit` from an array that lies
as each likes best: column by column for celer and skglm, row by row for liblinear; a sparse A lies in columns for all
before the clock starts, ours since the problem was made. All in float64 but the first and the
logistic ones, which are in float32 for us, as the families are.

The peers are at their best: one BLAS thread a process, threads or processes for many problems, whichever is quicker;
their tolerances are those that belong to the duality gap 1e-6 F. Where theirs are for something else, as in
scikit-learn's logistic regression, each problem has the loosest of 1e-2, 3e-3, 1e-3, ... that reaches this gap, found
beforehand; its solver is liblinear or saga, whichever needs less time for one problem. Rounds alternate, and the best
counts. Then our time is taken beside two busy processes, relative to the idle one, and the bits of two runs are
compared.

    python benchmarks/cpu_home.py [--repeats 3] [--rounds 5] [--small] [--only NAME ...]

All of that is repeated, one row after the other each time; the row in the record is the repeat with the median of
"times faster", and "repeats" holds the ratios of all. `--small` tries the script and writes no record. `--only`
measures the rows whose names hold one of these words and keeps the others of the record, with their own dates.
"""

import argparse
import json
import multiprocessing
import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import sklearn
import torch
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.decomposition import sparse_encode as sklearn_sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV as SklearnLassoCV
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

import sureprox as sp
from sklearn_speed import ALPHA, objectives, patches, regression
from sureprox.sklearn import LassoCV, sparse_encode
from sureprox.sources import LassoFamily, LogisticFamily

from _record import RECORDS, write_record

LEVEL, RATIO, SEED = 1e-6, 0.1, 20261119
SAME_TOL = 2e-4  # of our path_tol, relative to |y|^2 / 2: scikit-learn's tol of 1e-4 |y|^2
SIZES = ((100, 200), (250, 500), (72, 7129), (1000, 5000), (500, 20_000))
SPARSE = (20_000, 5_000, 0.01)  # rows, columns, and the share of entries that are not zero
LADDER = [base * 10.0**-power for power in range(2, 9) for base in (1, 0.3)]  # tolerances
SAGA = 1000  # iterations at most: more than liblinear's time for them
BUSY = 2  # processes
PARTS = 4  # of the problems of a core

Runs = dict[str, Callable[[], Any]]


def packages() -> list[str]:
    found = ["scikit-learn"]
    for name in ("celer", "skglm"):
        try:
            __import__(name)
        except ImportError:
            continue
        found.append(name)
    return found


def model(package: str, lam: float, A: np.ndarray, b: np.ndarray, best: float) -> Any:
    """A LASSO of that package, told to stop at the duality gap LEVEL F, `best` being F."""
    m, relative = len(b), LEVEL * best / float(b @ b)  # scikit-learn's gaps are relative to |b|^2
    if package == "scikit-learn":
        from sklearn.linear_model import Lasso

        return Lasso(lam / m, fit_intercept=False, tol=relative, max_iter=100_000, copy_X=False)
    if package == "celer":
        from celer import Lasso as Celer

        return Celer(lam / m, fit_intercept=False, tol=2 * relative, max_iter=1000)  # relative to |b|^2 / 2
    from skglm import Lasso as Skglm

    # its tolerance is for the violation of the optimality conditions; the record has the gap that comes of it
    return Skglm(lam / m, fit_intercept=False, tol=LEVEL * lam / m, max_iter=1000)


def one_problem(m: int, n: int, density: float = 1.0) -> tuple[Runs, Callable[[np.ndarray], float]]:
    random = np.random.default_rng(SEED + n)
    A, weights, some = normal_matrix(random, m, n, density), np.zeros(n), max(5, min(m, n) // 10)
    weights[:some] = random.normal(size=some)
    b = A @ weights + 0.1 * random.normal(size=m)
    lam = RATIO * float(np.abs(A.T @ b).max())
    given = torch.from_numpy(A) if density == 1 else A
    problem = sp.Problem(sp.losses.LeastSquares(given, torch.from_numpy(b)[None]), sp.penalties.L1(lam))
    best, columns = float(sp.solve(problem, tol=1e-9).objective), np.asfortranarray(A) if density == 1 else A.tocsc()
    runs: Runs = {"sureprox": lambda: sp.solve(problem).x[0].numpy()}
    for package in packages():
        runs[package] = partial(lambda made: made.fit(columns, b).coef_, model(package, lam, A, b, best))
    return runs, lambda x: worst_gap(problem, torch.from_numpy(np.asarray(x, dtype=np.float64))[None])


def normal_matrix(random: np.random.Generator, m: int, n: int, density: float) -> Any:
    """Dense, or where most is zero, sparse."""
    if density == 1:
        return random.normal(size=(m, n))
    count = int(density * m * n)
    places = (random.integers(size, size=count, dtype=np.int32) for size in (m, n))
    return sparse.coo_array((random.normal(size=count), tuple(places)), shape=(m, n)).tocsr()


def worst_gap(problem: sp.Problem, x: torch.Tensor) -> float:
    """The largest duality gap relative to F."""
    seen = problem.to(dtype=torch.float64).certificate(x.double())
    return float((seen.gap / seen.objective).max())


def batch(count: int, held: ExitStack) -> tuple[Runs, Callable[[np.ndarray], float]]:
    """`held` keeps the workers of the peers, and the file from which their processes read, until all is done."""
    problem = LassoFamily().sample(count, torch.Generator().manual_seed(SEED))
    best = sp.solve(problem, tol=1e-9).objective.numpy()
    A, b = problem.f.A.mT.double().contiguous().numpy(), problem.f.b.double().numpy()
    lam, cores = problem.r.lam.double().expand(count).numpy(), os.cpu_count() or 1
    file = Path(held.enter_context(TemporaryDirectory())) / "A.npy"
    np.save(file, A)
    mapped = np.load(file, mmap_mode="r")
    runs: Runs = {"sureprox": lambda: sp.solve(problem).x.numpy()}
    lots = [lot for lot in np.array_split(np.arange(count), PARTS * cores) if len(lot)]
    for way, matrices in (("threads", A), ("processes", mapped)):
        tasks = [(matrices[lot[0] : lot[-1] + 1], b[lot], lam[lot], best[lot]) for lot in lots]
        pool = held.enter_context(Parallel(n_jobs=cores, prefer=way, max_nbytes=None))
        for package in packages():
            runs[f"{package}, {way}"] = partial(together, pool, package, tasks)
    return runs, lambda x: worst_gap(problem, torch.from_numpy(x))


def together(pool: Parallel, package: str, tasks: list[Any]) -> np.ndarray:
    return np.concatenate(pool(delayed(fitted)(package, *task) for task in tasks))


def fitted(package: str, A: np.ndarray, b: np.ndarray, lam: np.ndarray, best: np.ndarray) -> np.ndarray:
    """A (count, n, m): columns in one piece."""
    with threadpool_limits(1, user_api="blas"):
        return np.stack([model(package, lam[i], A[i].T, b[i], best[i]).fit(A[i].T, b[i]).coef_ for i in range(len(b))])


def logistic(count: int, held: ExitStack) -> tuple[Runs, Callable[[np.ndarray], float]]:
    """`held` as in `batch`."""
    family = LogisticFamily(m=250, n=500, nonzeros=50, curvature=0.25)
    problem = family.sample(count, torch.Generator().manual_seed(SEED))
    largest = problem.grad(torch.zeros(count, problem.n)).abs().amax(1)
    problem = sp.Problem(problem.f, sp.penalties.L1(RATIO * largest))
    A, y = problem.f.A.double().numpy(), problem.f.y.numpy().astype(int)
    C, cores = 1 / (A.shape[1] * RATIO * largest.double().numpy()), os.cpu_count() or 1
    exact = problem.to(dtype=torch.float64)

    def loosest(i: int, solver: str) -> float:
        one = exact.select(torch.tensor([i]))
        reached = (tol for tol in LADDER if worst_gap(one, torch.from_numpy(classified(solver, *of(i), tol))) <= LEVEL)
        return next(reached, LADDER[-1])

    def of(i: int) -> tuple[np.ndarray, np.ndarray, float]:
        return A[i], y[i], C[i]

    file = Path(held.enter_context(TemporaryDirectory())) / "A.npy"
    np.save(file, A)
    mapped = np.load(file, mmap_mode="r")
    seconds = {}
    for solver in ("liblinear", "saga"):
        tol = loosest(0, solver)
        began = time.perf_counter()
        classified(solver, *of(0), tol)
        seconds[solver] = time.perf_counter() - began
    print("one problem, seconds:", {solver: round(value, 4) for solver, value in seconds.items()}, flush=True)
    quickest = min(seconds, key=lambda solver: seconds[solver])
    tols = [loosest(i, quickest) for i in range(count)]
    runs: Runs = {"sureprox": lambda: sp.solve(problem).x.numpy()}
    lots = [lot for lot in np.array_split(np.arange(count), PARTS * cores) if len(lot)]
    for way, matrices in (("threads", A), ("processes", mapped)):
        tasks = [(matrices[lot[0] : lot[-1] + 1], y[lot], C[lot], [tols[i] for i in lot]) for lot in lots]
        pool = held.enter_context(Parallel(n_jobs=cores, prefer=way, max_nbytes=None))
        runs[f"scikit-learn {quickest}, {way}"] = partial(labelled, pool, quickest, tasks)
    return runs, lambda x: worst_gap(problem, torch.from_numpy(x))


def labelled(pool: Parallel, solver: str, tasks: list[Any]) -> np.ndarray:
    return np.concatenate(pool(delayed(all_classified)(solver, *task) for task in tasks))


def all_classified(solver: str, A: np.ndarray, y: np.ndarray, C: np.ndarray, tols: list[float]) -> np.ndarray:
    with threadpool_limits(1, user_api="blas"):
        return np.concatenate([classified(solver, A[i], y[i], C[i], tols[i]) for i in range(len(y))])


def classified(solver: str, A: np.ndarray, y: np.ndarray, C: float, tol: float) -> np.ndarray:
    """(1, n)"""
    warnings.simplefilter("ignore")  # in processes too: of iterations, and of newer names for these arguments
    options = {"solver": solver, "penalty": "l1", "fit_intercept": False, "random_state": 0}
    options["max_iter"] = SAGA if solver == "saga" else 10_000
    found: np.ndarray = LogisticRegression(C=C, tol=tol, **options).fit(A, y).coef_
    return found


def cross_validation(rows: int, columns: int) -> tuple[Runs, Callable[[Any], float]]:
    X, y = regression(rows, columns)
    tight = SklearnLassoCV(cv=5, tol=1e-6, max_iter=1_000_000, n_jobs=-1).fit(X, y).mse_path_
    runs: Runs = {
        "sureprox": lambda: LassoCV(cv=5, path_tol=SAME_TOL).fit(X, y).mse_path_,
        "sureprox, its own path_tol": lambda: LassoCV(cv=5).fit(X, y).mse_path_,
        "scikit-learn": lambda: SklearnLassoCV(cv=5, max_iter=100_000, n_jobs=-1).fit(X, y).mse_path_,
        "scikit-learn, one process": lambda: SklearnLassoCV(cv=5, max_iter=100_000).fit(X, y).mse_path_,
    }
    return runs, lambda found: float(np.abs(found / tight - 1).max())


def coding(count: int) -> tuple[Runs, Callable[[np.ndarray], float]]:
    X, D = patches(count)
    options = {"algorithm": "lasso_cd", "alpha": ALPHA, "max_iter": 10_000}
    best = objectives(X, D, sparse_encode(X, D, alpha=ALPHA, tol=1e-10))
    runs: Runs = {
        "sureprox": lambda: sparse_encode(X, D, alpha=ALPHA),
        "scikit-learn": lambda: sklearn_sparse_encode(X, D, n_jobs=-1, **options),
        "scikit-learn, one process": lambda: sklearn_sparse_encode(X, D, **options),
    }
    return runs, lambda codes: float((objectives(X, D, codes) / best - 1).max())


def times(runs: Runs, rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Best seconds and last result of each, alternating, after one run that is not counted; quick ones more often."""
    results, best = {}, dict.fromkeys(runs, float("inf"))
    for name, run in runs.items():
        began = time.perf_counter()
        results[name] = run()
        best[name] = time.perf_counter() - began
    often = {name: max(1, min(50, int(0.02 / best[name]))) for name in runs}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            for _ in range(often[name]):
                began = time.perf_counter()
                results[name] = run()
                best[name] = min(best[name], time.perf_counter() - began)
    return best, results


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Beside so many processes that compute all the time."""
    context = multiprocessing.get_context("spawn")
    others = [context.Process(target=_spin, daemon=True) for _ in range(count)]
    for other in others:
        other.start()
    time.sleep(1.0)
    try:
        yield
    finally:
        for other in others:
            other.terminate()
            other.join(10)


def _spin() -> None:
    value = 1.0
    while True:
        value = value * 1.0000001 % 2.0


def row(runs: Runs, error: Callable[[Any], float], rounds: int) -> dict[str, Any]:
    best, results = times(runs, rounds)
    again = runs["sureprox"]()
    with busy(BUSY):
        beside, _ = times({"sureprox": runs["sureprox"]}, 3)
    rivals = {name: value for name, value in best.items() if not name.startswith("sureprox")}
    celer = {name: value for name, value in best.items() if name.startswith("celer")}
    fastest = min(rivals, key=lambda name: rivals[name])
    return {
        "milliseconds": {name: round(1000 * value, 3) for name, value in best.items()},
        "error": {name: float(f"{error(result):.2e}") for name, result in results.items()},
        "best rival": fastest,
        "times faster": round(rivals[fastest] / best["sureprox"], 2),
        **({"times faster than celer": round(min(celer.values()) / best["sureprox"], 2)} if celer else {}),
        "slower beside two busy processes": round(beside["sureprox"] / best["sureprox"], 2),
        "same bits": bool(np.array_equal(again, results["sureprox"])),
        "load average": round(os.getloadavg()[0], 1),  # of the machine: 1 to 3 where nothing else runs
        "date": date.today().isoformat(),
    }


RATIOS = ("times faster", "times faster than celer", "slower beside two busy processes")


def median(repeats: list[dict[str, Any]]) -> dict[str, Any]:
    """The repeat with the median of "times faster", the lower one of two, and the ratios of all."""
    chosen = sorted(repeats, key=lambda shown: shown["times faster"])[(len(repeats) - 1) // 2]
    ratios = {name: [shown[name] for shown in repeats] for name in RATIOS if name in chosen}
    return {**chosen, "same bits": all(shown["same bits"] for shown in repeats), "repeats": ratios}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""])
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    small, held = options.small, ExitStack()
    sp.prepare(LassoFamily().sample(1, torch.Generator().manual_seed(0)))
    work: dict[str, Callable[[], tuple[Runs, Callable[[Any], float]]]] = {
        "128 LASSO 250 x 500": lambda: batch(8 if small else 128, held),
        "LassoCV 500 x 1000": lambda: cross_validation(*((60, 100) if small else (500, 1000))),
        "sparse_encode 10,000 x 128": lambda: coding(200 if small else 10_000),
    }
    work["256 logistic 250 x 500"] = lambda: logistic(8 if small else 256, held)
    for m, n in SIZES[:2] if small else SIZES:
        work[f"one {m} x {n}"] = partial(one_problem, m, n)
    work["one sparse 20,000 x 5,000"] = partial(one_problem, *((200, 100, 0.1) if small else SPARSE))
    work = {name: prepared for name, prepared in work.items() if any(word in name for word in options.only)}
    record = RECORDS / "cpu_home.json"
    rows: dict[str, Any] = json.loads(record.read_text())["rows"] if options.only != [""] and record.exists() else {}
    with threadpool_limits(1, user_api="blas"), held:
        ready = {name: prepared() for name, prepared in work.items()}
        measured: dict[str, list[dict[str, Any]]] = {name: [] for name in work}
        for _ in range(options.repeats):
            for name, (runs, error) in ready.items():
                shown = row(runs, error, options.rounds)
                measured[name].append(shown)
                print(
                    f"{name:28} {shown['milliseconds']['sureprox']:10.3f} ms  {shown['times faster']:6.2f} x "
                    f"{shown['best rival']:28} busy {shown['slower beside two busy processes']:5.2f}  "
                    f"bits {shown['same bits']}  error {shown['error']['sureprox']:.1e}",
                    flush=True,
                )
    rows |= {name: median(repeats) for name, repeats in measured.items()}
    if not small:
        protocol = f"{options.repeats} repeats of {options.rounds} rounds, alternating, after one that is not counted"
        setting = {"threads": torch.get_num_threads(), "scikit-learn": sklearn.__version__, "rivals": packages()}
        print(write_record("cpu_home", {"setting": setting, "protocol": protocol, "rows": rows}))


if __name__ == "__main__":
    main()
