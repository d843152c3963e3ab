"""The last digits of a solution whose support is nearly known: small linear systems instead of iterations."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.operations import PLAIN, Operations
from sureprox.base.types import Vectors
from sureprox.problems import Problem
from sureprox.problems.batch import taken
from sureprox.problems.forms import Form, Loss, Shape, dense, form_of, has_proximal_points
from sureprox.support.face import newton_points
from sureprox.support.proximal import WIDEST, proximal_points

CHUNK = 2**22  # entries of gathered columns and normal matrices held at a time, if a run has such an amount to spare
ROUNDS = 6  # supports that are tried one after the other
SLACK = 1e-9  # relative, by which |g_j| must exceed lam_j: the twin of a column in the support has |g_j| = lam_j
PATIENCE = 300  # iterations after which proximal points are tried, and half of the rows of A if these are more
NEVER = 2**62
MEASURED = 8  # products with A that measuring a point costs: two certificates, in float64


def is_lasso(form: Form) -> bool:
    """Least squares with an L1 penalty, weighted or not: its normal matrices need no point, and there are kernels."""
    return form.loss is Loss.SQUARES and form.penalty in (Shape.L1, Shape.WEIGHTED_L1)


def can_polish(form: Form) -> bool:
    """Whether `polished` applies: a loss and a penalty of this package but balls, with a dense A, on any device."""
    known = form.penalty is not Shape.OWN and form.penalty is not Shape.BALLS
    return form.loss is not Loss.OWN and form.m > 0 and known


@torch.no_grad()
def polished(
    problem: Problem, x: Vectors, g: Vectors, rows: Tensor | None = None, operations: Operations = PLAIN
) -> Tensor:
    """(R, n) in float64: for the instances `rows`, by default all, the solution if its support is nearly that of x.

    x (R, n) are points of these, of any precision, g the gradients A'(A x - b) there, in float64. Let S be the
    coordinates at which r has a slope s (x_j != 0, or no penalty on x_j), and N all others. The solution with this S
    and these slopes is x + d with

        d_N = -x_N,   G_SS d_S = -(g_S + s_S) + G_SN x_N,   G = A'A,

    a Cholesky factorization in float64. Coordinates of S that come out with the other sign leave it, those of N with
    |g + G d|_j > lam_j join it, with the slope -lam_j sign(g + G d)_j, and the system is solved again: the primal-dual
    active set method, which is Newton's on x = prox(x - g). It ends when nothing changes, or after ROUNDS systems.

    The candidates for S are its first coordinates and, an eighth as many, those outside with the largest |g_j| / lam_j
    (`widths`): A is read once, to gather their columns. Whether another one should have joined, and what the point is
    worth, a certificate has to say; a second call, with the point and the gradient it has seen, then corrects the
    candidates, and gives the digits back that forming G has cost.

    Each instance alone; x itself where S is larger than m, or where some A_S has no full rank.

    That is for LASSO problems; for other losses and penalties it is `newton_points`.
    """
    if rows is None:
        rows = torch.arange(problem.batch, device=problem.device)
    if not is_lasso(form_of(problem)):
        return newton_points(problem.to(dtype=torch.float64).select(rows), x.double())
    return Attempt(problem, x, g, rows, operations).points()


def approached(problem: Problem, x: Vectors) -> Tensor:
    """(B, n) in float64: where proximal points lead from x, finished by Newton's method on the face."""
    return newton_points(problem, proximal_points(problem, x.double()))


@dataclass(frozen=True)
class Attempt:
    """What `polished` is given."""

    problem: Problem
    x: Vectors
    g: Vectors
    rows: Tensor
    operations: Operations = PLAIN

    def select(self, index: Tensor) -> "Attempt":
        """Of some of the instances."""
        return Attempt(self.problem, self.x[index], self.g[index], self.rows[index], self.operations)

    def widths(self, lam: Tensor) -> Tensor:
        """(R,) how many candidates each instance has, lam () or (B,) being the weights of an L1 penalty."""
        free = (lam if lam.ndim == 0 else lam[self.rows].unsqueeze(1)) == 0  # then all coordinates have a slope
        return widths(((self.x != 0) | free).sum(1), dense(self.problem)[0].shape[-2], self.problem.n)

    def divided(self, narrow: Tensor, quick: Callable[["Attempt"], Tensor]) -> Tensor:
        """`points`, by `quick` for those instances where `narrow` (R,) holds."""
        found = torch.empty_like(self.g, dtype=torch.float64)
        for mask, way in ((narrow, quick), (~narrow, Attempt.plain)):
            index = mask.nonzero()[:, 0]
            if len(index):
                found[index] = way(self.select(index))
        return found

    def points(self) -> Tensor:
        """See `polished`. A kernel may go on from there once more, as a second call would."""
        if self.operations.points is not None and len(self.rows):
            found: Tensor = self.operations.points(self)
            return found
        return self.plain()

    def plain(self) -> Tensor:
        """`points` in operations of PyTorch."""
        problem, rows, A = self.problem, self.rows, dense(self.problem)[0]
        m = A.shape[-2]
        values, ranked, size = _ranked(problem, self.x, self.g, rows)
        width = widths(size, m, problem.n)
        cpu = problem.device.type == "cpu"
        most, share = (CHUNK, 8) if cpu else (16 * CHUNK, 2)  # a GPU has more of it, and wants more at a time
        room = min(most, max(A.numel() // share, 2 * problem.batch * (m + problem.n)))
        found = values[0].clone()
        for part, widest in _sorted_parts(width, m, room) if cpu else _even_parts(width, m, room):
            chosen, place = ranked[part][:, :widest], torch.arange(widest, device=width.device)
            x, g, lam, pull = values[:, part].gather(2, chosen.expand(len(values), -1, -1))
            few, many = size[part].unsqueeze(1), width[part].unsqueeze(1)
            allowed = place < many
            limit = (lam * (1 + SLACK)).masked_fill(~allowed, torch.inf)
            on = (place < few) & allowed
            candidates = Candidates(_gram(A, rows[part], chosen), x, g, lam, pull, limit, on)
            way = self.operations.active_set
            z = candidates.active_set() if way is None else way(candidates)
            old, solved = found[part], torch.isfinite(z).all(1, keepdim=True) & (many > 0)
            found[part] = torch.where(solved, torch.zeros_like(old).scatter(1, chosen, z), old)
        return found if problem.shift is None else found - problem.shift[rows]


def _ranked(problem: Problem, x: Vectors, g: Vectors, rows: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """x, g, lam and minus the slopes in S, (4, R, n); the candidates in order, (R, n); the size of S."""
    y = x.double() if problem.shift is None else x.double() + problem.shift[rows]
    low, high = problem.r.select(rows).subdiff(y)
    inside = low == high
    values = torch.stack([y, g, high.abs(), -(low + high) / 2])
    score = torch.where(inside, torch.inf, values[1].abs() / values[2])
    return values, score.sort(dim=1, descending=True, stable=True).indices, inside.sum(1)


def widths(size: Tensor, m: int, n: int) -> Tensor:
    """How many candidates an instance with `size` coordinates in S has: none if these are more than m."""
    return torch.where(size <= m, _width(size, n), 0)


def _width(size: Tensor, n: int) -> Tensor:
    """So many, an eighth more, and 8."""
    return (size + size // 8 + 8).clamp(max=n)


def _sorted_parts(width: Tensor, m: int, room: int) -> list[tuple[Tensor, int]]:
    """Instances to be solved together, and the width they share: as many as have `room`, within a factor of two.

    Those with width zero are left out.
    """
    falling, order = width.sort(descending=True, stable=True)
    widths, parts, start = falling.tolist(), [], 0
    while start < len(widths) and widths[start] > 0:
        widest = widths[start]
        stop = min(start + _fitting(widest, m, room), len(widths))
        stop = next((i for i in range(start + 1, stop) if 2 * widths[i] < widest), stop)
        parts.append((order[start:stop], widest))
        start = stop
    return parts


def _even_parts(width: Tensor, m: int, room: int) -> list[tuple[slice, int]]:
    """The same as they come, all with the largest width: on a GPU, where order costs more than it saves."""
    widest = int(width.max())
    if not widest:
        return []
    each = _fitting(widest, m, room)
    return [(slice(start, start + each), widest) for start in range(0, len(width), each)]


def _fitting(width: int, m: int, room: int) -> int:
    """How many instances of so many candidates have `room`."""
    return max(1, room // (width * max(2 * m, 4 * width)))


def _gram(A: Tensor, rows: Tensor, chosen: Tensor) -> Tensor:
    """(R, k, k) in float64: A_W'A_W, W being the columns `chosen` (R, k) of each instance."""
    if A.ndim == 2 and A.shape[1] ** 2 <= chosen.numel() * chosen.shape[1]:
        whole = A.double()
        return (whole.mT @ whole)[chosen.unsqueeze(2), chosen.unsqueeze(1)]
    if A.ndim == 2:
        columns = A.mT[chosen].double()
        return columns @ columns.mT
    height = torch.arange(A.shape[1], device=A.device).view(1, -1, 1)
    columns = A[rows.view(-1, 1, 1), height, chosen.unsqueeze(1)].double()
    return columns.mT @ columns


@dataclass(frozen=True)
class Candidates:
    """The coordinates among which `polished` looks for the support, k of them for each of R instances, in float64."""

    gram: Tensor  # (R, k, k), G
    x: Tensor  # (R, k), as all that follow
    g: Tensor  # the gradient at x
    lam: Tensor
    pull: Tensor  # minus the slope in S, else zero
    limit: Tensor  # what |g| must exceed for a coordinate to join S
    on: Tensor  # bool: S

    def active_set(self) -> Tensor:
        """z (R, k), the point of `polished`: zero outside S, not finite where some A_S has no full rank."""
        still, on, pull = torch.stack([self.x, self.g, self.lam, self.limit]), self.on, self.pull
        todo = torch.arange(len(on), device=on.device)
        z, identity = torch.empty_like(self.x), torch.eye(on.shape[1], dtype=self.x.dtype, device=on.device)
        for _ in range(ROUNDS):
            x, g, lam, limit = still  # what no round changes
            G = self.gram if len(todo) == len(z) else self.gram[todo]
            factor, failed = torch.linalg.cholesky_ex(torch.where(on.unsqueeze(1) & on.unsqueeze(2), G, identity))
            left = x * ~on
            right = on * _product(G, left, pull - g)
            d = torch.cholesky_solve(right.unsqueeze(2), factor).squeeze(2) - left
            d = d.masked_fill((failed != 0).unsqueeze(1), torch.nan)  # and nothing changes any more
            there, slope = x + d, _product(G, d, g)
            leaves, joins = pull * there > 0, (slope.abs() > limit) & ~on
            z[todo] = there.masked_fill(leaves, 0)
            changes = leaves | joins
            more = changes.any(1).nonzero()[:, 0]
            if not len(more):
                break
            on = on ^ changes
            pull = (torch.where(joins, lam.copysign(slope), pull) * on)[more]
            on, todo, still = on[more], todo[more], still[:, more]
        return z


def _product(G: Tensor, v: Tensor, plus: Tensor) -> Tensor:
    """G v + plus."""
    return torch.baddbmm(plus.unsqueeze(2), G, v.unsqueeze(2)).squeeze(2)


class Polish:
    """Which instances of a run are worth a `polished` point.

    Those whose signs are not those of their last attempt, if they can afford it: in multiplications, an iteration costs
    m n for each of its `products` with A, an attempt k^2 m for G, k being the number of candidates, and 8 m n for
    measuring the point, and all attempts of an instance together may cost as much as its iterations. What fails is
    tried once more from where it came out, on credit: nearly always that is enough. Where the loss is not squares, an
    attempt may have begun too far off, and twice as many iterations are a reason for another one. An instance that
    float32 takes no further gets its attempt whatever it costs.

    What is left after `PATIENCE` iterations is `approached`, which takes about a hundred systems, but begins anywhere.
    """

    def __init__(self, problem: Problem, products: int) -> None:
        device, form = problem.device, form_of(problem)
        self.products = products
        self.rows = form.m
        self.is_lasso = is_lasso(form)
        self.last = torch.zeros(problem.batch, dtype=torch.int64, device=device)  # iterations before the last attempt
        self.tried = torch.full((problem.batch, problem.n), 2, dtype=torch.int8, device=device)  # no signs at all
        self.spent = torch.zeros(problem.batch, dtype=torch.int64, device=device)  # in units of m
        fits = min(form.m, form.n) <= WIDEST and has_proximal_points(problem)
        first = max(PATIENCE, form.m // 2) if fits else NEVER
        self.approach = torch.full_like(self.last, first)  # iterations before the next of these attempts

    def due(
        self, problem: Problem, rows: Tensor, x: Vectors, k: int, wanted: Tensor, stalled: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Which rows of `problem`, the instances `rows` of the run, are worth an attempt from x, and what each costs.

        `wanted` and `stalled` (R,): those in question, those that can go no further, all after k iterations.
        """
        signs, size = _signs(problem, x)
        cost = _width(size, problem.n).square() + MEASURED * problem.n
        affordable = taken(self.spent, rows) + cost <= self.products * problem.n * k
        # A system of squares is exact where the signs are right; Newton's method for others may have begun too far off.
        again = (2 * taken(self.last, rows) <= k) & (not self.is_lasso)
        due = (
            wanted
            & ((size <= self.rows) | (not self.is_lasso))
            & (stalled | affordable)
            & ((signs != taken(self.tried, rows)).any(1) | again)
        )
        index = due.nonzero()[:, 0]
        self.last[rows[index]] = k
        if len(index) == len(self.tried):
            self.tried = signs
        else:
            self.tried[rows[index]] = signs[index]
        return index, taken(cost, index)

    def overdue(self, rows: Tensor, k: int, wanted: Tensor) -> Tensor:
        """Which of the `rows` of the run, where `wanted` (R,), are to be `approached` after k iterations."""
        index = (wanted & (taken(self.approach, rows) <= k)).nonzero()[:, 0]
        self.approach[rows[index]] = 2 * k
        return index

    def charge(self, rows: Tensor, cost: Tensor) -> None:
        """An attempt is made for the instances `rows` of the run."""
        self.spent[rows] += cost

    def continued(self, index: Tensor) -> "Polish":
        """For another run of the instances in `index`: what was tried is known, what it cost is forgotten."""
        part = object.__new__(Polish)
        part.products, part.rows, part.is_lasso = self.products, self.rows, self.is_lasso
        part.last, part.approach = torch.zeros_like(self.last[index]), self.approach[index]
        part.tried, part.spent = self.tried[index], torch.zeros_like(self.spent[index])
        return part


def _signs(problem: Problem, x: Vectors) -> tuple[Tensor, Tensor]:
    """(B, n) in int8, on which side of r's kink, or at which bound, every coordinate is, else 0; (B,) the size of S."""
    if form_of(problem).penalty is Shape.GROUPS:
        signs = (x if problem.shift is None else x + problem.shift).sign().to(torch.int8)
        return signs, (signs != 0).sum(1)
    low, high = problem.r.subdiff(x if problem.shift is None else x + problem.shift)
    return (low + high).nan_to_num(nan=0.0).sign().to(torch.int8), (low == high).sum(1)
