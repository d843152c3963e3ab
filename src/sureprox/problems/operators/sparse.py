"""Products with a sparse matrix."""

import warnings
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Vectors
from sureprox.problems import checks
from sureprox.problems.operators.base import Operator

SHORT = 2**31  # sizes below fit in 32 bits
DAMAGED = "A is sparse and damaged"

Compressed = tuple[Tensor, Tensor, Tensor]  # of a matrix in CSR format: row starts, columns, values


class Sparse(Operator):
    """z = A x with one sparse A (m, n) for all instances: a 2-D sparse tensor of torch or matrix of SciPy.

    A and A' are kept in CSR format, so that both products read memory in order: about twice the memory of A. Nothing of
    the size of a dense A is made. Derivatives with respect to x are known, those with respect to A are not.
    """

    knows_columns = True
    starts: Tensor
    places: Tensor
    values: Tensor
    starts_t: Tensor
    places_t: Tensor
    values_t: Tensor

    def __init__(self, A: Any) -> None:
        if isinstance(A, Sparse):
            vars(self).update(vars(A))
            return
        if not is_sparse(A):
            raise InputError(f"A is a {type(A).__name__}; pass a sparse tensor of torch or a sparse matrix of SciPy")
        self._shape = _checked_shape(A)
        m, n = self._shape
        starts, places, values = _of_torch(A) if isinstance(A, Tensor) else _of_scipy(A)
        checks.require_float("A", values)
        if values.requires_grad:
            raise InputError(
                "A is sparse and requires gradients, which are unknown for it; pass A.detach() or a dense A"
            )
        checks.require_finite("A", values)
        index = torch.int32 if max(m, n, len(values)) < SHORT else torch.int64
        self.starts, self.places, self.values = starts.to(index), places.to(index), values
        self.starts_t, self.places_t, self.values_t = _transposed(self.starts, self.places, values, n)

    @property
    def shape(self) -> tuple[int, int]:
        return self._shape

    def forward(self, x: Vectors) -> Rows:
        """A x, shape (B, m)."""
        product: Tensor = _Product.apply(x, self._csr(), self._csr_t())
        return product

    def adjoint(self, z: Rows) -> Vectors:
        """A' z, shape (B, n)."""
        product: Tensor = _Product.apply(z, self._csr_t(), self._csr())
        return product

    def column_squares(self, weights: Rows) -> Vectors:
        """Exact."""
        squares = _csr(self.starts_t, self.places_t, self.values_t.square(), (self.shape[1], self.shape[0]))
        return (squares @ weights.mT).mT

    def rows(self) -> Tensor:
        """The row of each of `values`."""
        counts = self.starts.diff()
        return torch.repeat_interleave(torch.arange(self.shape[0], device=counts.device), counts)

    def _csr(self) -> Tensor:
        return _csr(self.starts, self.places, self.values, self.shape)

    def _csr_t(self) -> Tensor:
        return _csr(self.starts_t, self.places_t, self.values_t, (self.shape[1], self.shape[0]))


class _Product(torch.autograd.Function):
    """M x for every row of x, with M' for the way back: torch would make M' itself, or the gradient of M."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, matrix: Tensor, transposed: Tensor) -> Tensor:
        ctx.pair = matrix, transposed
        return (matrix @ x.mT).mT.contiguous()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        matrix, transposed = ctx.pair
        return _Product.apply(gradient, transposed, matrix), None, None


def is_sparse(A: Any) -> bool:
    """Whether it is a sparse tensor of torch, or a sparse matrix or array of SciPy, which is not imported for that."""
    if isinstance(A, Tensor):
        return A.layout is not torch.strided
    return type(A).__module__.startswith("scipy.sparse") and hasattr(A, "tocsr")


def _checked_shape(A: Any) -> tuple[int, int]:
    shape = tuple(int(size) for size in A.shape)
    if len(shape) != 2:
        raise InputError(f"A is sparse with shape {shape}; pass (m, n), one A shared by the whole batch")
    if 0 in shape:
        raise InputError(f"A has shape {shape}: it is empty; pass at least one row and column")
    if isinstance(A, Tensor) and A.dense_dim():
        raise InputError("A is sparse along its rows alone; pass A.to_dense().to_sparse()")
    return shape[0], shape[1]


def _of_torch(A: Tensor) -> Compressed:
    """Entries of the same place are added up."""
    if A.layout is torch.sparse_coo:
        for places, size in zip(A._indices(), A.shape, strict=True):
            _require_places(places, size)
    else:
        by_rows = A.layout in (torch.sparse_csr, torch.sparse_bsr)
        starts, places = (A.crow_indices(), A.col_indices()) if by_rows else (A.ccol_indices(), A.row_indices())
        values, across = A.values(), 1 if by_rows else 0
        _require_starts(starts, len(values))
        _require_places(places, A.shape[across] // (values.shape[1 + across] if values.ndim == 3 else 1))
    coo = A.to_sparse_coo().coalesce()
    rows, places = coo.indices()
    counts = torch.bincount(rows, minlength=A.shape[0])
    return _starts(counts), places, checks.as_tensor("A", coo.values())


def _of_scipy(A: Any) -> Compressed:
    if hasattr(A, "row") and hasattr(A, "col"):  # COO
        for places, size in zip((A.row, A.col), A.shape, strict=True):
            _require_places(torch.from_numpy(places.copy()), size)
    elif hasattr(A, "check_format"):
        try:
            A.check_format(full_check=True)
        except ValueError as error:
            raise InputError(f"{DAMAGED}: {error}") from None
    csr = A.tocsr(copy=True)
    csr.sum_duplicates()
    values = checks.as_tensor("A", csr.data)
    return torch.from_numpy(csr.indptr).clone(), torch.from_numpy(csr.indices).clone(), values


def _require_places(places: Tensor, size: int) -> None:
    """Products would read and write beyond the ends of a vector."""
    if len(places) and not (int(places.min()) >= 0 and int(places.max()) < size):
        wrong = places.min() if int(places.min()) < 0 else places.max()
        raise InputError(f"{DAMAGED}: an entry has the index {int(wrong)} where the size is {size}")


def _require_starts(starts: Tensor, count: int) -> None:
    if int(starts[0]) != 0 or int(starts[-1]) != count or bool((starts.diff() < 0).any()):
        raise InputError(f"{DAMAGED}: its rows do not begin one after the other, from 0 to {count}")


def _transposed(starts: Tensor, places: Tensor, values: Tensor, n: int) -> Compressed:
    order = places.argsort(stable=True)  # by column, and there by row
    rows = torch.repeat_interleave(torch.arange(len(starts) - 1, device=starts.device), starts.diff())
    counts = torch.bincount(places, minlength=n)
    return _starts(counts).to(starts.dtype), rows[order].to(places.dtype), values[order]


def _starts(counts: Tensor) -> Tensor:
    return torch.cat([counts.new_zeros(1), counts.cumsum(0)])


def _csr(starts: Tensor, places: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    _said_once()
    return torch.sparse_csr_tensor(starts, places, values, size=shape, check_invariants=False)


@cache
def _said_once() -> None:
    """torch says once in each process that its CSR tensors are in beta; a user of this class need not hear it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.sparse_csr_tensor([0, 1], [0], [1.0], size=(1, 1), check_invariants=False)
