"""The estimators of `sureprox.sklearn` against scikit-learn's own, in one run on one machine, best of a few rounds.

LassoCV: 500 x 1000, 100 alphas, 5 folds. scikit-learn runs with its own tolerance, and once, for the alpha that ours
must choose, with one a hundred times tighter, its answer at the first being a matter of luck. sparse_encode: 10,000
patches of 8 x 8 and the 128 atoms of an overcomplete cosine dictionary; the objectives must agree to 1e-4.
scikit-learn has all cores (n_jobs=-1). The data are random: sparse combinations of columns, or atoms, and noise.

    python benchmarks/sklearn_speed.py [--device cpu|cuda] [--rounds 3] [--small]

`--small` tries the script at a tenth of the size and writes no record.
"""

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import sklearn
import torch
from sklearn.decomposition import sparse_encode as sklearn_sparse_encode
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LassoCV as SklearnLassoCV

from sureprox.sklearn import LassoCV, sparse_encode

from _record import write_record

SEED = 20261115
ALPHA = 0.1  # of sparse_encode
AGREE = 1e-4


def regression(rows: int, columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal X, a twentieth of the columns in use, noise of a fifth of the signal's size."""
    random = np.random.default_rng(SEED)
    X = random.normal(size=(rows, columns))
    signal = X[:, : columns // 20] @ random.normal(size=columns // 20)
    return X, signal + 0.2 * signal.std() * random.normal(size=rows)


def cosines(length: int, count: int) -> np.ndarray:
    """(count, length) cosines of growing frequency, all but the first without mean, of length 1."""
    grid = np.cos(np.pi * np.outer(np.arange(count) / count, np.arange(length) + 0.5))
    grid[1:] -= grid[1:].mean(1, keepdims=True)
    return grid / np.linalg.norm(grid, axis=1, keepdims=True)


def patches(count: int) -> tuple[np.ndarray, np.ndarray]:
    """`count` sparse combinations of 5 atoms with noise, and the dictionary: 16 x 8 products of cosines."""
    random = np.random.default_rng(SEED)
    dictionary = np.kron(cosines(8, 16), cosines(8, 8))
    codes = np.zeros((count, len(dictionary)))
    for row in codes:
        row[random.choice(len(dictionary), 5, replace=False)] = random.normal(size=5)
    return codes @ dictionary + 0.05 * random.normal(size=(count, 64)), dictionary


def times(runs: dict[str, Callable[[], Any]], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Best seconds and last result of each, alternating, after one run of each that is not counted."""
    results = {name: run() for name, run in runs.items()}
    best = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            began = time.perf_counter()
            results[name] = run()  # numpy arrays: the device has finished when they are there
            best[name] = min(best[name], time.perf_counter() - began)
    return best, results


def objectives(X: np.ndarray, dictionary: np.ndarray, codes: np.ndarray) -> np.ndarray:
    return 0.5 * ((X - codes @ dictionary) ** 2).sum(1) + ALPHA * np.abs(codes).sum(1)


def cross_validation(device: str, rounds: int, rows: int, columns: int) -> dict[str, Any]:
    X, y = regression(rows, columns)
    best, found = times(
        {
            "sureprox": lambda: LassoCV(cv=5, device=device).fit(X, y),
            "scikit-learn": lambda: SklearnLassoCV(cv=5, max_iter=100_000, n_jobs=-1).fit(X, y),
        },
        rounds,
    )
    ours, theirs = found["sureprox"], found["scikit-learn"]
    began = time.perf_counter()
    tight = SklearnLassoCV(cv=5, tol=1e-6, max_iter=1_000_000, n_jobs=-1).fit(X, y)
    took = time.perf_counter() - began
    return {
        "setting": {"rows": rows, "columns": columns, "alphas": len(ours.alphas_), "folds": 5},
        **speed(best),
        "seconds_of_scikit_learn_with_tol_1e-6": round(took, 4),
        "alpha": {"sureprox": ours.alpha_, "scikit-learn": float(theirs.alpha_), "tol 1e-6": float(tight.alpha_)},
        "same_alpha": bool(np.isclose(ours.alpha_, tight.alpha_, rtol=1e-9)),
        "largest_difference_of_mse": {
            name: float(np.abs(model.mse_path_ / tight.mse_path_ - 1).max())
            for name, model in (("sureprox", ours), ("scikit-learn", theirs))
        },
    }


def coding(device: str, rounds: int, count: int) -> dict[str, Any]:
    X, dictionary = patches(count)
    best, found = times(
        {
            "sureprox": lambda: sparse_encode(X, dictionary, alpha=ALPHA, device=device),
            "scikit-learn": lambda: sklearn_sparse_encode(
                X, dictionary, algorithm="lasso_cd", alpha=ALPHA, max_iter=10_000, n_jobs=-1
            ),
        },
        rounds,
    )
    ours, theirs = (objectives(X, dictionary, found[name]) for name in ("sureprox", "scikit-learn"))
    return {
        "setting": {"patches": count, "atoms": len(dictionary), "alpha": ALPHA},
        **speed(best),
        "largest_excess_of_objective": float((ours / theirs - 1).max()),
        "same_objective": bool((np.abs(ours / theirs - 1) <= AGREE).all()),
    }


def speed(best: dict[str, float]) -> dict[str, Any]:
    return {
        "seconds": {name: round(value, 4) for name, value in best.items()},
        "times_faster_than_scikit_learn": round(best["scikit-learn"] / best["sureprox"], 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)  # scikit-learn's; ours would show in the comparison
    rows, columns, count = (100, 200, 1000) if options.small else (500, 1000, 10_000)
    numbers = {
        "LassoCV": cross_validation(options.device, options.rounds, rows, columns),
        "sparse_encode": coding(options.device, options.rounds, count),
    }
    for name, found in numbers.items():
        print(name, found, flush=True)
    if not options.small:
        protocol = f"best of {options.rounds} rounds, alternating, after one that is not counted; float64"
        setting = {"device": options.device, "threads": torch.get_num_threads(), "scikit-learn": sklearn.__version__}
        command = f"python benchmarks/sklearn_speed.py --device {options.device} --rounds {options.rounds}"
        about = {"command": command, "setting": setting, "protocol": protocol}
        print(write_record(f"sklearn_speed_{options.device}", about | numbers))
    if not (numbers["LassoCV"]["same_alpha"] and numbers["sparse_encode"]["same_objective"]):
        raise SystemExit("the answers differ from scikit-learn's")


if __name__ == "__main__":
    main()
