"""Stability selection: which features does the lasso select on random halves of the data, whatever the half?

python benchmarks/stability_selection.py [--out docs/images]

The diabetes data of scikit-learn with all squares and products, 65 features, and 435 copies of them with their rows
shuffled, which have nothing to do with the response. 2 x 50 halves x 20 alphas: 2,000 reweighted lassos of 221 x 500.
Beside `StabilitySelection`: scikit-learn's lasso_path in a loop over the first halves, with its default tolerance and
with one so small that its answers are the same.
"""

import argparse
import time
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from sklearn.linear_model import lasso_path
from sklearn.preprocessing import PolynomialFeatures, StandardScaler
from torch import Tensor

import sureprox as sp
from sureprox.sklearn import StabilitySelection

from _judged import Answer, by_certificate, judged, show, times_faster
from _record import write_record

ROOT = Path(__file__).parents[1]
OURS, ALONE = "sureprox, all halves", "sureprox, before the proofs"
TOLERANCES = {"scikit-learn, default tol": 1e-4, "scikit-learn, tol 1e-10": 1e-10}
FIRST = 10  # halves of the loops
mpl.use("Agg")


def shuffled_copies(copies: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, int]:
    """X with unit columns, y, and how many of the first columns are not shuffled."""
    X, y = load_diabetes(return_X_y=True)
    true = StandardScaler().fit_transform(PolynomialFeatures(2, include_bias=False).fit_transform(X))
    rng = np.random.default_rng(seed)
    false = rng.permuted(true[:, rng.integers(0, true.shape[1], copies)], axis=0)
    return np.hstack([true, false]), y, true.shape[1]


class Kept(StabilitySelection):
    """What the estimator solves, and its points, for the comparison."""

    def _chained(self, lassos: sp.Problem, sizes: Tensor) -> list[tuple[Tensor, Tensor]] | None:
        began = time.process_time()
        found = super()._chained(lassos, sizes)
        self.lassos, self.sizes, self.points, self.seconds = lassos, sizes, found, time.process_time() - began
        return found


def by_loop(lassos: sp.Problem, sizes: Tensor, halves: int, tol: float) -> Tensor:
    """(halves K, n) by coordinate descent along the path of each half, from the largest size down."""
    X, y = lassos.f.A.numpy(), lassos.f.b.numpy()  # type: ignore[attr-defined]
    alphas = (sizes / X.shape[1]).numpy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what has not converged is seen in the gap
        paths = [lasso_path(X[i], y[i], alphas=alphas, tol=tol, max_iter=100_000)[1].T for i in range(halves)]
    return torch.from_numpy(np.concatenate(paths))


def compare(
    X: np.ndarray, y: np.ndarray, samples: int, alphas: int, halves: int
) -> tuple[Kept, dict[str, dict[str, float]], dict[str, float]]:
    """The fit, what its points and those of the loops are worth, and in how many lassos a loop has another support."""
    StabilitySelection(n_samples=2, alphas=2, random_state=0, engine="kernels").fit(X, y)
    began = time.process_time()
    fitted = Kept(n_samples=samples, alphas=alphas, random_state=0, engine="kernels").fit(X, y)
    seconds = time.process_time() - began
    assert fitted.points is not None
    x = torch.stack([x for x, _ in fitted.points], 1).flatten(0, 1)
    answers, others = [Answer(OURS, x, seconds), Answer(ALONE, x, fitted.seconds)], {}
    lassos, sizes = fitted.lassos, fitted.sizes
    for name, tol in TOLERANCES.items():
        began = time.process_time()
        found = by_loop(lassos, sizes, halves, tol)
        words = f"{name}, {halves} halves"
        answers.append(Answer(words, found, time.process_time() - began))
        others[words] = float(((found != 0) != (x[: len(found)] != 0)).any(1).double().mean())
    each = torch.arange(samples).repeat_interleave(len(sizes))
    whole = sp.Problem(lassos.f.select(each), sp.penalties.L1(sizes.repeat(samples)))
    return fitted, judged(by_certificate(whole), answers), others


def draw(fitted: StabilitySelection, true: int, target: Path) -> None:
    """The share of halves that select each feature, along the path."""
    figure, panel = plt.subplots(figsize=(7, 3.8), layout="constrained")
    path, chosen = fitted.stability_path_, fitted.get_support()
    for j in np.argsort(path.max(0)):
        colour, width = ("tab:red", 1.8) if chosen[j] else ("tab:blue", 0.8) if j < true else ("0.75", 0.6)
        panel.semilogx(fitted.alphas_, path[:, j], color=colour, lw=width)
    for colour, words in (("tab:red", "selected"), ("tab:blue", "other features"), ("0.75", "shuffled copies")):
        panel.plot([], [], color=colour, label=words)
    panel.axhline(fitted.threshold, color="k", lw=0.8, ls="--")
    panel.invert_xaxis()
    panel.xaxis.set_major_formatter("{x:g}")
    panel.xaxis.set_minor_formatter("{x:g}")
    panel.tick_params(axis="x", which="both", labelsize=8)
    panel.set(xlabel="alpha", ylabel="share of halves", title=f"{fitted.n_samples} halves, {path.shape[1]} features")
    panel.legend(fontsize=8, frameon=False)
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out: Path = parser.parse_args().out
    torch.set_num_threads(1)
    X, y, true = shuffled_copies(435)
    fitted, rows, others = compare(X, y, 100, 20, FIRST)
    show(rows)
    faster = times_faster(rows, OURS)
    print("times as fast:", ", ".join(f"{name} {ratio}" for name, ratio in faster.items()))
    out.mkdir(parents=True, exist_ok=True)
    draw(fitted, true, out / "stability_selection.png")
    chosen = np.flatnonzero(fitted.get_support())
    numbers = {
        "selected": chosen.tolist(),
        "shuffled_copies_selected": int((chosen >= true).sum()),
        "bound_on_false_selections": fitted.false_selections_,
        "supports_proved": fitted.proved_,
        "decisions_proved": float(fitted.certified_.mean()),
        "lassos_with_another_support": others,
    }
    print(numbers)
    setting = {"lassos": 100 * len(fitted.alphas_), "rows": len(y) // 2, "features": X.shape[1], "shuffled": 435}
    protocol = "processor seconds of one run in float64, set-up and proofs included"
    write_record(
        "stability_selection",
        {"protocol": protocol, "setting": setting, **numbers, "answers": rows, "times_faster": faster},
    )


if __name__ == "__main__":
    main()
