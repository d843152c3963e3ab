"""The gradient of least squares with one read of A instead of two, on an NVIDIA GPU."""

from typing import Any

import torch
from torch import Tensor

from sureprox.backends import cuda
from sureprox.problems import LeastSquares, Problem
from sureprox.types import Scalars, Vectors

THREADS = 256  # as in normal.cu
TILE = 100_000  # bytes of A that a block holds: two blocks fit on a multiprocessor
MOST_COLUMNS = 1024  # beyond, a row no longer fits into the registers of a warp
EXTRA = 4  # columns beside the gradient: the value, and three to keep rows aligned


def rows_per_block(batch: int, m: int, n: int, device: int) -> int:
    """Rows per block: as many as fit, but fewer if the device would not be filled."""
    fill = -(-m * batch // (2 * cuda.multiprocessors(device)))
    return max(1, min(m, TILE // (4 * n), max(8, fill)))


def _shared_memory(rows: int, n: int) -> int:
    return 4 * (rows * n + rows) + 16 * THREADS


def _most_memory(n: int) -> int:
    return _shared_memory(TILE // (4 * n), n)


def _build(n: int, device: int) -> tuple[str, str, cuda.Macros, int, int]:
    """What to compile for n columns."""
    return "normal.cu", "normal_map", (("CHUNKS", -(-n // 128)),), device, _most_memory(n)


@torch.library.custom_op("sureprox::normal_map", mutates_args=())
def normal_map(A: Tensor, x: Tensor, b: Tensor | None) -> Tensor:
    """(B, n + 4): A'(A x - b), then |A x - b|^2 / 2, then zeros; A (B, m, n), x (B, n), b (B, m) or zero."""
    batch, m, n = A.shape
    device = A.device.index
    rows = rows_per_block(batch, m, n, device)
    blocks = -(-m // rows)
    partial = x.new_empty(blocks, batch, n + EXTRA)
    kernel = cuda.kernel(*_build(n, device))
    arguments = [A, x.contiguous(), b.contiguous() if b is not None else _null(device), partial, batch, m, n, rows]
    kernel((blocks, batch, 1), (THREADS, 1, 1), arguments, shared_mem=_shared_memory(rows, n))
    return partial.sum(0)


def _null(device: int) -> Tensor:
    """An empty tensor: its address is a null pointer."""
    return torch.empty(0, device=f"cuda:{device}")


@normal_map.register_fake
def _(A: Tensor, x: Tensor, b: Tensor | None) -> Tensor:
    return x.new_empty(x.shape[0], x.shape[1] + EXTRA)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(inputs[0], output)


def _backward(ctx: Any, d_out: Tensor) -> tuple[None, Tensor, None]:
    """d/dx of <u, A'(A x - b)> + w |A x - b|^2 / 2 is A'A u + w A'(A x - b)."""
    A, out = ctx.saved_tensors
    n = A.shape[2]
    curved = normal_map(A, d_out[:, :n], None)
    return None, curved[:, :n] + d_out[:, n : n + 1] * out[:, :n], None


normal_map.register_autograd(_backward, setup_context=_setup)


class NormalLeastSquares(LeastSquares):
    """The same function; value and gradient come from `normal_map`."""

    def grad(self, x: Vectors) -> Vectors:
        return self.value_and_grad(x)[1]

    def value_and_grad(self, x: Vectors) -> tuple[Scalars, Vectors]:
        out = normal_map(self.A, x, self.b)
        return out[:, -EXTRA], out[:, :-EXTRA]


def fewer_reads_possible(A: Tensor, shared_memory: int) -> bool:
    """Whether the kernels that read A once are made for this A, with so much memory for a block."""
    fits = A.ndim == 3 and A.shape[2] % 4 == 0 and A.is_contiguous()
    return fits and cuda.usable(A.device, A.dtype, shared_memory)


def faster(problem: Problem) -> Problem:
    """The same problem, with fewer reads of A where that is possible: dense least squares, one A per instance."""
    f = problem.f
    if type(f) is not LeastSquares or problem.requires_grad or type(problem) is not Problem:
        return problem
    n = f.A.shape[-1]
    if n > MOST_COLUMNS or not fewer_reads_possible(f.A, _most_memory(n)):
        return problem
    if not cuda.can_build(*_build(n, cuda.index(f.A.device))):
        return problem
    return Problem(NormalLeastSquares.trusted(A=f.A, b=f.b), problem.r, problem.shift)
