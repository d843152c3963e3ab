"""One design, many responses, cross-validated: `LassoCV` of sureprox in one call beside loops over the responses.

2,000 responses x 50 alphas x 5 folds on 300 x 1000: every response gets a path and an alpha of its own. Neighbouring
columns of X have correlation 0.8; a response is a sum of ten columns with noise of the same variance.

The peers are `LassoCV` of scikit-learn and `celer_path` on every fold (celer's own `LassoCV` does not run with
scikit-learn 1.9), one response at a time, in joblib with a process for each core and one BLAS thread a process. They
solve the first `--peer-responses` only, and their time for all is in proportion. Their tolerance is scikit-learn's
default, a gap of 1e-4 |y|^2, or what means the same in celer; sureprox runs with its own default, which is 200 times
tighter. How far the errors of cross-validation are from those of tight solves (scikit-learn
with tol 1e-6) is measured on the first `CHECKED` responses, and so is how often the same alpha is chosen.

    python benchmarks/many_responses.py [--responses 2000] [--peer-responses 200] [--small]

`--small` tries the script and writes no record.
"""

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from joblib import Parallel, delayed
from sklearn.linear_model import LassoCV as SklearnLassoCV
from sklearn.model_selection import KFold
from threadpoolctl import threadpool_limits

import sureprox as sp
from sureprox.sklearn import LassoCV

from _record import write_record

ALPHAS, FOLDS, CHECKED, SEED = 50, 5, 4, 20261119
Found = tuple[np.ndarray, np.ndarray]  # alpha_ (R,), mse_path_ (R, alphas, folds)


def data(rows: int, columns: int, responses: int) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(SEED)
    X = random.standard_normal((rows, columns))
    for j in range(1, columns):
        X[:, j] = 0.8 * X[:, j - 1] + 0.6 * X[:, j]
    coefficients = np.zeros((columns, responses))
    for k in range(responses):
        coefficients[random.choice(columns, 10, replace=False), k] = random.standard_normal(10)
    signal = X @ coefficients
    return X, signal + signal.std(0) * random.standard_normal(signal.shape)


def ours(X: np.ndarray, Y: np.ndarray) -> Found:
    made = LassoCV(alphas=ALPHAS, cv=FOLDS).fit(X, Y)
    return made.alpha_, made.mse_path_


def split(X: np.ndarray) -> list[Any]:
    """For each fold its rows, and the training part of X, centred, column by column."""
    folds = []
    for train, test in KFold(FOLDS).split(X):
        mean = X[train].mean(0)
        folds.append((train, test, mean, np.asfortranarray(X[train] - mean)))
    return folds


def by_celer(X: np.ndarray, y: np.ndarray, folds: list[Any], tol: float) -> tuple[float, np.ndarray]:
    from celer import celer_path

    centred = X - X.mean(0)
    alphas = np.geomspace(1, 1e-3, ALPHAS) * np.abs(centred.T @ (y - y.mean())).max() / len(y)
    errors = np.empty((ALPHAS, FOLDS))
    for k, (train, test, mean, A) in enumerate(folds):
        middle = y[train].mean()
        coefs = celer_path(A, y[train] - middle, "lasso", alphas=alphas, tol=2 * tol)[1]
        errors[:, k] = np.square((y[test] - middle)[:, None] - (X[test] - mean) @ coefs).mean(0)
    alpha = float(alphas[errors.mean(1).argmin()])
    celer_path(np.asfortranarray(centred), y - y.mean(), "lasso", alphas=[alpha], tol=2 * tol)
    return alpha, errors


def one(kind: str, X: np.ndarray, y: np.ndarray, folds: list[Any], tol: float) -> tuple[float, np.ndarray]:
    """A response by a peer."""
    with threadpool_limits(1, user_api="blas"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if kind == "celer":
            return by_celer(X, y, folds, tol)
        made = SklearnLassoCV(alphas=ALPHAS, cv=FOLDS, tol=tol, max_iter=100_000).fit(X, y)
    return float(made.alpha_), made.mse_path_


def loop(pool: Parallel, kind: str, X: np.ndarray, Y: np.ndarray, tol: float = 1e-4) -> Found:
    folds = split(X)
    found = pool(delayed(one)(kind, X, y, folds, tol) for y in Y.T)
    return np.array([alpha for alpha, _ in found]), np.stack([mse for _, mse in found])


def timed(work: Callable[[], Found]) -> tuple[float, Found]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def compared(found: Found, tight: Found) -> dict[str, float]:
    count = len(tight[0])
    return {
        "largest_relative_error_of_mse": float(np.abs(found[1][:count] / tight[1] - 1).max()),
        "same_alpha": float(np.isclose(found[0][:count], tight[0], rtol=1e-6).mean()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--responses", type=int, default=2000)
    parser.add_argument("--peer-responses", type=int, default=200)
    parser.add_argument("--small", action="store_true", help="small data, no record")
    asked = parser.parse_args()
    sizes = (60, 80) if asked.small else (300, 1000)
    responses, some = (20, 10) if asked.small else (asked.responses, asked.peer_responses)
    X, Y = data(*sizes, responses)
    cores = os.cpu_count() or 1
    torch.set_num_threads(cores)
    sp.prepare(sp.lasso(X, Y[:, 0], 1.0))

    seconds, agreement = {}, {}
    with Parallel(n_jobs=cores, mmap_mode="c") as pool:
        loop(pool, "celer", X, Y[:, :cores])  # starts the workers, compiles celer
        tight = loop(pool, "scikit-learn", X, Y[:, :CHECKED], tol=1e-6)
        for kind in ("scikit-learn", "celer"):
            took, found = timed(lambda kind=kind: loop(pool, kind, X, Y[:, :some]))
            seconds[kind], agreement[kind] = took * responses / some, compared(found, tight)
            print(kind, f"{seconds[kind]:.1f} s", agreement[kind], flush=True)
    seconds["sureprox"], found = timed(lambda: ours(X, Y))
    agreement["sureprox"] = compared(found, tight)
    print("sureprox", f"{seconds['sureprox']:.1f} s", agreement["sureprox"], flush=True)
    numbers: dict[str, Any] = {"rows": sizes[0], "columns": sizes[1], "responses": responses, "alphas": ALPHAS}
    numbers |= {"folds": FOLDS, "peer_responses": some, "seconds": seconds, "agreement": agreement}
    numbers["times_faster_than_scikit_learn"] = seconds["scikit-learn"] / seconds["sureprox"]
    numbers["times_faster_than_celer"] = seconds["celer"] / seconds["sureprox"]
    if not asked.small:
        print(write_record("many_responses", numbers))


if __name__ == "__main__":
    main()
