"""Every learned optimizer learns: the tiny preset, shortened, brings its validation loss down."""

from dataclasses import replace

import pytest
import torch

from sureprox.training import preset, train
from training_cases import of_kind


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["go-math-l2o", "l2o-pa", "l2o-dm", "rnnprop", "ada-lista"])
def test_the_tiny_preset_learns(tmp_path, kind):
    recipe = preset("tiny", kind)
    config = replace(recipe.training, **({"pool": 1} if kind == "ada-lista" else {"batches": 8}))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        optimizer = recipe.build()
    events = []
    result = train(optimizer, recipe.family, config, tmp_path, device="cpu", listeners=[events.append])
    first = of_kind(events, "validation")[0]["loss"]
    assert result.completed
    assert result.failures == 0
    assert result.best_validation < 0.75 * first
    assert (tmp_path / "model.safetensors").exists()
