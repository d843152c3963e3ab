"""The memory formula against what autograd keeps for a whole segment of another size."""

from dataclasses import replace

import pytest
import torch

from sureprox.training import Loss
from sureprox.training.memory import predicted_peak_bytes
from sureprox.training.segment import segment_loss
from training_cases import LASSO, LOGISTIC, network, small_config


def kept_bytes(optimizer, family, config) -> int:
    """Bytes of all storages that the backward pass of a segment needs, A, b and the weights left out."""
    generator = torch.Generator().manual_seed(0)
    dtype = getattr(torch, config.dtype)
    problem = family.sample(config.batch, generator, dtype)
    state = optimizer.init(problem, family.start(config.batch, generator, dtype), generator=generator)
    known = {t.untyped_storage().data_ptr() for t in [*problem.tensors(), *optimizer.parameters()]}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        held = segment_loss(problem, optimizer, state, Loss.MEAN.weights(config.segment))
    assert held[0].requires_grad
    return sum(kept.values())


@pytest.mark.parametrize("family", [replace(LASSO, m=40, n=90), replace(LOGISTIC, m=150, n=30)])
@pytest.mark.parametrize(
    ("kind", "hidden", "dtype"),
    [
        ("go-math-l2o", 20, "float32"),
        ("go-math-l2o", 8, "float64"),
        ("l2o-pa", 20, "float32"),
        ("rnnprop", 8, "float32"),
    ],
)
def test_predicted_memory_is_what_a_segment_keeps(kind, hidden, dtype, family):
    config = small_config(segment=5, length=5, batch=6, dtype=dtype)
    optimizer = network(kind, hidden=hidden, layers=2)
    matrices = 3 * config.batch * family.m * family.n * (8 if dtype == "float64" else 4)
    predicted = predicted_peak_bytes(optimizer, family, config) - matrices
    measured = kept_bytes(optimizer, family, config)
    assert predicted == pytest.approx(measured, rel=0.15)


def test_numbers_of_the_docstring():
    """About 360 numbers per coordinate and 1 per row for GO-Math-L2O with hidden size 20."""
    optimizer, family = network(hidden=20, layers=2), LASSO
    config = small_config(batch=1, segment=1)

    def kept(m: int, n: int) -> float:
        return predicted_peak_bytes(optimizer, replace(family, m=m, n=n), config) / 4 - 3 * m * n

    assert kept(100, 300) - kept(100, 200) == pytest.approx(360 * 100, rel=0.1)
    assert 0 <= kept(300, 100) - kept(200, 100) <= 2 * 100
