"""Every loss with a small L1 penalty on wide data by `sp.solve(problem)`, beside the library that solves the same.

python benchmarks/small_penalties.py

Columns of A are correlated (0.9 between neighbours), lam is a part of the smallest one for which zero solves. The gap
is asked to be 1e-6 F, 1,000 iterations are allowed. celer solves squares, scikit-learn's liblinear the logistic and the
squared hinge loss, saga softmax; for the others nothing that is installed by the extras solves the same problem. Each
peer is given the loosest of its tolerances 1e-2, 1e-3, ..., with which F is within 1e-6 of ours, and the best of two
runs counts, as for sureprox; a peer that takes 3 s is not asked for more digits. Seconds of one core.
"""

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from celer import Lasso
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC
from torch import Tensor

import sureprox as sp

from _record import write_record

SIZES = ((100, 300), (250, 500))
RATIOS = (1e-2, 1e-4)
CORRELATION, SAME, MOST = 0.9, 1e-6, 3.0  # seconds: a run of a peer that takes longer is the last one
Peer = Callable[[np.ndarray, np.ndarray, float, float], np.ndarray]  # A, y, lam, tol -> x


def data(m: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """A, A x + noise with outliers, and A x alone."""
    generator = torch.Generator().manual_seed(0)
    A = torch.randn(m, n, generator=generator, dtype=torch.float64)
    for j in range(1, n):
        A[:, j] = CORRELATION * A[:, j - 1] + (1 - CORRELATION**2) ** 0.5 * A[:, j]
    z = A[:, torch.randperm(n, generator=generator)[: n // 20]].sum(1)
    noise = torch.randn(m, generator=generator, dtype=torch.float64)
    noise[::10] *= 10
    return A, z + 0.5 * noise, z


def losses(m: int, n: int) -> dict[str, tuple[Any, Tensor]]:
    A, y, z = data(m, n)
    labels, classes = (y > 0).double(), (y > -1).double() + (y > 1).double()
    counts = torch.poisson((z / z.std()).exp().clamp(max=20), generator=torch.Generator().manual_seed(1))
    made = {
        "least squares": (sp.losses.LeastSquares, y),
        "huber": (sp.losses.Huber, y),
        "quantile": (sp.losses.Quantile, y),
        "squared hinge": (sp.losses.SquaredHinge, labels),
        "logistic": (sp.losses.Logistic, labels),
        "poisson": (sp.losses.Poisson, counts),
        "softmax": (sp.losses.Softmax, classes),
    }
    return {name: (kind(A, target), target) for name, (kind, target) in made.items()}


def by_celer(A: np.ndarray, y: np.ndarray, lam: float, tol: float) -> np.ndarray:
    return Lasso(alpha=lam / len(y), fit_intercept=False, tol=tol * 1e-4, max_iter=500).fit(A, y).coef_


def by_liblinear(A: np.ndarray, y: np.ndarray, lam: float, tol: float) -> np.ndarray:
    C = 1 / (lam * len(y))
    options = {"penalty": "l1", "solver": "liblinear", "C": C, "fit_intercept": False, "tol": tol, "max_iter": 100_000}
    return LogisticRegression(**options, random_state=0).fit(A, y).coef_[0]


def by_svc(A: np.ndarray, y: np.ndarray, lam: float, tol: float) -> np.ndarray:
    options = {"penalty": "l1", "dual": False, "C": 1 / lam, "fit_intercept": False, "tol": tol, "max_iter": 100_000}
    return LinearSVC(**options, random_state=0).fit(A, y).coef_[0]


def by_saga(A: np.ndarray, y: np.ndarray, lam: float, tol: float) -> np.ndarray:
    options = {"solver": "saga", "C": 1 / lam, "fit_intercept": False, "tol": tol, "max_iter": 20_000}
    return LogisticRegression(penalty="l1", **options, random_state=0).fit(A, y).coef_.ravel()


PEERS: dict[str, tuple[str, Peer]] = {
    "least squares": ("celer", by_celer),
    "logistic": ("liblinear", by_liblinear),
    "squared hinge": ("liblinear", by_svc),
    "softmax": ("saga", by_saga),
}


def quickest(work: Callable[[], Any]) -> tuple[Any, float]:
    """What it returns, and the seconds of the quicker of two runs; of one, if that is long."""
    seconds = []
    while len(seconds) < 2 and sum(seconds) < MOST / 2:
        began = time.perf_counter()
        found = work()
        seconds.append(time.perf_counter() - began)
    return found, min(seconds)


def raced(name: str, problem: sp.Problem, y: Tensor, lam: float) -> dict[str, Any]:
    found, seconds = quickest(lambda: sp.solve(problem, max_iter=1000))
    row = {
        "converged": bool(found.converged.all()),
        "iterations": int(found.iterations),
        "gap / F": float(found.gap / found.objective),
        "seconds": round(seconds, 3),
    }
    if name not in PEERS:
        return row | dict.fromkeys(("peer", "peer's seconds", "peer's F above ours"), "-")
    peer, solve = PEERS[name]
    A, objective = problem.f.A.numpy(), float(found.objective)
    for k in range(2, 13):
        x, seconds = quickest(lambda: solve(A, y.numpy(), lam, 10.0**-k))  # noqa: B023
        excess = float(problem.objective(torch.from_numpy(x).unsqueeze(0))) / objective - 1
        if excess <= SAME or seconds > MOST:
            break
    return row | {"peer": peer, "peer's seconds": round(seconds, 3), "peer's F above ours": excess}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    rows = {}
    for m, n in SIZES:
        for name, (f, y) in losses(m, n).items():
            largest = float(f.grad(torch.zeros(1, f.shape[1], dtype=torch.float64)).abs().max())
            for ratio in RATIOS:
                lam = ratio * largest
                key = f"{name}, {m} x {n}, {ratio:g} lam_max"
                rows[key] = raced(name, sp.Problem(f, sp.penalties.L1(lam)), y, lam)
                print(key, rows[key], flush=True)
    write_record("small_penalties", {"protocol": "one process, one core, float64, each problem alone", "rows": rows})


if __name__ == "__main__":
    main()
