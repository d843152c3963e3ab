"""One operator for several vectors of each point."""

import torch
from torch import Tensor

from sureprox.base.types import Rows, Vectors
from sureprox.problems.operators.base import Operator


class Repeated(Operator):
    """z = (I kron A) x: x is `count` vectors, one after the other, all multiplied by A."""

    batched = ()
    operator: Operator

    def __init__(self, operator: Operator, count: int) -> None:
        self.operator = operator
        self.count = count
        self.each = operator.stacked(count)

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return self.count * m, self.count * n

    @property
    def batch(self) -> int | None:
        return self.operator.batch

    def forward(self, x: Vectors) -> Rows:
        return self.each.forward(self._apart(x)).reshape(len(x), -1)

    def residual(self, x: Vectors, b: Rows) -> Rows:
        return self.each.residual(self._apart(x), self._apart(b)).reshape(len(x), -1)

    def adjoint(self, z: Rows) -> Vectors:
        return self.each.adjoint(self._apart(z)).reshape(len(z), -1)

    def columns(self, index: Tensor) -> Tensor:
        """Those of A in their own block, zero in all others."""
        n = self.operator.shape[1]
        block = torch.arange(self.count, device=index.device).view(1, -1, 1)
        own = (index // n).unsqueeze(1) == block
        return (own.unsqueeze(2) * self.operator.columns(index % n).unsqueeze(1)).flatten(1, 2)

    @property
    def knows_columns(self) -> bool:  # type: ignore[override]
        return self.operator.knows_columns

    def column_squares(self, weights: Rows) -> Vectors:
        """Those of A for the weights of each vector."""
        apart = weights.reshape(len(weights), self.count, -1)
        return torch.stack([self.operator.column_squares(rows) for rows in apart.unbind(1)], 1).flatten(1)

    def known_gram_norm(self) -> float | Tensor | None:
        return self.operator.known_gram_norm()

    def _apart(self, rows: Tensor) -> Tensor:
        return rows.reshape(len(rows) * self.count, -1)
