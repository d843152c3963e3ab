"""How much memory a training batch needs.

    peak bytes = s [ (3 + w) B m n + T B (c_n n + c_m m) ]

B problems of size m x n, s bytes per number, T steps per segment. The problem matrix is held once, and up to twice
more while the next batch is drawn; w counts scratch copies of A and is 0 for the plain path. c_n and c_m are the
numbers that autograd keeps per coordinate and per row for one step. They depend only on the optimizer and are counted
here by running two steps on small problems, for GO-Math-L2O with hidden size 20 about 360 and 1. The few thousand
weights are left out.
"""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from sureprox.optimizers import LearnedOptimizer
from sureprox.training.config import TrainingConfig
from sureprox.training.segment import segment_loss


def saved_numbers(optimizer: LearnedOptimizer[Any], family: Any, m: int, n: int) -> int:
    """Numbers kept for the backward pass of one step on one problem of size m x n, A and the weights left out."""
    generator = torch.Generator().manual_seed(0)
    small = replace(family, m=m, n=n, nonzeros=1)
    problem = small.sample(1, generator)
    state = optimizer.init(problem, small.start(1, generator), generator=generator)
    known = {t.untyped_storage().data_ptr() for t in [*problem.tensors(), *optimizer.parameters()]}
    seen: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known:
            seen[storage.data_ptr()] = storage.nbytes() // tensor.element_size()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        _held = segment_loss(problem, optimizer, state, [1.0, 1.0])  # no storage may be freed and used again
    return sum(seen.values()) // 2


def predicted_peak_bytes(optimizer: LearnedOptimizer[Any], family: Any, config: TrainingConfig) -> int:
    """The formula above for the plain path."""
    base = saved_numbers(optimizer, family, 64, 64)
    per_coordinate = (saved_numbers(optimizer, family, 64, 128) - base) / 64
    per_row = (saved_numbers(optimizer, family, 128, 64) - base) / 64
    size = torch.finfo(getattr(torch, config.dtype)).bits // 8
    matrix = 3 * config.batch * family.m * family.n
    kept = config.segment * config.batch * (per_coordinate * family.n + per_row * family.m)
    return int(size * (matrix + kept))
