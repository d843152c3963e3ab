"""The gradient of least squares with one read of A instead of two, on an NVIDIA GPU."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Scalars, Vectors
from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.abi import constants
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Loss, dense

(THREADS,) = constants("products/products.cu", "THREADS")
WARPS = THREADS // 32
RING = 100_000  # bytes of A that a block holds at most: two blocks fit on a multiprocessor
MOST_TURNS, MOST_STAGES, WIDE = 4, 20, 1024  # rows that a warp works on at a time: about WIDE columns of all points
MOST_COLUMNS = 1024  # beyond, a row no longer fits into the registers of a warp
FEWEST_ROWS = 8
MOST_KNOWN = 2  # numbers that come with each row for each point


def shape_of(n: int, points: int) -> cuda.Macros:
    """What products.cu is compiled for with n columns and this number of points."""
    turns = max(1, min(MOST_TURNS, WIDE // (n * points)))
    stages = max(2, min(MOST_STAGES, RING // (4 * n * WARPS * turns)))
    return ("CHUNKS", -(-n // 128)), ("TURNS", turns), ("STAGES", stages)


def shared_memory(n: int, points: int) -> int:
    """Bytes that a block needs."""
    sizes = dict(shape_of(n, points))
    rows = WARPS * sizes["TURNS"] * sizes["STAGES"]
    return 4 * max(rows * (n + MOST_KNOWN * points), WARPS * points * n)


def rows_per_block(batch: int, m: int, device: int) -> int:
    """All rows, or fewer where the device would not be filled."""
    blocks = max(1, 2 * cuda.multiprocessors(device) // batch)
    return min(m, max(FEWEST_ROWS, -(-m // blocks)))


def parts(blocks: int, like: Tensor) -> Tensor:
    """Memory for what each of the blocks of an instance returns; for one block this is the result itself."""
    return cuda.result(like) if blocks == 1 else like.new_empty(blocks, *like.shape)


def added_up(blocks: int, made: Tensor) -> Tensor:
    """The sum of `parts`."""
    return made if blocks == 1 else made.sum(0)


def _build(n: int, device: int) -> cuda.Build:
    """What to compile for n columns."""
    return "products/normal.cu", "normal_map", shape_of(n, 1), device, shared_memory(n, 1)


def launch_normal_map(A: Tensor, x: Tensor, b: Tensor | None, with_value: bool) -> tuple[Tensor, Tensor]:
    """A'(A x - b) (B, n) and |A x - b|^2 / 2 (B,), empty if not asked for; A (B, m, n), x (B, n), b (B, m) or zero."""
    batch, m, n = A.shape
    device = A.device.index
    rows = rows_per_block(batch, m, device)
    blocks = -(-m // rows)
    nothing = x.new_empty(0)  # its address is a null pointer
    gradient, value = parts(blocks, x), parts(blocks, x[:, 0]) if with_value else nothing
    kernel = cuda.kernel(*_build(n, device))
    given = {"A": A, "x": cuda.aligned(x), "b": None if b is None else b.contiguous()}
    arguments = {**given, "gradient": gradient, "value": value, "batch": batch, "m": m, "n": n, "R": rows}
    kernel((batch, blocks, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(n, 1))
    return added_up(blocks, gradient), added_up(blocks, value) if with_value else nothing


normal_map = torch.library.custom_op("sureprox::normal_map", mutates_args=())(launch_normal_map)


@normal_map.register_fake
def _(A: Tensor, x: Tensor, b: Tensor | None, with_value: bool) -> tuple[Tensor, Tensor]:
    return x.new_empty(x.shape), x.new_empty(x.shape[0] if with_value else 0)


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.with_value = inputs[3]
    ctx.save_for_backward(inputs[0], output[0])


def _backward(ctx: Any, d_gradient: Tensor, d_value: Tensor) -> tuple[None, Tensor, None, None]:
    """d/dx of <u, A'(A x - b)> + w |A x - b|^2 / 2 is A'A u + w A'(A x - b)."""
    A, gradient = ctx.saved_tensors
    curved = normal_map(A, d_gradient, None, False)[0]
    return None, curved + d_value.unsqueeze(1) * gradient if ctx.with_value else curved, None, None


normal_map.register_autograd(_backward, setup_context=_setup)


def gradient(problem: Problem, x: Vectors) -> Vectors:
    """`Problem.grad` of least squares with one A per instance."""
    A, b = dense(problem)
    found: Vectors = cuda.direct(normal_map, launch_normal_map)(A, problem.centred(x), b, False)[0]
    return found


def observe(problem: Problem, x: Vectors) -> tuple[Scalars, Vectors]:
    """f(x) and its gradient."""
    A, b = dense(problem)
    found, value = cuda.direct(normal_map, launch_normal_map)(A, problem.centred(x), b, True)
    return value, found


def suits(form: Form, points: int, widest: int) -> bool:
    """Whether the kernels that read A once for all these points are made for least squares of this form."""
    if form.loss is not Loss.SQUARES or not form.own_matrices or form.n % 4 or form.n > widest or form.differentiable:
        return False
    return cuda.usable(form.device, form.dtype, shared_memory(form.n, points))


def builds(form: Form) -> list[cuda.Build]:
    """What `gradient` and `observe` need; nothing where they are not made for the form."""
    return [_build(form.n, cuda.index(form.device))] if suits(form, 1, MOST_COLUMNS) else []
