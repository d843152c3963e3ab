"""Step sizes of Adam and AdamHD, chosen for each family from a small grid on problems of their own."""

from typing import Any

import torch

from sureprox.evaluation.contestants import classical
from sureprox.evaluation.datasets import Dataset
from sureprox.evaluation.experiment import trace
from sureprox.evaluation.records import TuningRecord, rounded
from sureprox.evaluation.scenarios import Scenario

SEEDS = 1_000_000  # added to the seed once more: other problems than those of the figures
INSTANCES = 64  # at most
GRIDS: dict[str, tuple[dict[str, Any], ...]] = {
    "adam": tuple({"step_size": step} for step in (1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1)),
    "adam-hd": tuple(
        {"step_size": step, "hyper_step": hyper} for step in (1e-3, 1e-2, 1e-1) for hyper in (1e-7, 1e-6, 1e-5, 1e-4)
    ),
}


def tune(name: str, data: Dataset, iterations: int, seed: int, dtype: torch.dtype) -> TuningRecord:
    """Final mean relative gap of each setting in the grid, in distribution."""
    scenario = Scenario(data.instances.source)
    rows = []
    for settings in GRIDS[name]:
        seen = trace(classical(name, settings).optimizer, data, scenario, iterations, dtype=dtype)
        rows.append((settings, rounded(float(seen.gaps[-1].mean()), 4)))
    return TuningRecord(name, scenario.family, seed, data.problem.batch, iterations, tuple(rows))
