"""A linear map for every instance of a batch. Write your own by subclassing `Operator`."""

import copy
from abc import abstractmethod
from typing import Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.batch import BatchData
from sureprox.problems.operators.lanczos import largest_by_products
from sureprox.problems.spectrum import KRYLOV_BLOCK, Largest, largest_eigenvalue

LARGEST = 2**22  # entries of an A whose columns are made to know how long they are
CHUNK = 2**20  # of them at a time


class Operator(BatchData):
    """z = A x with A (m, n) for every instance, given by its products with vectors.

    One A is shared by all instances (`batch` is None), or each has its own. `copies` > 1: that many points for each
    instance, row i * copies + j being point j of instance i; see `stacked`.
    """

    copies: int = 1
    orthogonal: bool = False  # A'A = A A' = I
    knows_columns: bool = False  # `column_squares` is exact at the price of one look at A

    @property
    @abstractmethod
    def shape(self) -> tuple[int, int]:
        """(m, n)."""

    @abstractmethod
    def forward(self, x: Vectors) -> Rows:
        """A x of every row of x."""

    @abstractmethod
    def adjoint(self, z: Rows) -> Vectors:
        """A' z of every row of z."""

    @property
    def batch(self) -> int | None:
        """The number of instances; None where one A is shared by any number."""
        return None

    @property
    def shared(self) -> bool:
        return self.batch is None

    @property
    def selectable(self) -> bool:
        return self.shared or super().selectable

    @property
    def like(self) -> Tensor | None:
        """A tensor whose dtype and device x must have; None where any will do."""
        for value in self._tensors().values():
            if value.is_floating_point():
                return value
        return next((part.like for part in self._operators() if part.like is not None), None)

    def at(self, like: Tensor) -> "Operator":
        """The same; one without a dtype of its own gives its `gram_norm` in that of `like`, and on its device."""
        if self.like is not None:
            return self
        clone = copy.copy(self)
        clone._like = like.detach().new_empty(0)  # type: ignore[attr-defined]
        return clone

    @property
    def T(self) -> "Operator":  # noqa: N802
        """A'."""
        return Transposed(self)

    def residual(self, x: Vectors, b: Rows) -> Rows:
        """A x - b."""
        return self.forward(x) - b

    def select(self, index: Tensor) -> Self:
        """Only the instances in `index`, or, where there are several points for each, only these points."""
        if self.batch is None:
            return self
        if self.copies == 1:
            return super().select(index)
        points = torch.arange(self.batch * self.copies, device=index.device)[index]
        clone = super().select(points // self.copies)
        clone.copies = 1
        return clone

    def stacked(self, copies: int) -> Self:
        """The same for `copies` points of each instance, rows i * copies + j. One A for all needs no change."""
        if self.shared or copies == 1:
            return self
        clone = self._map(lambda name, value: value, lambda name, part: part.stacked(copies))  # type: ignore[attr-defined]
        clone.copies = self.copies * copies
        return clone

    def columns(self, index: Tensor) -> Tensor:
        """The columns (B, m, k) of A that `index` (B, k) names, by default as products with unit vectors."""
        like = self._like_or_default()
        batch, k = index.shape
        units = torch.zeros(batch, k, self.shape[1], dtype=like.dtype, device=index.device)
        units = units.scatter(2, index.unsqueeze(2), 1.0)
        return self.stacked(k).forward(units.flatten(0, 1)).reshape(batch, k, -1).mT

    def column_squares(self, weights: Rows) -> Vectors:
        """(B, n) sum_i w_i a_ij^2, w = `weights` (B, m) >= 0, or an upper bound that costs little.

        By default exact where A has no more than LARGEST entries, whose columns are made; max_i w_i |A|^2 where there
        is a formula for |A|; else infinity.
        """
        m, n = self.shape
        if m * n * (self.batch or 1) <= LARGEST:
            every = torch.arange(n, device=weights.device).expand(self.batch or 1, -1)
            parts = every.split(max(1, CHUNK // (m * (self.batch or 1))), 1)
            squares = torch.cat([self.at(weights).columns(part).square() for part in parts], 2)
            return (weights.unsqueeze(1) @ squares).squeeze(1)
        known = self.known_gram_norm()
        norm = torch.as_tensor(torch.inf if known is None else known, dtype=weights.dtype, device=weights.device)
        largest = weights.amax(1) * norm
        return largest.unsqueeze(1).expand(-1, n)

    def roundoff(self, dtype: torch.dtype) -> float:
        """The unit of rounding of products with vectors of `dtype`, relative to |a_j| |z|, but for a factor m + n."""
        return max([torch.finfo(dtype).eps, *(part.roundoff(dtype) for part in self._operators())])

    def dense(self) -> Tensor:
        """A as a tensor (m, n), or (B, m, n) where each instance has its own: for tests, and where it is tiny."""
        device = self._like_or_default().device
        every = torch.arange(self.shape[1], device=device).expand(self.batch or 1, -1)
        columns = self.columns(every)
        return columns[0] if self.shared else columns

    @torch.no_grad()
    def gram_norm(
        self,
        batch: int,
        exact: bool = False,
        largest: Largest = largest_eigenvalue,
        row_scale: Rows | None = None,
    ) -> Scalars:
        """The largest eigenvalue of A' diag(r)^2 A for every instance, r = `row_scale` (B, m), by default 1.

        In closed form where one is known, else by products with A and A' alone, estimated or exact: see
        `largest_by_products`. `largest` is for matrices.
        """
        like = self._like_or_default()
        known = self.known_gram_norm() if row_scale is None else None
        if known is not None:
            return torch.as_tensor(known, dtype=like.dtype, device=like.device).expand(batch)
        exactly = self.at(like).to(dtype=torch.float64) if exact else self
        assert isinstance(exactly, Operator)
        value = exactly._krylov(batch, exact, row_scale).to(like.dtype)
        return value.expand(batch) if len(value) == 1 else value.repeat_interleave(self.copies)

    def known_gram_norm(self) -> float | Tensor | None:
        """The largest eigenvalue of A'A where there is a formula for it: a number, or a tensor () or (B,)."""
        return 1.0 if self.orthogonal else None

    def _krylov(self, batch: int, exact: bool, row_scale: Rows | None) -> Scalars:
        like = self._like_or_default()
        block = self.copies if self.copies > 1 else min(KRYLOV_BLOCK, *self.shape)
        stack = self if self.copies > 1 else self.stacked(block)
        count = batch if row_scale is not None else self.batch or 1
        scale = 1.0 if row_scale is None else row_scale.detach().to(like.dtype).unsqueeze(1)

        def forward(x: Tensor) -> Tensor:
            return stack.forward(x.flatten(0, 1)).reshape(count, block, -1) * scale

        def adjoint(z: Tensor) -> Tensor:
            return stack.adjoint((z * scale).flatten(0, 1)).reshape(count, block, -1)

        return largest_by_products(forward, adjoint, (count, *self.shape), block, like, exact)

    def _like_or_default(self) -> Tensor:
        return torch.empty(0) if self.like is None else self.like

    def _operators(self) -> list["Operator"]:
        return [part for part in self._parts().values() if isinstance(part, Operator)]

    def __repr__(self) -> str:
        owners = "" if self.shared else f", batch={self.batch}"
        return f"{type(self).__name__}({self.shape[0]} x {self.shape[1]}{owners})"


class Transposed(Operator):
    """z = A' x."""

    batched = ()
    operator: Operator

    def __init__(self, operator: Operator) -> None:
        self.operator = operator

    @property
    def shape(self) -> tuple[int, int]:
        m, n = self.operator.shape
        return n, m

    @property
    def batch(self) -> int | None:
        return self.operator.batch

    @property
    def orthogonal(self) -> bool:  # type: ignore[override]
        return self.operator.orthogonal

    @property
    def T(self) -> Operator:  # noqa: N802
        return self.operator

    def forward(self, x: Vectors) -> Rows:
        return self.operator.adjoint(x)

    def adjoint(self, z: Rows) -> Vectors:
        return self.operator.forward(z)

    def known_gram_norm(self) -> float | Tensor | None:
        return self.operator.known_gram_norm()


def common_batch(operators: list[Operator]) -> int | None:
    """The number of instances of operators that are used together."""
    found = {operator.batch for operator in operators} - {None}
    if len(found) > 1:
        raise InputError(f"the operators have batches of {sorted(found)}; give them one size")  # type: ignore[type-var]
    return found.pop() if found else None
