"""Figures of docs/gallery.md: a regularisation path, sparse codes of image patches, outliers, a training run.

python benchmarks/gallery_figures.py [--out docs/images]
"""

import argparse
import os
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

import sureprox as sp
from sureprox.report.style import BLUE, GREY, OTHERS, RED
from sureprox.sources import patches
from sureprox.training import curves

ROOT = Path(__file__).parents[1]
mpl.use("Agg")


class Huber(sp.Smooth):
    """f(x) = sum_i h(a_i'x - b_i), h(t) = t^2/2 within 1 and |t| - 1/2 beyond."""

    batched = ("b",)

    def __init__(self, A: torch.Tensor, b: torch.Tensor) -> None:
        self.A, self.b = A, b

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.b), self.A.shape[1]

    def value(self, x: torch.Tensor) -> torch.Tensor:
        size = (x @ self.A.T - self.b).abs()
        return torch.where(size <= 1, size**2 / 2, size - 0.5).sum(1)

    def grad(self, x: torch.Tensor) -> torch.Tensor:
        return (x @ self.A.T - self.b).clamp(-1, 1) @ self.A

    def lipschitz(self, exact: bool = False) -> torch.Tensor:
        return torch.linalg.matrix_norm(self.A, ord=2).square().expand(len(self.b))


def path(out: Path) -> None:
    """The LASSO path of the diabetes data, 200 values of lam solved as one batch."""
    data = load_diabetes(scaled=True)
    A, b = data.data, data.target - data.target.mean()
    lam = np.geomspace(1, 1e-3, 200) * np.abs(A.T @ b).max()
    solution = sp.solve(sp.lasso(A, b, lam), tol=1e-8, max_iter=20_000)
    assert solution.converged.all()
    figure, panel = plt.subplots(figsize=(7, 4), layout="constrained")
    for i, (name, values) in enumerate(zip(data.feature_names, solution.x.T.numpy(), strict=True)):
        style = OTHERS[i % len(OTHERS)]
        mark = {"marker": style.marker, "markevery": 20, "ms": 4} if i >= len(OTHERS) else {}  # the second of its style
        panel.semilogx(lam, values, color=style.colour, linestyle=style.dashes, label=name, **mark)
    panel.invert_xaxis()
    panel.set(xlabel="lam", ylabel="coefficient", title="LASSO path of the diabetes data: 200 problems, one batch")
    figure.legend(loc="outside right center", fontsize=9, frameon=False)
    panel.grid(color="0.9")
    save(figure, out / "path.png")


def codes(out: Path) -> None:
    """Patches of two photographs, their sparse reconstructions, and the atoms of the dictionary."""
    os.environ.pop("SUREPROX_DATA", None)  # patches of BSDS500 may not be redistributed, not even as pictures
    data = patches()
    solution = sp.solve(data.problem, tol=1e-6)
    assert solution.converged.all()
    f = data.problem.f
    rebuilt = (solution.x @ f.A.T).numpy()
    shown = np.arange(0, 1000, 42)[:24]
    figure, panels = plt.subplots(1, 3, figsize=(11, 2.6), width_ratios=(1.5, 1.5, 2), layout="constrained")
    nonzeros = (solution.x != 0).sum(1).double().mean()
    titles = ("24 of 1,000 patches", f"from {nonzeros:.1f} atoms each, on average", "the 128 atoms")
    for panel, title, tiles, columns in zip(
        panels, titles, (f.b.numpy()[shown], rebuilt[shown], f.A.T.numpy()), (6, 6, 16), strict=True
    ):
        panel.imshow(mosaic(tiles, columns), cmap="gray")
        panel.set_title(title, fontsize=10)
        panel.axis("off")
    save(figure, out / "codes.png")


def mosaic(tiles: np.ndarray, columns: int) -> np.ndarray:
    """8 x 8 tiles side by side, each stretched to its own range, white lines between them."""
    low, high = tiles.min(1, keepdims=True), tiles.max(1, keepdims=True)
    squares = ((tiles - low) / np.maximum(high - low, 1e-9)).reshape(-1, 8, 8)
    framed = np.pad(squares, ((0, 0), (0, 1), (0, 1)), constant_values=1.0)
    return framed.reshape(-1, columns, 9, 9).transpose(0, 2, 1, 3).reshape(-1, columns * 9)


def outliers(out: Path) -> None:
    """Coefficients found by least squares and by Huber's loss when a tenth of the measurements is wrong."""
    generator = torch.Generator().manual_seed(1)
    A = torch.randn(80, 40, generator=generator, dtype=torch.float64)
    truth = torch.zeros(40, dtype=torch.float64)
    truth[::8] = torch.tensor([3.0, -2.0, 2.5, -3.0, 1.5], dtype=torch.float64)
    b = A @ truth + 0.1 * torch.randn(80, generator=generator, dtype=torch.float64)
    b[:8] += 15
    squares = sp.solve(sp.lasso(A, b, lam=15.0))
    robust = sp.solve(sp.Problem(Huber(A, b.unsqueeze(0)), sp.problems.L1(5.0)), max_iter=20_000)
    assert squares.converged.all()
    assert robust.converged.all()
    figure, panel = plt.subplots(figsize=(7, 3.4), layout="constrained")
    panel.bar(range(40), truth.numpy(), color="0.85", label="truth")
    panel.plot(squares.x[0].numpy(), "s", color=BLUE, ms=4, label="least squares + L1")
    panel.plot(robust.x[0].numpy(), "o", color=RED, ms=4, label="Huber + L1: an f of one's own")
    panel.axhline(0, color=GREY, lw=0.6)
    panel.set(xlabel="coordinate", title="A tenth of the measurements is wrong by 15")
    panel.legend(fontsize=8)
    save(figure, out / "outliers.png")


def training(out: Path) -> None:
    """Loss and validation of the shipped go-math-l2o/lasso, from its log."""
    curves.draw(ROOT / "records" / "training" / "go-math-l2o" / "lasso.jsonl", out / "training.png")


def save(figure: plt.Figure, target: Path) -> None:
    figure.savefig(target, dpi=110, metadata={"Software": None})
    plt.close(figure)


FIGURES = (path, codes, outliers, training)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "images")
    out: Path = parser.parse_args(arguments).out
    out.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    for draw in FIGURES:
        draw(out)
        print(out / f"{draw.__name__}.png")


if __name__ == "__main__":
    main()
