"""The last digits of a LASSO solution whose support and signs are known: one linear system instead of iterations."""

import torch
from torch import Tensor

from sureprox.optimizers.base import State
from sureprox.problems import L1, LeastSquares, Problem, WeightedL1
from sureprox.types import Vectors

CHUNK = 2**22  # entries of gathered columns and normal matrices held at a time, if a run has such an amount to spare
MEASURED = 8  # products with A that measuring a point costs: two certificates, in float64


def can_polish(problem: Problem) -> bool:
    """Whether `polished` applies: least squares with an L1 penalty, weighted or not, on any device."""
    f, r = problem.f, problem.r
    if type(problem) is not Problem or type(f) is not LeastSquares or type(r) not in (L1, WeightedL1):
        return False
    return f.copies == 1


@torch.no_grad()
def polished(problem: Problem, x: Vectors, rows: Tensor | None = None) -> Tensor:
    """(R, n) in float64: for the instances `rows`, by default all, the solution if it has the support and signs of x.

    With S the coordinates at which r has a slope s (x_j != 0, or no penalty on x_j), the solution with this support and
    these signs has A_S'(A_S x_S - b) + s_S = 0, that is

        G_SS x_S = A_S'b - s_S,   G = A'A,

    a Cholesky factorization in float64. The step is repeated with the gradient that is left, computed from A_S itself:
    the digits that forming G_SS has cost come back. A coordinate that comes out with the other sign becomes zero. What
    the point is worth, a certificate has to say.

    Each instance alone; x itself where S is empty or larger than m, or where A_S has no full rank. The columns A_S are
    gathered in the precision of the problem: A is never copied.
    """
    f = problem.f
    assert isinstance(f, LeastSquares)
    if rows is None:
        rows = torch.arange(problem.batch, device=problem.device)
    y, r = problem.centred(x)[rows], problem.r.select(rows)
    low, high = r.subdiff(y)
    inside, slope = low == high, low.double()
    size = inside.sum(1)
    size = torch.where(size <= f.m, size, 0)
    sizes, order = size.sort(descending=True, stable=True)
    found = y.double()
    most = CHUNK if problem.device.type == "cpu" else 8 * CHUNK  # a GPU has more of it, and wants more at a time
    room = min(most, max(f.A.numel() // 8, 2 * problem.batch * (f.m + problem.n)))
    for part, width in _parts(order, sizes.tolist(), f.m, room):
        chosen = inside[part].to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :width]
        here = inside[part].gather(1, chosen)
        columns = _columns(f.A, rows[part], chosen, here)
        z, solved = _on_support(columns, f.b[rows[part]].double(), slope[part].gather(1, chosen) * here, here)
        z = torch.where(slope[part].gather(1, chosen) * z < 0, 0.0, z)
        point = torch.zeros_like(found[part]).scatter(1, chosen, z)
        found[part] = torch.where(solved.unsqueeze(1), point, found[part])
    return found if problem.shift is None else found - problem.shift[rows].double()


def _parts(order: Tensor, sizes: list[int], m: int, room: int) -> list[tuple[Tensor, int]]:
    """Instances to be solved together, and the width they share: as many as have `room`, none half as wide as another.

    `sizes` of the supports fall; instances without one are left out.
    """
    parts, start = [], 0
    while start < len(sizes) and sizes[start] > 0:
        width = sizes[start]
        stop = start + max(1, room // (width * (m + 2 * width)))
        stop = next((i for i in range(start + 1, min(stop, len(sizes))) if 2 * sizes[i] < width), min(stop, len(sizes)))
        parts.append((order[start:stop], width))
        start = stop
    return parts


def _columns(A: Tensor, rows: Tensor, chosen: Tensor, here: Tensor) -> Tensor:
    """(R, m, k) in float64: the columns `chosen` (R, k) of each instance, zero where not `here`."""
    if A.ndim == 2:
        columns = A.mT[chosen].mT
    else:
        height = torch.arange(A.shape[1], device=A.device).view(1, -1, 1)
        columns = A[rows.view(-1, 1, 1), height, chosen.unsqueeze(1)]
    return columns.double().mul_(here.unsqueeze(1))


def _on_support(columns: Tensor, b: Tensor, slope: Tensor, here: Tensor) -> tuple[Tensor, Tensor]:
    """z (R, k) with C'(C z - b) + slope = 0, zero where not `here`, and (R,) whether it could be computed."""
    gram = columns.mT @ columns
    gram.diagonal(dim1=1, dim2=2).add_(~here)
    factor, failed = torch.linalg.cholesky_ex(gram)
    z = torch.zeros_like(slope)
    for _ in range(2):
        left = b - (columns @ z.unsqueeze(2)).squeeze(2)
        right = (columns.mT @ left.unsqueeze(2)).squeeze(2) - slope
        z = z + torch.cholesky_solve(right.unsqueeze(2), factor).squeeze(2)
    return z, (failed == 0) & torch.isfinite(z).all(1)


class Polish:
    """Which instances of a run are worth a `polished` point.

    Those whose signs have not changed in the last iteration and are not those of their last attempt, if they can
    afford it: an iteration costs 2 m n, an attempt k^2 m for G_SS, k being the size of S, and 8 m n for measuring the
    point, and all attempts of an instance together may cost as much as its iterations. An instance that float32 takes
    no further gets its attempt whatever it costs.
    """

    def __init__(self, problem: Problem) -> None:
        device = problem.device
        self.tried = torch.ones(problem.batch, problem.n, dtype=torch.int8, device=device)  # no signs look like this
        self.spent = torch.zeros(problem.batch, dtype=torch.int64, device=device)  # in units of m

    def points(
        self, problem: Problem, rows: Tensor, state: State, before: Vectors, running: Tensor, stalled: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which of the rows of `problem`, the instances `rows` of the run, are worth it, and a point for each of these.

        `before` is where they were an iteration ago; `running` and `stalled` (R,): those in question, those that can go
        no further.
        """
        assert isinstance(problem.f, LeastSquares)
        signs, size = _signs(problem, state.x)
        steady = (signs == _signs(problem, before)[0]).all(1)
        cost = size.square() + MEASURED * problem.n
        affordable = self.spent[rows] + cost <= 2 * problem.n * state.k
        due = running & (size > 0) & (size <= problem.f.m) & (stalled | (steady & affordable))
        due &= (signs != self.tried[rows]).any(1)
        index = due.nonzero()[:, 0]
        self.tried[rows[index]] = signs[index]
        self.spent[rows[index]] += cost[index]
        return index, polished(problem, state.x, index)

    def continued(self, index: Tensor) -> "Polish":
        """For another run of the instances in `index`: what was tried is known, what it cost is forgotten."""
        part = object.__new__(Polish)
        part.tried, part.spent = self.tried[index], torch.zeros_like(self.spent[index])
        return part


def _signs(problem: Problem, x: Vectors) -> tuple[Tensor, Tensor]:
    """(B, n) in int8, the sign of every coordinate that the penalty holds to it, else 0; and (B,) the size of S."""
    low, high = problem.subdiff(x.detach())
    return (low.sign() + high.sign()).to(torch.int8), (low == high).sum(1)
