"""Bilevel: an L1 weight for each coordinate, chosen by the loss on validation rows, for 20 splits at once.

min_w |A_v x(w) - b_v|^2, x(w) = argmin_x 1/2 |A x - b|^2 + sum_j w_j |x_j|, by Adam on log w with the derivatives of
`solve(differentiable="implicit")`. Diabetes data (442 patients, 10 features) with 40 columns of noise. Beside it the
best single weight on a grid, by the same validation rows; both are judged on rows that neither has seen.

    python benchmarks/bilevel.py [--steps 80] [--out docs/images]
"""

import argparse
from pathlib import Path

import matplotlib as mpl
import numpy as np
import torch
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes
from torch import Tensor

import sureprox as sp
from sureprox.problems import LeastSquares
from sureprox.report.style import BLUE, GREY, RED

from _record import write_record

SPLITS, NOISE = 20, 40
TRAIN, VALIDATE = 150, 150  # rows; the rest is for the test
mpl.use("Agg")


def splits() -> tuple[list[Tensor], list[Tensor]]:
    """A (B, m, n) and b (B, m) of the three parts."""
    generator = torch.Generator().manual_seed(20287)
    raw, target = (torch.from_numpy(of) for of in load_diabetes(return_X_y=True))
    A = torch.cat([raw, torch.randn(len(raw), NOISE, generator=generator, dtype=torch.float64)], 1)
    A, b = (A - A.mean(0)) / A.std(0), (target - target.mean()) / target.std()
    order = [torch.randperm(len(A), generator=generator) for _ in range(SPLITS)]
    ends = ((0, TRAIN), (TRAIN, TRAIN + VALIDATE), (TRAIN + VALIDATE, len(A)))
    return tuple([torch.stack([of[rows[i:j]] for rows in order]) for i, j in ends] for of in (A, b))  # type: ignore[return-value]


def error(A: Tensor, b: Tensor, x: Tensor) -> Tensor:
    """(B,) the mean square of the residuals."""
    return ((A @ x.unsqueeze(2)).squeeze(2) - b).square().mean(1)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    options = parser.parse_args()
    torch.set_num_threads(1)
    A, b = splits()
    f = LeastSquares(A[0], b[0])
    largest = f.grad(torch.zeros(SPLITS, A[0].shape[2], dtype=torch.float64)).abs().amax(1)
    single, best = [], torch.full((SPLITS,), torch.inf, dtype=torch.float64)
    for ratio in np.geomspace(0.9, 0.005, 60):
        x = sp.solve(sp.lasso(A[0], b[0], ratio * largest), tol=1e-8).x
        loss = error(A[1], b[1], x)
        single.append(torch.where(loss < best, ratio * largest, torch.nan))
        best = torch.minimum(best, loss)
    lam = torch.stack(single).nan_to_num().flip(0)
    lam = lam.gather(0, (lam > 0).to(torch.int64).argmax(0, keepdim=True))[0]
    grid = sp.solve(sp.lasso(A[0], b[0], lam), tol=1e-8).x
    logs = lam.log().unsqueeze(1).expand(-1, A[0].shape[2]).clone().requires_grad_()
    adam, curves, uncertified = torch.optim.Adam([logs], lr=0.1), [], 0
    for _ in range(options.steps):
        problem = sp.Problem(f, sp.penalties.WeightedL1(logs.exp()))
        solution = sp.solve(problem, tol=1e-10, differentiable="implicit")
        uncertified += int(torch.isinf(solution.derivative_error).sum())
        loss = error(A[1], b[1], solution.x)
        adam.zero_grad()
        loss.sum().backward()
        curves.append([loss.detach(), error(A[2], b[2], solution.x.detach())])
        adam.step()
    x = solution.x.detach()
    numbers = {
        "splits": SPLITS,
        "steps": options.steps,
        "derivatives not certified": uncertified,
        "of": SPLITS * options.steps,
        "validation": {"single weight": float(best.mean()), "a weight each": float(curves[-1][0].mean())},
        "test": {"single weight": float(error(A[2], b[2], grid).mean()), "a weight each": float(curves[-1][1].mean())},
        "noise columns kept": {
            "single weight": float((grid[:, -NOISE:] != 0).double().sum(1).mean()),
            "a weight each": float((x[:, -NOISE:] != 0).double().sum(1).mean()),
        },
        "splits in which the test error is smaller": int((curves[-1][1] < error(A[2], b[2], grid)).sum()),
    }
    print(numbers)
    print(write_record("bilevel", numbers))
    drawn(curves, numbers, logs.detach().exp() / lam.unsqueeze(1), options.out / "bilevel.png")


def drawn(curves: list[list[Tensor]], numbers: dict, weights: Tensor, path: Path) -> None:
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    for k, (name, colour) in enumerate((("validation", BLUE), ("test", RED))):
        left.plot([float(row[k].mean()) for row in curves], color=colour, label=f"{name}, a weight each")
        left.axhline(numbers[name]["single weight"], color=colour, ls=":", label=f"{name}, single weight")
    left.set(xlabel="steps of Adam", ylabel="mean square", title=f"mean of {SPLITS} splits")
    left.legend(fontsize=8, frameon=False)
    mean = weights.log().mean(0).exp().numpy()
    colours = [BLUE] * (len(mean) - NOISE) + [GREY] * NOISE
    right.bar(range(len(mean)), mean, color=colours)
    right.axhline(1, color="0.3", lw=0.8)
    right.set(xlabel="coordinate: ten features, then noise", ylabel="weight / single weight", title="weights found")
    for panel in (left, right):
        panel.grid(color="0.9")
        panel.set_axisbelow(True)
    figure.savefig(path, dpi=110)
    print(path)


if __name__ == "__main__":
    main()
