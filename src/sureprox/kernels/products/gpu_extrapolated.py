"""A x - b, moved on by momentum, and A' times that, with one read of A instead of two, on an NVIDIA GPU."""

from collections.abc import Iterable

import torch
from torch import Tensor

from sureprox.kernels.products.gpu_gradient import (
    THREADS,
    added_up,
    parts,
    rows_per_block,
    shape_of,
    shared_memory,
    suits,
)
from sureprox.kernels.runtime import cuda
from sureprox.problems.forms import Form, dense
from sureprox.problems.stacked import Stacked

MOST_COLUMNS = 512  # beyond, three points no longer fit into the registers of a warp
MOST_POINTS = 3


def _build(n: int, points: int, device: int) -> cuda.Build:
    """What to compile for n columns and this number of points."""
    return (
        "products/extrapolated.cu",
        "extrapolated",
        (*shape_of(n, points), ("POINTS", points)),
        device,
        shared_memory(n, points),
    )


def launch_extrapolated(
    A: Tensor, x: Tensor, before: Tensor, momentum: Tensor, b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """z = A x - b (B, K, m), w = z + momentum (z - before), A'w (B, K, n); A (B, m, n), x (B, K, n), b (B, m)."""
    batch, m, n = A.shape
    points, device = x.shape[1], A.device.index
    rows = rows_per_block(batch, m, device)
    blocks = -(-m // rows)
    z, w = before.new_empty(before.shape), before.new_empty(before.shape)
    gradient = parts(blocks, x)
    given = {"before": before.contiguous(), "momentum": momentum.contiguous(), "b": b.contiguous()}
    given |= {"A": A, "x": cuda.aligned(x), "z": z, "w": w, "gradient": gradient}
    kernel = cuda.kernel(*_build(n, points, device))
    arguments = {**given, "batch": batch, "m": m, "n": n, "R": rows}
    kernel((batch, blocks, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(n, points))
    return z, w, added_up(blocks, gradient)


extrapolated = torch.library.custom_op("sureprox::extrapolated", mutates_args=())(launch_extrapolated)


@extrapolated.register_fake
def _(A: Tensor, x: Tensor, before: Tensor, momentum: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = before.shape
    return before.new_empty(shape), before.new_empty(shape), x.new_empty(x.shape)


def extrapolate(stack: Stacked, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """`Stacked.ahead` of least squares from one read of A."""
    A, b = dense(stack.problem)
    found: tuple[Tensor, Tensor, Tensor] = cuda.direct(extrapolated, launch_extrapolated)(
        A, stack.centred(x), before, momentum, b
    )
    return found


def look(stack: Stacked, x: Tensor) -> tuple[Tensor, Tensor]:
    """`Stacked.look` of least squares from one read of A."""
    before, momentum = x.new_zeros(*x.shape[:2], dense(stack.problem)[0].shape[1]), x.new_zeros(x.shape[:2])
    z, _, g = extrapolate(stack, x, before, momentum)
    return z, g


def builds(form: Form, points: Iterable[int]) -> list[cuda.Build]:
    """What `extrapolate` needs for this number of points; nothing where it is not made for the form."""
    wanted = list(points)
    if not all(count <= MOST_POINTS and suits(form, count, MOST_COLUMNS) for count in wanted):
        return []
    return [_build(form.n, count, cuda.index(form.device)) for count in wanted]
