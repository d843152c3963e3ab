"""Sparse solutions, exactly: working sets that grow by what is most violated, and Newton steps on their support."""

from dataclasses import dataclass
from math import sqrt
from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import Form, Loss, Pieces, Shape, is_logistic, pieces_of, sparse_entries
from sureprox.problems.problem import Certificate
from sureprox.problems.smooth import LinearModel

MOST = 2048  # coordinates of a working set
ROUNDS = 60  # working sets
EPOCHS = 400  # of coordinate descent on one of them
LEAST, SHARE = 16, 1.5  # so many coordinates join at a time, and this times sqrt(n), if so many are violated,
MANY = 512  # or up to so many of a sparse A
SPARE = 0.9  # of the tolerance, so that rounding does not undo what was reached
LOOSE = 0.3  # of the tolerance, for the gradient where r has neither cost nor bounds
FREE = 512  # coordinates: up to here a working set may hold all of them, as it must without a penalty
SMALL = 1e-12  # of |g_j|: what rounding leaves of a violation
FLATTEST = 1e-6  # of the largest curvature of a row: none of a model is less
LENGTHS = 30  # powers of 1/2 of a step to the minimum of a model
LEVEL = 4e-15  # relative: differences of F that are rounding
FLAT = 1e-9  # of its terms: less of a slope is rounding
DEPENDS = 1e-11  # of a column's square: with less of it left, the column depends on others


def has_working_sets(form: Form) -> bool:
    """Whether `solved` applies and pays: least squares or a logistic loss, both without weights, with a dense or sparse
    A, a separable penalty, a CPU."""
    dense = form.loss is not Loss.OWN and form.m > 0 and form.contiguous
    loss = form.loss if dense else form.sparse_loss
    fits = form.separable and (form.penalty is not Shape.ZERO or (loss is Loss.SQUARES and form.n <= FREE))
    known = loss in (Loss.SQUARES, Loss.LOGISTIC) and not form.weighted and not form.shifted
    return known and fits and form.device.type == "cpu" and form.dtype in (torch.float32, torch.float64)


class Found(NamedTuple):
    """Points (B, n), and what is known there, all in float64."""

    x: Vectors
    seen: Certificate


@torch.no_grad()
def solved(problem: Problem, tol: float, floor: float, start: Vectors | None = None, chain: int = 1) -> Found:
    """(B, n) in float64: points whose duality gap is at most tol max(F - gap, floor |b|^2 / 2), or the best found.

    Let W be a set of coordinates, x zero beyond it. min_x F(x) on W is solved by coordinate descent in terms of
    G = A_W'A_W and q = A_W'(A x - b),

        x_j+ = clip(S(G_jj x_j - q_j, l1_j) / (G_jj + l2_j), low_j, high_j),   q+ = q + G_j (x_j+ - x_j),

    and by Newton steps for the coordinates where r has a slope. Then g = A'(A x - b) is computed from A itself. With
    v_j the distance of -g_j to the subdifferential of r_j, the coordinates beyond W with the largest
    v_j^2 / (|a_j|^2 + l2_j) join, twice what each would lower F by alone: as many as x has already, at least
    1.5 sqrt(n). So most of A is read a few times only. Of a sparse A, of whose entries a share d is stored, the
    products of columns cost less beside such a read: at least 1.5 sqrt(n / d) join, up to 512.

    Another loss than squares is replaced in each round by its quadratic model at x, with phi'' at least 1e-6 of its
    largest value, and x moves towards the minimum of that: the longest of 1, 1/2, 1/4, ... of the way that lowers F.
    Near the solution, where F tells no difference any more, all of it.

    It starts at zero or at `start`; in a `chain` of instances, which lie one after the other and have the same A, from
    the solution of the one before. What a point is worth, a certificate has to say.

    The kernel is the same with less work: it solves W no better than its own gap asks for, leaves columns that depend
    on others out of a Newton step, keeps the Cholesky factor of one for the next, and returns numbers of the problem's
    precision where these are good enough. A chain is solved to 1e-6 at least, since from near the path the next point
    is a short step away: a Newton step, with which it begins.
    """
    exact = problem.to(dtype=torch.float64)
    pieces = Pieces(*(part.expand(problem.batch, problem.n) for part in pieces_of(exact)))
    x = torch.zeros(problem.batch, problem.n, dtype=torch.float64) if start is None else start.double()
    found: list[Tensor] = []
    for i in range(problem.batch):
        one = Instance(exact.select(torch.tensor([i])), Pieces(*(part[i] for part in pieces)))
        found.append(one.solved(found[-1] if i % chain else x[i], tol, floor))
    points = torch.stack(found)
    return Found(points, exact.certificate(points))


@dataclass(frozen=True)
class Instance:
    """One of a batch, and its penalty as (n,)."""

    problem: Problem
    r: Pieces

    @property
    def f(self) -> LinearModel:
        assert isinstance(self.problem.f, LinearModel)
        return self.problem.f

    def solved(self, x: Tensor, tol: float, floor: float) -> Tensor:
        x = x.clamp(self.r.low, self.r.high)
        rows = torch.ones(1, self.f.m, dtype=torch.float64)
        W, squares, stuck, still = x != 0, self.f.map.column_squares(rows)[0], 0, True
        tiny = LOOSE * tol * float(self._slope(x).abs().max())
        worth = floor * float(self.f.value(torch.zeros_like(x).unsqueeze(0)))
        usual = self._usual()
        for _ in range(ROUNDS):
            if self._solves(x, tol, worth, tiny):
                return x
            g = self._slope(x)
            v = self.problem.r.distance(x.unsqueeze(0), g.unsqueeze(0))[0]
            v = torch.where(W | (v <= SMALL * g.abs()), 0.0, v)
            count = max(usual, int((x != 0).sum()))
            more = (v.square() / (squares + self.r.l2)).nan_to_num(nan=0.0).topk(min(count, int((v > 0).sum()))).indices
            stuck = stuck + 1 if still and not len(more) else 0
            if stuck > 2 or int(W.sum()) + len(more) > MOST:
                return x
            W[more] = True
            index = W.nonzero()[:, 0]
            part = Restricted(self._hessian(x, index), Pieces(*(of[index] for of in self.r)))
            x, still = self._towards(x, x.index_copy(0, index, part.solved(x[index], g[index])))
        return x

    def _usual(self) -> int:
        """How many join at a time, at least."""
        m, n = self.f.m, self.f.n
        entries, root = sparse_entries(self.problem), SHARE * sqrt(n)
        thin = 1.0 if entries is None else sqrt(m * n / max(1, entries))
        return max(LEAST, int(max(root, min(root * thin, MANY))))

    def _slope(self, x: Tensor) -> Tensor:
        return self.f.grad(x.unsqueeze(0))[0]

    def _hessian(self, x: Tensor, index: Tensor) -> Tensor:
        """Of f at x, or of its model."""
        columns = self.f.map.columns(index.unsqueeze(0))
        if not is_logistic(self.problem):
            return columns[0].mT @ columns[0]
        root = self.f.hessian_root(x.unsqueeze(0), torch.ones_like(columns[:, :, :1]))[0]
        D = root.square()
        weighted = D.clamp(min=FLATTEST * float(D.max())).sqrt() * columns[0]
        return weighted.mT @ weighted

    def _towards(self, x: Tensor, there: Tensor) -> tuple[Tensor, bool]:
        """The longest of 1, 1/2, 1/4, ... times the way that lowers F, or all of it where F tells no difference.

        x where there is none; and whether F stays as it is but for rounding. Squares are their own model.
        """
        if not is_logistic(self.problem):
            return there, True
        now = self._value(x)
        rounding = LEVEL * abs(now)
        for k in range(LENGTHS):
            point = there if k == 0 else x + 0.5**k * (there - x)
            value = self._value(point)
            if value < now - rounding:
                return point, False
            if k == 0 and value <= now + rounding:
                return point, True
        return x, True

    def _value(self, x: Tensor) -> float:
        return float(self.problem.objective(x.unsqueeze(0)))

    def _solves(self, x: Tensor, tol: float, worth: float, tiny: float) -> bool:
        """By the gap, or, where r leaves coordinates loose so that it says nothing, by the gradient."""
        seen = self.problem.certificate(x.unsqueeze(0))
        if bool(((self.r.l1 == 0) & (self.r.l2 == 0) & (self.r.low.isinf() | self.r.high.isinf())).any()):
            return float(seen.kkt) <= tiny
        return bool(seen.gap <= SPARE * tol * max(float(seen.objective - seen.gap), worth))


@dataclass(frozen=True)
class Restricted:
    """The problem on a working set: its normal matrix (k, k) and its penalty."""

    G: Tensor
    r: Pieces

    def solved(self, x: Tensor, q: Tensor) -> Tensor:
        """From x with the gradient q: until no coordinate changes its side after a whole Newton step."""
        x, q, reached = x.clone(), q.clone(), False
        for _ in range(EPOCHS):
            before = self._sides(x)
            for j in range(len(x)):
                by = self._best(x, q, j) - x[j]
                if by != 0:
                    x[j] += by
                    q += by * self.G[j]
            if reached and torch.equal(self._sides(x), before):
                break
            for _ in range(len(x) + 1):
                move, reached = self._newton(x, q)
                x, q = x + move, q + self.G @ move
                if reached:
                    break
        return x.clamp(self.r.low, self.r.high)

    def _best(self, x: Tensor, q: Tensor, j: int) -> Tensor:
        h = self.G[j, j] + self.r.l2[j]
        if not h > 0:
            return x[j]
        v = self.G[j, j] * x[j] - q[j]
        soft = v - v.clamp(-self.r.l1[j], self.r.l1[j])
        return (soft / h).clamp(self.r.low[j], self.r.high[j])

    def _sides(self, x: Tensor) -> Tensor:
        """Which piece of r each coordinate is on: 1 or -1; 2 or -2 at a bound, 3 at the kink; 0 where there is none."""
        kink = torch.where(x == 0, 3.0, x.sign()) * (self.r.l1 > 0)
        return torch.where(x <= self.r.low, -2.0, torch.where(x >= self.r.high, 2.0, kink))

    def _newton(self, x: Tensor, q: Tensor) -> tuple[Tensor, bool]:
        """The move to the solution with these slopes, and True, if they last so long.

        Else what is lower: the move as far as they last, or its projection on where they do.
        """
        sides = self._sides(x)
        on = (sides.abs() <= 1).nonzero()[:, 0]
        if not len(on):
            return torch.zeros_like(x), True
        G, r, y = self.G[on][:, on], Pieces(*(of[on] for of in self.r)), x[on]
        slope = q[on] + r.l2 * y + r.l1 * sides[on]
        H = G + torch.diag(r.l2)
        d = -torch.linalg.pinv(H, hermitian=True, rtol=DEPENDS) @ slope
        left, flat = slope + H @ d, False
        if bool(left.abs().max() > FLAT * (q[on].abs() + r.l1).max()):  # r has a slope where A_W sees nothing
            d, flat = -left, True
        kink = r.l1 > 0
        low = torch.where(kink & (y > 0), r.low.clamp(min=0), r.low)
        high = torch.where(kink & (y < 0), r.high.clamp(max=0), r.high)
        shares = torch.where(d == 0, torch.inf, (torch.where(d < 0, low, high) - y) / d)
        until, first = shares.min(0)
        if until >= 1 and not flat:
            return torch.zeros_like(x).index_copy(0, on, d), True
        if flat and bool(until.isinf()):
            return torch.zeros_like(x), False
        partly, whole = until * d, (y + d).clamp(low, high) - y
        partly[first] = torch.where(d[first] < 0, low[first], high[first]) - y[first]
        lower = partly if flat else min((partly, whole), key=lambda by: float(by @ slope + by @ H @ by / 2))
        return torch.zeros_like(x).index_copy(0, on, lower), False
