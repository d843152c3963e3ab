"""The proximal point method, each point by Newton's method on its dual: from any start, where others stand still.

With z = inner(x) and f(x) = sum_i o_i phi(z_i), points x with x+ the minimum of

    P(y) = F(y) + |y - x|^2 / (2 sigma) + sum_i o_i (inner(y) - z)_i^2 / (2 tau),   sigma and tau growing,

lower F in every step, and in the end as quickly as Newton's method. P is minimised through its dual, a smooth function
of u (m,) wherever F has kinks, lines or flat parts: with grad f = A'(c phi'), J the derivative of prox_{sigma r} and

    y = prox_{sigma r}(x - sigma A'(c u)),   v = prox_{tau phi}(z + tau u),   p = tau / (1 + tau phi''(v)),

its gradient is o (v - inner(y)), its Hessian diag(o p) + sigma diag(c) A J A' diag(c): one linear system of the size of
m, or of the number of coordinates that move. (Semismooth Newton augmented Lagrangians, Li, Sun and Toh, 2018.)
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import Problem
from sureprox.problems.forms import Shape, form_of, groups_of, pieces_of, rows_of

WIDEST = 2048  # rows and coordinates: up to here systems of the smaller number of them are solved
TOGETHER = 2**21  # entries of A that are read in one go
FIRST, GROWTH, MOST = 1e3, 10.0, 1e10  # sigma in units of 1/L, tau in those of 1/phi''
POINTS, STEPS, CUTS = 20, 100, 25  # proximal points, Newton steps for each, lengths that are tried for one of these
EXACT = 0.1  # of |x+ - x|^2/2 in the metric: by so much P may miss its minimum
TURNED = 0.1  # of the slope along a Newton step: so little of it may be left where it ends
CLOSE = 1e-8  # a gap relative to F: close enough for Newton's method on the face
ROUNDING = 1e-14  # relative: F has fallen by no more


@torch.no_grad()
def proximal_points(problem: Problem, x: Vectors) -> Vectors:
    """(B, n) points with F no higher than at x, whose duality gaps are 1e-8 F wherever rounding allows; in float64."""
    y = problem.centred(x)
    count = max(1, TOGETHER // (form_of(problem).m * problem.n))
    found = [
        Proximal(Problem(part.f, part.r), y[index]).minimum()
        for index in torch.arange(problem.batch, device=y.device).split(count)
        for part in [problem.select(index)]
    ]
    return problem.uncentred(torch.cat(found))


class Proximal:
    """R problems on their way, each alone; all of them take part in products with A until the last one is solved."""

    def __init__(self, problem: Problem, x: Vectors) -> None:
        f = rows_of(problem)
        self.problem, self.f, self.r = problem, f, problem.r
        self.maps = [f.select(torch.tensor([i], device=x.device)).map for i in range(len(x))]
        self.x, self.z = x, f.inner(x)
        self.constant = f.inner(torch.zeros_like(x))
        self.shares = f.row_shares
        root = self.shares.sqrt()
        self.inverse = torch.where(root > 0, 1 / torch.where(root > 0, root, 1.0), 0.0)
        self.root, self.factors = root, f.row_factors * self.inverse
        self.kappa = torch.full_like(x[:, 0], FIRST)
        L, curvature = f.lipschitz(), f.row_curvature.mean(1) / self.shares.mean(1)
        self.sigma_unit, self.tau_unit = (1 / value.clamp(min=torch.finfo(x.dtype).tiny) for value in (L, curvature))

    def minimum(self) -> Vectors:
        seen = self.problem.certificate(self.x)
        value = seen.objective
        live = torch.isfinite(value) & torch.isfinite(MOST * (self.sigma_unit + self.tau_unit))
        at = self._at(self.f.slopes(self.z))
        points, steps = torch.zeros_like(self.kappa), torch.zeros_like(self.kappa)
        while bool(live.any()):
            reached = live & (at.missed <= EXACT * at.moved + ROUNDING * value.abs())
            lost = live & ~reached & (steps >= STEPS)
            ends = reached | lost
            if bool(ends.any()):
                seen = self.problem.certificate(at.y)
                better = ends & (seen.objective <= value)
                still = seen.objective >= value * (1 - ROUNDING)
                self.x = torch.where(better.unsqueeze(1), at.y, self.x)
                self.z = torch.where(better.unsqueeze(1), self.f.inner(at.y), self.z)
                value = torch.where(better, seen.objective, value)
                points, steps = points + ends, torch.where(ends, 0.0, steps)
                solved = (seen.gap <= CLOSE * seen.objective.abs()) | still | lost | (points >= POINTS)
                live = live & ~(ends & solved)
                self.kappa = torch.where(ends, (GROWTH * self.kappa).clamp(max=MOST), self.kappa)
                at = self._at(at.u)
                continue
            d = self._newton(at, live)
            live = live & torch.isfinite(d).all(1)
            at = self._searched(torch.where(live.unsqueeze(1), d, 0.0), at)
            steps = steps + 1
        return self.x

    @property
    def sigma(self) -> Tensor:
        return (self.kappa * self.sigma_unit).unsqueeze(1)

    @property
    def tau(self) -> Tensor:
        return (self.kappa * self.tau_unit).unsqueeze(1)

    def _at(self, u: Rows) -> "At":
        u = self.f.row_lift(u, self.z, self.tau)
        y, v = self._primal(u)
        image = self.f.inner(y)
        left, tau = image - v, self.tau
        far = self.shares * (image - self.z).square() / tau
        return At(
            u,
            y,
            v,
            left,
            missed=self.f.bregman(left, v) + (self.shares * left.square() / tau).sum(1) / 2,
            moved=((y - self.x).square() / self.sigma).sum(1) / 2 + far.sum(1) / 2,
        )

    def _primal(self, u: Rows) -> tuple[Vectors, Rows]:
        """y and v."""
        y = self.r.prox(self.x - self.sigma * self.f.dual_grad(u), self.sigma)
        return y, self.f.row_prox(self.z + self.tau * u, self.tau)

    def _newton(self, at: "At", live: Tensor) -> Rows:
        """d with [P + B B'] (o^1/2 d) = o^1/2 (inner(y) - v), B = diag(c / o^1/2) A J^1/2, one after the other.

        P is diag(p), and for losses of several numbers a row a matrix for each of these.
        """
        p, beside = self.f.row_turns(at.v, self.tau)
        size, across = _bends(self.problem, at.y, self.sigma)
        right, d = self.root * at.left, torch.zeros_like(p)
        for i in live.nonzero()[:, 0].tolist():
            on = size[i].nonzero()[:, 0]
            B = self.factors[i].unsqueeze(1) * self.maps[i].columns(on.unsqueeze(0))[0]
            parts = [B * size[i, on].sqrt()]
            if across is not None:
                parts.append(B @ across[i][:, on].mT)
            if beside is not None:
                parts.append(torch.diag_embed(beside[i]).flatten(0, 1))
            d[i] = _solved(p[i], torch.cat(parts, 1), right[i])
        return self.inverse * d

    def _searched(self, d: Rows, at: "At") -> "At":
        """u + t d with t = 1, or, where the dual rises there, with a slope along d that is nearly zero.

        The slope is monotone in t, and needs no product with A.
        """
        weighted, g = self.shares * d, self.f.dual_grad(d)
        u, base = at.u, self.f.dual_grad(at.u)
        fixed = (weighted * self.constant).sum(1)

        def slope(t: Tensor) -> Tensor:
            step = t.unsqueeze(1)
            y = self.r.prox(self.x - self.sigma * (base + step * g), self.sigma)
            v = self.f.row_prox(self.z + self.tau * (u + step * d), self.tau)
            return (weighted * v).sum(1) - (g * y).sum(1) - fixed

        low, below = torch.zeros_like(self.kappa), -(weighted * at.left).sum(1)
        high = t = torch.ones_like(low)
        above = end = slope(t)
        enough = TURNED * below.abs()
        search = end > enough
        for _ in range(CUTS):
            if not bool(search.any()):
                break
            share = (-below / (above - below)).nan_to_num(nan=0.5).clamp(0.05, 0.95)
            t = torch.where(search, low + share * (high - low), t)
            end = torch.where(search, slope(t), end)
            rises = end > 0
            below = torch.where(search & rises, below / 2, below)  # else this end might never move
            low, below = torch.where(search & ~rises, t, low), torch.where(search & ~rises, end, below)
            high, above = torch.where(search & rises, t, high), torch.where(search & rises, end, above)
            search = search & (end.abs() > enough)
        return self._at(u + t.unsqueeze(1) * d)


@dataclass(frozen=True)
class At:
    """A dual point u, and what belongs to it."""

    u: Rows
    y: Vectors
    v: Rows
    left: Rows  # inner(y) - v
    missed: Scalars  # P(y) is above its minimum by no more
    moved: Scalars  # |y - x|^2 / 2 in the metric


def _bends(problem: Problem, y: Vectors, sigma: Tensor) -> tuple[Vectors, Tensor | None]:
    """J = diag(s) + sum_g a_g a_g' of y = prox_{sigma r}(...): s (R, n), zero where y rests, and a (R, G, n).

    s = sigma / (1 + sigma l2) on the pieces of a separable r. In a group J = sigma [t (I - e e') + e e'] where y_j is
    not zero, t = |y_g| / (|y_g| + sigma c_g), e = y_g / |y_g|.
    """
    if form_of(problem).penalty is not Shape.GROUPS:
        low, high = problem.r.subdiff(y)
        return torch.where(low == high, sigma / (1 + sigma * pieces_of(problem).l2), 0.0), None
    r = groups_of(problem)
    norm = r.norms(y)
    safe = torch.where(norm > 0, norm, 1.0)
    share = r.spread(norm / (safe + sigma * r.size), 1.0)
    on = (y != 0) | ((r.floor_slope(y) == 0) & (r.spread((norm > 0).to(y.dtype), 1.0) > 0))
    across = (sigma * (1 - share)).sqrt() * y / r.spread(safe, 1.0)
    number = torch.arange(r.count, device=y.device).unsqueeze(1)
    return torch.where(on, sigma * share, 0.0), torch.where(r.groups == number, across.unsqueeze(1), 0.0)


def _solved(p: Tensor, B: Tensor, right: Tensor) -> Tensor:
    """(diag(p) + B B')^-1 right, B (m, k); NaN where rounding leaves no solution."""
    m, k = B.shape
    if k < m:
        scaled = B / p.unsqueeze(1)
        factor, failed = torch.linalg.cholesky_ex(torch.eye(k, dtype=B.dtype, device=B.device) + B.mT @ scaled)
        d = right / p
        d = d - scaled @ torch.cholesky_solve((B.mT @ d).unsqueeze(1), factor).squeeze(1)
    else:
        factor, failed = torch.linalg.cholesky_ex(B @ B.mT + torch.diag(p))
        d = torch.cholesky_solve(right.unsqueeze(1), factor).squeeze(1)
    return torch.where(failed == 0, d, torch.nan)
