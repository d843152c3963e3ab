r"""An upper bound on F(x) - F* for the numbers in memory, whatever rounding has done to its own evaluation.

For least squares and logistic losses with a separable penalty; A is dense or sparse, own or shared.

**The bound.** Let z be the image of x (z = R (A x - b), R = diag(sqrt(w)), or z_i = +-(A x + o)_i), z^ what was
computed for it, and the dual point s sigma(z^), sigma = phi', sigma(z^) = z^ for squares: a real number, not its
rounding. With c the real A'(...) of sigma(z^) and p = -s c,

    F(x) - F* <= sum_i o_i [phi(z_i) + phi*(s sigma(z^_i)) - s sigma(z^_i) z_i] + sum_j [r_j(x_j) + r_j*(p_j) - p_j x_j]

for every s for which this is finite (Fenchel and Young). Each part is bounded from above:

(a) |z^ - z| <= e: rounding in a sum of k products, in any order, with fused operations or without, is at most
    gamma_k sum |products|, gamma_k = k u / (1 - k u), u = 2^-53 (Wilkinson). With N_j the length of column j of R A,
    |e| <= gamma (sum_j N_j |x_j| + |R b|); and |c^_j - c_j| <= D_j = gamma N_j |sigma(z^)|.
(b) squares: 1/2 |z - s z^|^2 <= 1/2 (|e| + |1 - s| |z^|)^2.
    logistic: with s and a = 1 - s in [0, 1] and t = e^-|z^|, by the curvature between two points and convexity in s,
    KL(s sigma | sigma) <= min{ a^2/2 max(e^z, sigma / (s (1 - s sigma))),  a (max(z, 0) + t - t^2/2 + t^3/3) },
    and phi'' <= 1/4: moving z^ to z adds no more than a sigma e_i + e_i^2 / 8.
(c) for any y in the domain of r_j, with d^+ and d^- the slopes of l1 |.| at y to the right and to the left,
    r_j*(p) <= p y - r_j(y) + E,  E = max over both sides of min{ rho^2 / (2 l2), rho room },
    rho^+ = max(p - l2 y - d^+, 0), rho^- = max(d^- + l2 y - p, 0), room the distance from y to the bound on that side.
    p is known to s D_j, and s is small enough for E to be finite where l2 = 0 and there is no bound.
(d) All that is added up then is >= 0. A number computed from such with at most k roundings is raised by the factor
    1 + 2 (k + 4) u, which is more than (1 - u)^-(k + 2); products that underflow lose at most 2^-1022 each.

**Assumed:** float64 rounds to nearest and keeps subnormal numbers, matrix products are sums of products (no Strassen),
and `torch.exp` and `torch.sigmoid` have a relative error of at most 2^-45 on [-700, 700] (they document 2^-52).
A NaN or an overflow makes the bound infinite.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Vectors
from sureprox.problems.forms import Pieces, pieces_of
from sureprox.problems.losses import LeastSquares, Logistic
from sureprox.problems.operators.dense import Dense
from sureprox.problems.operators.sparse import Sparse
from sureprox.problems.problem import Problem
from sureprox.problems.separable import Separable, is_separable

CHUNK = 2**22  # entries of A held in float64 at a time
CACHED = 2**17  # entries of A squared at a time
EPS = 2.0**-52  # 2 u
TINY = 2.0**-1022
LIBRARY = 2.0**-45  # relative error of exp and sigmoid
FARTHEST = 700.0  # where exp is used


class Seen(NamedTuple):
    """What the products with A say, with bounds on their errors."""

    c: Vectors  # c^ = A'(o sigma(z^)), computed
    D: Vectors  # (a)
    error: Scalars  # |e|
    g: float  # 2 (k + 4) u


def refusal(problem: Problem) -> str | None:
    """Why there is no rigorous bound for such problems, or None."""
    f, r = problem.f, problem.r
    why = None
    if type(problem) is not Problem or type(f) not in (LeastSquares, Logistic):
        why = f"the loss is {type(f).__name__}; it is known for LeastSquares and Logistic"
    elif not is_separable(r):
        why = f"the penalty is {type(r).__name__}; it is known for separable ones, such as L1, ElasticNet and Box"
    elif type(f.map) not in (Dense, Sparse):  # type: ignore[attr-defined]
        why = f"A is a {type(f.A).__name__}; it is known for dense and sparse matrices"  # type: ignore[attr-defined]
    elif problem.shift is not None:
        why = "the problem is shifted, and x + t is rounded; it is known for problems as they are made"
    elif bool(torch.stack(_loose(problem)).any()):
        why = "some coordinates have no cost and no bound; it is known where each has l1 > 0, l2 > 0 or both bounds"
    return why


def require_rigorous(problem: Problem) -> None:
    why = refusal(problem)
    if why is not None:
        raise InputError(f"rigorous is True, but {why}")


def _loose(problem: Problem) -> tuple[Tensor, Tensor]:
    assert isinstance(problem.r, Separable)
    return problem.r.loose(torch.zeros(problem.batch, problem.n, dtype=problem.dtype, device=problem.device))


@torch.no_grad()
def rigorous_gap(problem: Problem, x: Vectors) -> Scalars:
    """(B,) the bound above, at x (B, n) of float32 or float64."""
    f = problem.f
    assert isinstance(f, LeastSquares | Logistic)
    size = max(1, CHUNK // (f.m * f.n))
    if f.map.shared or problem.dtype == torch.float64 or size >= problem.batch:
        return _bound(problem.to(dtype=torch.float64), x.double())
    parts = torch.arange(problem.batch, device=x.device).split(size)
    return torch.cat([_bound(problem.select(part).to(dtype=torch.float64), x[part].double()) for part in parts])


def _bound(problem: Problem, x: Vectors) -> Scalars:
    f, r = problem.f, problem.r
    assert isinstance(f, LeastSquares | Logistic)
    assert isinstance(r, Separable)
    z = f.inner(x)
    seen = _products(f, x, z)
    pieces = Pieces(*(piece.expand_as(x) for piece in pieces_of(problem)))
    least, most = -_largest_scale(pieces, -seen.c, seen), _largest_scale(pieces, seen.c, seen)
    bounds = []
    for scale in r.dual_scales(seen.c, lambda low, high: f.dual_scale(z, low, high)):
        s = torch.minimum(torch.maximum(scale, least), most)
        smooth = _squares(z, seen, s) if isinstance(f, LeastSquares) else _logistic(f, z, seen, s)
        bounds.append((smooth + _separable(pieces, x, seen, s)) * (1 + seen.g))
    bound = torch.stack(bounds).nan_to_num(nan=torch.inf).amin(0)
    outside = ((x < pieces.low) | (x > pieces.high)).any(1)
    return torch.where(outside | ~torch.isfinite(x).all(1), torch.inf, bound)


def _products(f: LeastSquares | Logistic, x: Vectors, z: Tensor) -> Seen:
    """(a)"""
    m, n = f.m, f.n
    g = (m + n + 40) * EPS
    N = (_lengths(f) + (m * TINY) ** 0.5) * (1 + g)
    # what underflows in c: a product for each row, and before that the row itself, times an entry of A
    entry = _largest_entry(f) if isinstance(f, LeastSquares) and f.root is not None else float(N.max())
    lost = (m + n + 4) * TINY * (1 + entry)
    if isinstance(f, LeastSquares):
        rows, away, scale = z, f.target, 1.0 if f.root is None else 1 + float(f.root.max())
        off = g
    else:
        u = torch.sigmoid(z)
        rows = (u if f.weights is None else f.weights * u) / m
        away, scale, off = torch.zeros_like(z) if f.offset is None else f.offset, 1.0, g + 2 * LIBRARY
    length = torch.linalg.vector_norm(rows, dim=1) * (1 + g) + (m * TINY) ** 0.5
    image = (N * x.abs()).sum(1) + torch.linalg.vector_norm(away, dim=1)
    error = (g * image * (1 + g) + m * lost * scale) * (1 + g)
    D = (off * N * length.unsqueeze(1) + lost) * (1 + g)
    return Seen(f.grad_at(z), D, error, g)


def _lengths(f: LeastSquares | Logistic) -> Tensor:
    """(1 or B, n) of the columns of R A, computed."""
    root = f.root if isinstance(f, LeastSquares) else None
    if root is None and isinstance(f.A, Tensor):
        return _column_squares(f.A.reshape(-1, f.m, f.n)).sqrt()
    squares = torch.ones_like(f.b if isinstance(f, LeastSquares) else f.y) if root is None else root.square()
    return f.map.column_squares(squares).sqrt()


def _column_squares(stack: Tensor) -> Tensor:
    """sum_i a_ij^2 for a stack (K, m, n), by pieces that stay in a cache."""
    (m, n), total = stack.shape[1:], stack.new_zeros(len(stack), stack.shape[2])
    for part, sums in zip(stack.split(max(1, CACHED // (m * n))), total.split(max(1, CACHED // (m * n))), strict=True):
        for rows in part.split(max(1, CACHED // n), 1):
            sums += rows.square().sum(1)
    return total


def _largest_entry(f: LeastSquares | Logistic) -> float:
    values = f.A if isinstance(f.A, Tensor) else f.map.values  # type: ignore[attr-defined]
    low, high = torch.aminmax(values)
    return max(-float(low), float(high))


def _largest_scale(pieces: Pieces, c: Vectors, seen: Seen) -> Scalars:
    """s >= 0 with |s c_j| <= l1_j, by a margin for rounding, wherever r_j*(-s c_j) is infinite beyond: see (c)."""
    size = (c.abs() + seen.D * (1 + 4 * seen.g)) * (1 + 64 * EPS)
    limit = torch.where(size > 0, pieces.l1 * (1 - 64 * EPS) / size, torch.inf)
    limit = torch.where(pieces.l2 > 0, torch.inf, limit)
    up = torch.isinf(pieces.high) & (c - seen.D <= 0)  # p may be positive
    down = torch.isinf(pieces.low) & (c + seen.D >= 0)
    return torch.where(up | down, limit, torch.inf).amin(1)


def _squares(z: Tensor, seen: Seen, s: Scalars) -> Scalars:
    """(b), raised by (d)."""
    length = torch.linalg.vector_norm(z, dim=1) + (z.shape[1] * TINY) ** 0.5
    result: Tensor = (0.5 * (seen.error + (1 - s).abs() * length * (1 + seen.g)).square() + TINY) * (1 + seen.g)
    return result


def _logistic(f: Logistic, z: Tensor, seen: Seen, s: Scalars) -> Scalars:
    """(b), raised by (d)."""
    a, u = 1 - s, torch.sigmoid(z.clamp(-FARTHEST, FARTHEST))
    terms, heaviest = _divergences(z, u, s.unsqueeze(1)), torch.ones_like(s)
    if f.weights is not None:
        terms, u, heaviest = f.weights * terms, f.weights * u, f.weights.amax(1)
    length = torch.linalg.vector_norm(u, dim=1) * (1 + seen.g) + (f.m * TINY) ** 0.5
    moved = (a * length * seen.error + heaviest * seen.error.square() / 8) / f.m
    total = terms.sum(1) / f.m + f.m * TINY
    result: Tensor = (total + moved) * (1 + seen.g + 16 * LIBRARY) * (1 + seen.g)
    return torch.where((s >= 0) & (s <= 1), result, torch.inf)


def _divergences(z: Tensor, u: Tensor, s: Tensor) -> Tensor:
    """The smaller of the two bounds of KL(s sigma | sigma), s (B, 1).

    The first increases with z: with a larger z, which is taken for z < -FARTHEST, it still holds. For z > FARTHEST the
    second one is smaller, since a is 0 or at least 2^-53, unless z > 1e287; then |e|^2, and with it the gap, overflows.
    """
    a, near = 1 - s, z.clamp(-FARTHEST, FARTHEST)
    t = torch.exp(-near.abs())
    bend = torch.maximum(torch.exp(near), (u + TINY) / (s * (a + s * torch.sigmoid(-near))))
    far = a * (z.clamp(min=0) + t * (1 - t * (0.5 - t / 3)))
    return torch.minimum(a.square() / 2 * bend, far)


def _separable(pieces: Pieces, x: Vectors, seen: Seen, s: Scalars) -> Scalars:
    """(c), raised by (d)."""
    l1, l2, low, high = pieces
    s = s.unsqueeze(1)
    p = -s * seen.c
    off = (s.abs() * seen.D + EPS * p.abs() + TINY) * (1 + seen.g)  # p^ is so far from p
    y = _best(pieces, p)
    above = p - l2 * y - torch.where(y >= 0, l1, -l1)
    below = torch.where(y > 0, l1, -l1) + l2 * y - p
    doubt = off + 4 * EPS * (p.abs() + l2 * y.abs() + l1) + TINY
    excess = torch.maximum(_excess(above + doubt, l2, high - y), _excess(below + doubt, l2, y - low))
    first, second, third = l1 * (x.abs() - y.abs()), l2 / 2 * (x - y) * (x + y), p * (y - x)
    rounding = 8 * EPS * (first.abs() + second.abs() + third.abs()) + 8 * TINY
    terms = first + second + third + rounding + (off * (y - x).abs() + excess) * (1 + seen.g)
    total: Tensor = terms.clamp(min=0).sum(1) * (1 + seen.g)
    return total


def _best(pieces: Pieces, p: Vectors) -> Vectors:
    """y where p y - r(y) is largest, as far as rounding lets it be found; any y in the domain will do."""
    l1, l2, low, high = pieces
    beyond = p - torch.minimum(torch.maximum(p, -l1), l1)
    far = torch.where(torch.isinf(torch.where(beyond > 0, high, low)), 0.0, torch.sign(beyond) * torch.inf)
    curved = beyond / torch.where(l2 > 0, l2, 1.0)
    y = torch.where(l2 > 0, curved, torch.where(beyond == 0, 0.0, far))
    return torch.minimum(torch.maximum(y, low), high)


def _excess(rho: Vectors, l2: Vectors, room: Vectors) -> Vectors:
    """min{ rho^2 / (2 l2), rho room }, 0 where rho <= 0 or room = 0; raised by (d)."""
    rho = rho.clamp(min=0) * (1 + 16 * EPS)
    curved = torch.where(l2 > 0, rho.square() / (2 * torch.where(l2 > 0, l2, 1.0)), torch.inf)
    straight = torch.where((rho == 0) | (room == 0), 0.0, rho * room)
    return torch.where(rho == 0, 0.0, torch.minimum(curved, straight)) * (1 + 16 * EPS) + TINY
