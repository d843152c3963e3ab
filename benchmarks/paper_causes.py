"""What lies behind two numbers of the reproduction: which dictionary the patches have, and where GO-Math-L2O starts.

Iterations to a mean and to a median relative gap of 1e-4, 1e-6 and 1e-7, and the gaps at the end, of shipped models
and of FISTA:

- image patches in our dictionary and in that of the released recipe;
- LASSO problems of the training distribution, from standard normal starts (as in training) and from zero.

Steps in float32, F in float64.

    python benchmarks/paper_causes.py [--patches 1000] [--instances 32] [--iterations 600]
"""

import argparse
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from sureprox.evaluation.contestants import Contestant, classical, learned
from sureprox.evaluation.datasets import Dataset, draw, solved
from sureprox.evaluation.experiment import Trace, trace
from sureprox.evaluation.scenarios import Scenario
from sureprox.report.compare import LEVELS, level_text
from sureprox.sources.real import RECIPES

from _record import write_record

GO = ("go-math-l2o/lasso", "go-math-l2o/lasso-setting-1", "go-math-l2o/lasso-setting-20")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def contestants(names: tuple[str, ...]) -> list[Contestant]:
    classics = [classical("fista", {"restart": False}), classical("fista-restart", {"restart": True})]
    return [*(learned(name, DEVICE) for name in names), *classics]


def measured(found: Trace) -> dict[str, Any]:
    """For the mean of the gaps, as the paper does, and for their median, which single instances do not decide."""
    rows = {"mean": found.gaps.mean(1), "median": found.gaps.median(1).values}
    table: dict[str, Any] = {}
    for name, row in rows.items():
        hits = {
            level: next((k for k, gap in zip(found.grid, row, strict=True) if gap <= level), None) for level in LEVELS
        }
        table |= {f"{name} to {level_text(level)}": k for level, k in hits.items()}
        table[f"{name} at the end"] = float(f"{row[-1]:.3g}")
    return table


def run(data: Dataset, names: tuple[str, ...], iterations: int) -> dict[str, Any]:
    scenario = Scenario(data.instances.source)
    table = {}
    for one in contestants(names):
        table[one.name] = measured(trace(one.optimizer, data, scenario, iterations))
        print(data.instances.origin[-60:], one.name, table[one.name], flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--patches", type=int, default=1000, help="evenly spaced among the 1,000")
    parser.add_argument("--instances", type=int, default=32)
    parser.add_argument("--iterations", type=int, default=600)
    options = parser.parse_args()
    torch.set_num_threads(1)
    patches, sizes, starts = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        for dictionary in RECIPES:
            data = solved(draw("patches", options.patches, 0, dictionary), cache, DEVICE)
            sizes[dictionary] = float(f"{float(data.problem.lipschitz()[0]):.4g}")
            patches[dictionary] = run(data, (*GO, "l2o-pa/lasso"), options.iterations)
        data = solved(draw("lasso", options.instances, 0), cache, DEVICE)
        zero = replace(data.instances, start=torch.zeros_like(data.start), origin=f"{data.instances.origin}, from zero")
        for name, instances in (("normal", data.instances), ("zero", zero)):
            starts[name] = run(replace(data, instances=instances), GO, options.iterations)
    about = {
        "iterations": options.iterations,
        "image_patches": options.patches,
        "instances": options.instances,
        "seed": 0,
    }
    print(write_record("paper_causes", {**about, "dictionary_L": sizes, "patches": patches, "start": starts}))


if __name__ == "__main__":
    main()
