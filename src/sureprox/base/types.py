"""Shape aliases used in signatures: B instances, n coordinates, m rows of A.

They are plain `torch.Tensor` for readers, type checkers and users. Setting SUREPROX_CHECK_SHAPES (the test
suite does) turns them into jaxtyping annotations, which an import hook then checks at every call.
"""

import os
from typing import TYPE_CHECKING, TypeAlias

from torch import Tensor

if TYPE_CHECKING or not os.environ.get("SUREPROX_CHECK_SHAPES"):
    Vectors: TypeAlias = Tensor
    Rows: TypeAlias = Tensor
    Scalars: TypeAlias = Tensor
    Steps: TypeAlias = Tensor
else:
    from jaxtyping import Float

    Vectors = Float[Tensor, "B n"]
    Rows = Float[Tensor, "B m"]
    Scalars = Float[Tensor, "B"]
    Steps = Float[Tensor, "B #n"]  # a diagonal metric: one step per coordinate, or one per instance

__all__ = ["Rows", "Scalars", "Steps", "Vectors"]
