"""L2O-PA alone and certified, on LASSO problems whose start is moved: the figure of docs/certified.md.

python benchmarks/certified_figure.py [--out docs/images/certified.png] [--batch 8] [--iterations 400]
"""

import argparse
from pathlib import Path

import torch

import sureprox as sp
from sureprox.demo import figure, race, row
from sureprox.guarantee import Certified
from sureprox.optimizers import FISTA
from sureprox.sources import LassoFamily

SCENARIOS = {"in distribution": 0.0, "start moved by +10": 10.0, "start moved by -100": -100.0}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "certified.png")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=400)
    options = parser.parse_args()
    torch.set_num_threads(1)
    learned = sp.load("l2o-pa/lasso")
    optimizers = {"FISTA with restart": FISTA(restart=True), "L2O-PA": learned, "L2O-PA, certified": Certified(learned)}
    family = LassoFamily()
    curves = race(optimizers, family, SCENARIOS, batch=options.batch, max_iter=options.iterations)
    for curve in curves:
        print(f"{curve.scenario}: {', '.join(row(curve))}")
    figure(curves, options.out, f"{options.batch} random LASSO problems, {family.m} x {family.n}")
    print(options.out)


if __name__ == "__main__":
    main()
