"""What lies behind two numbers of the reproduction: which dictionary the patches have, and where GO-Math-L2O starts.

Iterations to a mean relative gap of 1e-4, 1e-6 and 1e-7, and the gap at the end, of shipped models and of FISTA:

- the 1,000 image patches in our dictionary and in that of the released recipe;
- LASSO problems of the training distribution, from standard normal starts (as in training) and from zero.

Steps in float32, F in float64.

    python benchmarks/paper_causes.py [--instances 64] [--iterations 1000]
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
from sureprox.sources.real import RECIPES

from _record import write_record

LEVELS = (1e-4, 1e-6, 1e-7)
GO = ("go-math-l2o/lasso", "go-math-l2o/lasso-setting-1", "go-math-l2o/lasso-setting-20")
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


def contestants(names: tuple[str, ...]) -> list[Contestant]:
    classics = [classical("fista", {"restart": False}), classical("fista-restart", {"restart": True})]
    return [*(learned(name, DEVICE) for name in names), *classics]


def measured(found: Trace) -> dict[str, Any]:
    mean = found.gaps.mean(1)
    first = {
        f"{level:g}": next((k for k, m in zip(found.grid, mean, strict=True) if m <= level), None) for level in LEVELS
    }
    return first | {"end": float(f"{mean[-1]:.3g}")}


def run(data: Dataset, names: tuple[str, ...], iterations: int) -> dict[str, Any]:
    scenario = Scenario(data.instances.source)
    table = {}
    for one in contestants(names):
        table[one.name] = measured(trace(one.optimizer, data, scenario, iterations))
        print(data.instances.origin[-60:], one.name, table[one.name], flush=True)
    return table


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--instances", type=int, default=64)
    parser.add_argument("--iterations", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(1)
    patches, sizes, starts = {}, {}, {}
    with tempfile.TemporaryDirectory() as folder:
        cache = Path(folder)
        for dictionary in RECIPES:
            data = solved(draw("patches", 1000, 0, dictionary), cache, DEVICE)
            sizes[dictionary] = float(f"{float(data.problem.lipschitz()[0]):.4g}")
            patches[dictionary] = run(data, (*GO, "l2o-pa/lasso"), options.iterations)
        data = solved(draw("lasso", options.instances, 0), cache, DEVICE)
        zero = replace(data.instances, start=torch.zeros_like(data.start), origin=f"{data.instances.origin}, from zero")
        for name, instances in (("normal", data.instances), ("zero", zero)):
            starts[name] = run(replace(data, instances=instances), GO, options.iterations)
    about = {"iterations": options.iterations, "instances": options.instances, "seed": 0}
    print(write_record("paper_causes", {**about, "dictionary_L": sizes, "patches": patches, "start": starts}))


if __name__ == "__main__":
    main()
