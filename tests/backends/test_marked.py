"""Which sizes torch.compile is told will change."""

import torch

from sureprox.kernels.runtime.replay import _mark
from sureprox.kernels.runtime.structure import structure, tensors
from sureprox.optimizers import GoMathL2O, Sure
from sureprox.sources import LassoFamily


def marked(value: torch.Tensor) -> set[int]:
    return set(getattr(value, "_dynamo_weak_dynamic_indices", ()))


def test_only_the_batch_changes_whatever_other_size_is_the_same():
    """A batch of 8, 32 or 40 is also a number of units or of coordinates: the compiled code must not depend on that."""
    family, generator = LassoFamily(m=20, n=40, nonzeros=5), torch.Generator().manual_seed(0)
    for optimizer in (Sure(), GoMathL2O()):
        for batch in (8, 32, 40):
            problem, x0 = family.sample(batch, generator), family.start(batch, generator)
            state = optimizer.init(problem, x0)
            shape = structure(state)
            values = tuple(value.clone() for value in tensors(state, shape))
            _mark(batch, 40, problem, values)
            names = [name for name, kind in shape.fields if kind == "tensor"]
            for name, value in zip(names, values, strict=True):
                assert marked(value) == ({1} if name in ("h", "c") else {0}), name
