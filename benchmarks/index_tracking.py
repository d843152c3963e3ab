"""Rolling index tracking: every day, the portfolio of 20 shares that followed the S&P 500 best in the last 250 days.

    min_w 1/2 |R w - y|^2   with  w >= 0 and 1'w = 1,   R (250, 20) and y (250) the daily returns of shares and index

python benchmarks/index_tracking.py [--out docs/images]       (pip install '.[gallery]': prices of skfolio, cvxpy)

The budget is not separable, and need not be. As y = y 1'w, the residual is C w with C = R - y 1'. With v = s w and
a = |C w|^2,

    min_{v >= 0} 1/2 |C v|^2 + t^2/2 (1'v - 1)^2 + l 1'v   =   min_s min_w s^2 a / 2 + t^2/2 (s - 1)^2 + l s.

The minimum over s grows with a, and is at s > 0 where l < t^2. So w = v / 1'v is exact, whatever t > 0 and l < t^2 are:
one row more, and no weight that has to be large. With l > 0 the duality gap is a formula; t = |y| and l = t^2/100 here.
The windows are batches of nonnegative least squares.

The gap of a point is that of Frank and Wolfe, max_j g'(w - e_j) >= F(w) - F*, for everybody. Peers, in a loop: cvxpy as
one would write it, and with one compiled problem whose parameter is the triangular factor of each window; SciPy's nnls
on C with the same row, and on R with the budget as a row of weight 1000 |y|, as it is often done.
"""

import argparse
import csv
import gzip
import io
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from scipy.optimize import nnls
from torch import Tensor

import sureprox as sp

from _judged import Answer, Measure, judged, show, times_faster
from _record import write_record

ROOT = Path(__file__).parents[1]
WINDOW, TOL, HEAVY = 250, 1e-6, 1000
BLOCK = 64  # windows of a batch: their data fit in a cache
OURS = "sureprox, batches of 64"
FIRST = {"cvxpy": 200, "cvxpy, compiled once": 1000, "nnls": 10_000, "nnls, heavy row": 10_000}  # windows of the peers
mpl.use("Agg")

Peer = Callable[[np.ndarray, np.ndarray], np.ndarray]


def returns() -> tuple[np.ndarray, np.ndarray, list[str], list[str]] | None:
    """Daily returns of 20 shares (days, 20) and of the index (days,), names and days; None without skfolio."""
    spec = find_spec("skfolio")
    if spec is None or not spec.submodule_search_locations:
        return None
    folder = Path(next(iter(spec.submodule_search_locations))) / "datasets" / "data"
    days, names, shares = prices(folder / "sp500_dataset.csv.gz")
    again, _, index = prices(folder / "sp500_index.csv.gz")
    if days != again:
        sys.exit("the prices of the shares and of the index in skfolio are not of the same days")
    growth = [values[1:] / values[:-1] - 1 for values in (shares, index[:, 0])]
    return growth[0], growth[1], names, days[1:]


def prices(path: Path) -> tuple[list[str], list[str], np.ndarray]:
    head, *rows = csv.reader(io.StringIO(gzip.decompress(path.read_bytes()).decode()))
    return [row[0] for row in rows], head[1:], np.array([[float(value) for value in row[1:]] for row in rows])


def windows(values: np.ndarray, length: int) -> np.ndarray:
    """(days, ...) as (windows, length, ...), without a copy."""
    return np.moveaxis(np.lib.stride_tricks.sliding_window_view(values, length, axis=0), -1, 1)


def tracked(R: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
    """The weights (B, n) of all windows R (B, m, n), y (B, m), and whether each is certified, (B,)."""
    weights, certified = [], []
    for start in range(0, len(R), BLOCK):
        some, target = R[start : start + BLOCK], y[start : start + BLOCK]
        t = np.linalg.norm(target, axis=1)
        row = np.broadcast_to(t[:, None, None], (len(some), 1, R.shape[2]))
        C = np.concatenate([some - target[:, :, None], row], axis=1)
        b = np.concatenate([np.zeros_like(target), t[:, None]], axis=1)
        solution = sp.solve(sp.nonnegative(C, b, l1=t**2 / 100), tol=TOL)
        weights.append(budgeted(solution.x))
        certified.append(solution.converged)
    return torch.cat(weights), torch.cat(certified)


def budgeted(v: Tensor) -> Tensor:
    """v >= 0 with sums of one."""
    v = v.clamp(min=0)
    return v / v.sum(1, keepdim=True)


def by_frank_wolfe(R: np.ndarray, y: np.ndarray) -> Measure:
    """F and max_j g'(w - e_j), an upper bound on F - F* for every w of the simplex."""

    def measure(w: Tensor) -> tuple[Tensor, Tensor]:
        A, b = (torch.from_numpy(np.ascontiguousarray(part[: len(w)])) for part in (R, y))
        residual = torch.einsum("bmn,bn->bm", A, w) - b
        g = torch.einsum("bmn,bm->bn", A, residual)
        return residual.square().sum(1) / 2, (g * w).sum(1) - g.amin(1)

    return measure


def by_nnls(R: np.ndarray, y: np.ndarray) -> np.ndarray:
    answers = []
    for A, b in zip(R, y, strict=True):
        t = np.linalg.norm(b)
        answers.append(nnls(np.vstack([A - b[:, None], np.full((1, A.shape[1]), t)]), np.append(0 * b, t))[0])
    return np.stack(answers)


def by_heavy_row(R: np.ndarray, y: np.ndarray) -> np.ndarray:
    answers = []
    for A, b in zip(R, y, strict=True):
        t = HEAVY * np.linalg.norm(b)
        answers.append(nnls(np.vstack([A, np.full((1, A.shape[1]), t)]), np.append(b, t))[0])
    return np.stack(answers)


def by_cvxpy(R: np.ndarray, y: np.ndarray) -> np.ndarray:
    import cvxpy as cp

    answers = []
    for A, b in zip(R, y, strict=True):
        w = cp.Variable(A.shape[1], nonneg=True)
        cp.Problem(cp.Minimize(cp.sum_squares(A @ w - b)), [cp.sum(w) == 1]).solve(solver=cp.CLARABEL)
        answers.append(w.value)
    return np.stack(answers)


def by_compiled_cvxpy(R: np.ndarray, y: np.ndarray) -> np.ndarray:
    """|C w|^2 = |U w|^2 with the triangular factor of C, scaled to 1, as the parameter of one problem."""
    import cvxpy as cp

    n = R.shape[2]
    U, w = cp.Parameter((n, n)), cp.Variable(n, nonneg=True)
    problem = cp.Problem(cp.Minimize(cp.sum_squares(U @ w)), [cp.sum(w) == 1])
    answers = []
    for A, b in zip(R, y, strict=True):
        factor = np.linalg.qr(A - b[:, None], mode="r")
        U.value = factor / np.abs(factor).max()
        problem.solve(solver=cp.CLARABEL)
        answers.append(w.value)
    return np.stack(answers)


def peers() -> dict[str, Peer]:
    found: dict[str, Peer] = {"nnls": by_nnls, "nnls, heavy row": by_heavy_row}
    if find_spec("cvxpy") is None:
        print("cvxpy is not installed: it is left out (pip install cvxpy)")
        return found
    return {"cvxpy": by_cvxpy, "cvxpy, compiled once": by_compiled_cvxpy} | found


def track(R: np.ndarray, y: np.ndarray, first: dict[str, int]) -> tuple[Tensor, Tensor, dict[str, dict[str, float]]]:
    """The weights of all windows, whether each is certified, and what they and those of the peers are worth."""
    sp.prepare(sp.nonnegative(R[:1], y[:1], l1=1.0))
    began = time.process_time()
    w, certified = tracked(R, y)
    answers = [Answer(OURS, w, time.process_time() - began)]
    for name, peer in peers().items():
        began = time.process_time()
        found = peer(R[: first[name]], y[: first[name]])
        seconds = time.process_time() - began
        answers.append(Answer(f"{name}, {len(found):,} windows", budgeted(torch.from_numpy(found)), seconds))
    return w, certified, judged(by_frank_wolfe(R, y), answers)


def draw(w: Tensor, shares: np.ndarray, index: np.ndarray, names: list[str], days: list[str], target: Path) -> None:
    """The weights over the years, and the index beside the portfolio that holds those of the day before."""
    length = len(shares) - len(w) + 1
    years = np.array([int(day[:4]) + (int(day[5:7]) - 1 + int(day[8:10]) / 31) / 12 for day in days[length:]])
    held = (w[:-1].numpy() * shares[length:]).sum(1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.6), width_ratios=(1.4, 1), layout="constrained")
    order = np.argsort(w.mean(0).numpy())[::-1]
    colours = plt.get_cmap("tab20")(np.arange(len(names)))
    left.stackplot(years, w[:-1].numpy()[:, order].T, labels=[names[i] for i in order], colors=colours)
    left.set(title="weights", ylim=(0, 1), xlim=(years[0], years[-1]))
    left.legend(fontsize=6, ncols=1, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    for growth, words, style in ((index[length:], "S&P 500", "k-"), (held, "portfolio of the days before", "r-")):
        right.semilogy(years, np.cumprod(1 + growth), style, lw=0.9, label=words)
    error = 100 * float(np.std(held - index[length:])) * 252**0.5
    right.set(title=f"out of sample: {error:.1f} % tracking error a year")
    right.legend(fontsize=8, frameon=False)
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out: Path = parser.parse_args().out
    found = returns()
    if found is None:
        sys.exit("skfolio is not installed, whose prices this reads: pip install skfolio")
    torch.set_num_threads(1)
    shares, index, names, days = found
    R, y = windows(shares, WINDOW), windows(index, WINDOW)
    w, certified, rows = track(R, y, FIRST)
    show(rows)
    faster = times_faster(rows, OURS)
    print("times as fast, by the window:", ", ".join(f"{name} {ratio}" for name, ratio in faster.items()))
    out.mkdir(parents=True, exist_ok=True)
    draw(w, shares, index, names, days, out / "index_tracking.png")
    write_record(
        "index_tracking",
        {
            "protocol": "processor seconds of one run in float64, set-up included",
            "setting": {"windows": len(R), "days": WINDOW, "shares": len(names), "from": days[0], "to": days[-1]},
            "certified": int(certified.sum()),
            "shares_held": float((w > 0).sum(1).double().mean()),
            "answers": rows,
            "times_faster": faster,
        },
    )


if __name__ == "__main__":
    main()
