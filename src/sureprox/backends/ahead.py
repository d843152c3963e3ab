"""The products of a certified iteration with one read of A instead of two, on an NVIDIA GPU."""

import torch
from torch import Tensor

from sureprox.backends import cpu_certified, cuda
from sureprox.backends.normal import (
    THREADS,
    added_up,
    fewer_reads_possible,
    parts,
    rows_per_block,
    shape_of,
    shared_memory,
)
from sureprox.fast import offer
from sureprox.problems import LeastSquares, Problem
from sureprox.problems.stacked import Stacked

MOST_COLUMNS = 512  # beyond, three points no longer fit into the registers of a warp
MOST_POINTS = 3


def _build(n: int, points: int, device: int) -> tuple[str, str, cuda.Macros, int, int]:
    """What to compile for n columns and so many points."""
    return "ahead.cu", "ahead", (*shape_of(n, points), ("POINTS", points)), device, shared_memory(n, points)


def launch_ahead(A: Tensor, x: Tensor, before: Tensor, momentum: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """z = A x - b (B, K, m), w = z + momentum (z - before), A'w (B, K, n); A (B, m, n), x (B, K, n), b (B, m)."""
    batch, m, n = A.shape
    points, device = x.shape[1], A.device.index
    rows = rows_per_block(batch, m, device)
    blocks = -(-m // rows)
    z, w = before.new_empty(before.shape), before.new_empty(before.shape)
    gradient = parts(blocks, x)
    given = [cuda.aligned(x), *(value.contiguous() for value in (before, momentum, b))]
    kernel = cuda.kernel(*_build(n, points, device))
    arguments = [A, *given, z, w, gradient, batch, m, n, rows]
    kernel((batch, blocks, 1), (THREADS, 1, 1), arguments, shared_mem=shared_memory(n, points))
    return z, w, added_up(blocks, gradient)


ahead = torch.library.custom_op("sureprox::ahead", mutates_args=())(launch_ahead)


@ahead.register_fake
def _(A: Tensor, x: Tensor, before: Tensor, momentum: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    shape = before.shape
    return before.new_empty(shape), before.new_empty(shape), x.new_empty(x.shape)


def look(stack: Stacked, x: Tensor) -> tuple[Tensor, Tensor] | None:
    """`Stacked.look` from one read of A."""
    problem, f = stack.problem, stack.problem.f
    if type(f) is not LeastSquares or type(problem) is not Problem or f.copies != 1 or problem.requires_grad:
        return None
    before, momentum = x.new_zeros(*x.shape[:2], f.m), x.new_zeros(x.shape[:2])
    if x.device.type == "cpu":
        found = cpu_certified.ahead(stack, x, before, momentum)
    elif can_look_ahead(f.A, stack.count):
        found = launch_ahead(f.A, stack._centred(x), before, momentum, f.b)
    else:
        return None
    return None if found is None else (found[0], found[2])


class OneRead(Stacked):
    """The same points of the same least-squares problem; `ahead` comes from the kernel."""

    def __init__(self, stack: Stacked, f: LeastSquares) -> None:
        self.problem, self.count, self.linear, self.r = stack.problem, stack.count, stack.linear, stack.r
        self.A, self.b = f.A, f.b

    def ahead(self, x: Tensor, before: Tensor, momentum: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        look = cuda.direct(ahead, launch_ahead)
        found: tuple[Tensor, Tensor, Tensor] = look(self.A, self._centred(x), before, momentum, self.b)
        return found


def can_look_ahead(A: Tensor, points: int) -> bool:
    """Whether `ahead` is made for this A and so many points."""
    n = A.shape[-1]
    if points > MOST_POINTS or n > MOST_COLUMNS or not fewer_reads_possible(A, points):
        return False
    return cuda.can_build(*_build(n, points, cuda.index(A.device)))


def one_read(stack: Stacked) -> Stacked:
    """The same, with fewer reads of A where that is possible."""
    problem, f = stack.problem, stack.problem.f
    if type(f) is not LeastSquares or type(problem) is not Problem or problem.requires_grad:
        return stack
    return OneRead(stack, f) if can_look_ahead(f.A, stack.count) else stack


offer(Stacked, "look", look)
