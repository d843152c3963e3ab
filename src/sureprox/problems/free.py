"""The duality gap where r leaves coordinates loose: the dual point is corrected, then scaled."""

from typing import NamedTuple

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.losses import Pointwise, Quadratic, Softmax
from sureprox.problems.losses.functions import clip, scale_range
from sureprox.problems.penalty import HasLooseCoordinates, HasPenaltyDual
from sureprox.problems.problem import Problem

LARGEST = 2**24  # entries of the columns whose SVD can be afforded for an instance
TRIES = 4  # sets E
CHUNK = 2**22  # entries of gathered columns held at a time
ROUNDING = 1e-9  # of its terms: a sum of this size is what rounding has left of zero
EXACT = 1e-14  # the same of a sum that nothing has been corrected of
EXACT = 1e-14  # the same of a sum that nothing has been corrected of

Loss = Quadratic | Pointwise | Softmax


def has_free_gap(problem: Problem) -> bool:
    """Whether `free_gap` applies: to losses of this package, where r* is known, too.

    With more loose coordinates than an SVD of their columns can be afforded for, only where a translation is found.
    """
    if not problem.has_duality_gap or not isinstance(problem.f, Loss):
        return False
    up, down = _loose(problem)
    if int((up | down).sum(1).max()) * problem.f.m <= LARGEST:
        return True
    return not bool((up & down).any()) and bool(_slopes_of_translation(problem, up, down)[1].all())


@torch.no_grad()
def free_gap(problem: Problem, x: Vectors) -> Scalars:
    """(B,) an upper bound on F(x) - F*, in float64 and up to rounding, where r leaves coordinates loose.

    A coordinate without cost and bounds, such as an intercept, allows only dual points theta with A_j' theta = 0; one
    without cost and with a lower bound of zero, as in nonnegative least squares, only A_j' theta >= 0. The dual point
    u = grad phi(A x) misses both, and scaling it is no help. So it is corrected first, unless A_E'u is zero to the last
    digits, in two ways.

    A Newton step on E, seen from the dual side: v with A_E'v = 0, E being the free coordinates, those with bounds that
    x is inside of, and those where the sign of A_j'v is wrong, which is repeated a few times.
    A translation v = u + c t, t_i the sign of the weight of row i: where all A_j't have the sign that A_j'v should
    have, as for A >= 0, some c is enough.

    Then s v is as in `Problem.certificate`. Where there is no such v, as where all rows of a Huber loss are outliers,
    or the conjugate is not finite at it, the bound is F(x) itself: no f here is negative.

    What rounding leaves of A_E'v counts as if x*_E were as large as x_E.
    """
    f = problem.f
    assert isinstance(f, Loss)
    up, down = _loose(problem)
    size = int((up | down).sum(1).max())
    y = problem.centred(x)
    found = [f.value(y) + problem.r.value(y)]
    if size * f.m <= LARGEST:
        parts = torch.arange(len(x), device=x.device).split(max(1, CHUNK // (max(1, size) * f.m)))
        found.append(torch.cat([_projected(problem.select(p), y[p], up[p], down[p]) for p in parts]))
    if not bool((up & down).any()):
        found.append(_translated(problem, y, up, down))
    return torch.stack(found).nan_to_num(nan=torch.inf).amin(0)


def _loose(problem: Problem) -> tuple[Tensor, Tensor]:
    """Of the penalty; one that does not say it has free coordinates at most."""
    zero = torch.zeros(problem.batch, problem.n, dtype=problem.dtype, device=problem.device)
    if isinstance(problem.r, HasLooseCoordinates):
        return problem.r.loose(zero)
    low, high = problem.r.subdiff(zero)
    free = (low == 0) & (high == 0)
    return free, free


def _projected(problem: Problem, y: Vectors, up: Tensor, down: Tensor) -> Scalars:
    """The gap with A_E'v = 0."""
    f, free = problem.f, up & down
    assert isinstance(f, Loss)
    z, gradient = f.inner(y), f.grad(y)
    inside = problem.r.distance(y, gradient) == gradient.abs()  # its subdifferential is {0}: y is off the bound
    E = free | ((up | down) & inside)
    plain = torch.full_like(z[:, 0], torch.inf)
    for k in range(TRIES):
        E = E | (up & (gradient < 0)) | (down & (gradient > 0))
        size = max(1, int(E.sum(1).max()))
        order = E.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
        held = E.gather(1, order)
        face = Face(E, order, held, f.map.columns(order) * held.unsqueeze(1))
        if k == 0:  # no correction is as exact where the Newton matrix is all but singular
            plain = _gap_on(problem, y, z, f.slopes(z), face, EXACT)
        v = _corrected(f, y, z, face.columns, order)
        gradient = torch.where(E, 0.0, f.dual_grad(v))
        if not bool(((up & (gradient < 0)) | (down & (gradient > 0))).any()):
            break
    return torch.fmin(plain, _gap_on(problem, y, z, v, face, ROUNDING))


class Face(NamedTuple):
    """E, as a mask (B, n) and as numbers (B, k), those of which are `held`, with their columns (B, m, k)."""

    E: Tensor
    order: Tensor
    held: Tensor
    columns: Tensor


def _gap_on(problem: Problem, y: Vectors, z: Rows, v: Rows, face: Face, rounding: float) -> Scalars:
    """The gap with v, infinite where A_E'v is more than `rounding` of its terms."""
    f = problem.f
    assert isinstance(f, Loss)
    gradient = f.dual_grad(v)
    missed = torch.where(face.held, gradient.gather(1, face.order), 0.0)
    rows = torch.linalg.vector_norm(f.row_factors * v, dim=1, keepdim=True)
    terms = torch.linalg.vector_norm(face.columns, dim=1) * rows  # no less than |A_j|'|v|, and the same for Q A and Q v
    exists = (missed.abs() <= rounding * terms).all(1)
    left = (missed * y.gather(1, face.order)).abs().sum(1)
    return torch.where(exists, _gap_at(problem, y, z, v, torch.where(face.E, 0.0, gradient), left), torch.inf)


def _translated(problem: Problem, y: Vectors, up: Tensor, down: Tensor) -> Scalars:
    """The gap with v = u + c t, infinite where t does not have the signs it takes."""
    f = problem.f
    assert isinstance(f, Loss)
    slopes, right = _slopes_of_translation(problem, up, down)
    z, g = f.inner(y), f.grad(y)
    wrong = (up & (g < 0)) | (down & (g > 0))
    c = torch.where(wrong & (slopes != 0), -g / slopes, 0.0).amax(1)
    v = f.slopes(z) + c.unsqueeze(1) * _translation(f, z)
    gradient = f.dual_grad(v)
    rounding = (up & (gradient < 0)) | (down & (gradient > 0))
    left = (torch.where(rounding, gradient, 0.0) * y).abs().sum(1)
    gap = _gap_at(problem, y, z, v, torch.where(rounding, 0.0, gradient), left)
    return torch.where(right, gap, torch.inf)


def _slopes_of_translation(problem: Problem, up: Tensor, down: Tensor) -> tuple[Vectors, Tensor]:
    """A't (B, n), and (B,) whether it is positive for coordinates loose upwards, and negative for those downwards."""
    f = problem.f
    assert isinstance(f, Loss)
    slopes = f.dual_grad(_translation(f, torch.zeros(problem.batch, f.m, dtype=problem.dtype, device=problem.device)))
    return slopes, ((~up | (slopes > 0)) & (~down | (slopes < 0))).all(1)


def _translation(f: Loss, like: Rows) -> Rows:
    """t: ones, with the signs that the rows have in A'(c t), c = `row_factors`."""
    return torch.sign(torch.as_tensor(f.row_factors, dtype=like.dtype, device=like.device)).expand_as(like)


def _gap_at(problem: Problem, y: Vectors, z: Rows, v: Rows, gradient: Vectors, left: Scalars) -> Scalars:
    """The gap with the best s v, A'v = `gradient` but for `left`, the rounding error in <A'v, x>."""
    f, r = problem.f, problem.r
    assert isinstance(f, Loss)
    assert isinstance(r, HasPenaltyDual)
    ends = f.dual_domain
    low, high = scale_range(v, *ends)

    def best(least: Scalars, most: Scalars) -> Scalars:
        return f.best_scale(v, torch.maximum(least, low), torch.minimum(most, high))

    gaps = []
    for scale in r.dual_scales(gradient, best):
        s = torch.minimum(torch.maximum(scale, low), high)
        divergence = f.total(f.divergence(z, clip(s.unsqueeze(1) * v, *ends)))
        gaps.append(divergence + r.fenchel_young(y, gradient, s) + left * s.abs())
    return torch.stack(gaps).amin(0)


def _corrected(f: Loss, y: Vectors, z: Rows, columns: Tensor, order: Tensor) -> Rows:
    """v = u - k h, u the slopes at z and k h the change of the slopes with the Newton step that makes A_E'v zero.

    h = U (U't + S^-1 V g), where the Newton matrix has the root R C = U S V, C the free columns `order`, t = v / k
    where phi bends, and g = A_E'v of the rows where it does not. The second step is for what rounding has left.
    """
    U, sizes, V, unit = _scaled_svd(f.hessian_root(y, columns))
    metric, v = f.dual_metric(z), f.slopes(z)
    flat = metric == 0
    bent = torch.where(flat, 1.0, metric)
    for _ in range(2):
        t = _times(U.mT, torch.where(flat, 0.0, v / bent))
        if bool(flat.any()):
            g = f.dual_grad(torch.where(flat, v, 0.0)).gather(1, order)
            t = t + _times(V, g / unit) / sizes
        v = v - metric * _times(U, t)
    factors = torch.as_tensor(f.row_factors, dtype=v.dtype, device=v.device)
    return torch.where(factors == 0, 0.0, v)


def _scaled_svd(columns: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """U, S, V, unit with columns = U S V unit; what S is too small to count has U = 0 and S = 1.

    The columns are divided by their largest entries first, so that their units do not matter.
    """
    largest = columns.abs().amax(1, keepdim=True)
    largest = torch.where(largest > 0, largest, 1.0)
    U, sizes, V = torch.linalg.svd(columns / largest, full_matrices=False)
    counted = sizes > max(columns.shape[1:]) * torch.finfo(sizes.dtype).eps * sizes[:, :1]
    return torch.where(counted.unsqueeze(1), U, 0.0), torch.where(counted, sizes, 1.0), V, largest.squeeze(1)


def _times(matrices: Tensor, vectors: Tensor) -> Tensor:
    return (matrices @ vectors.unsqueeze(2)).squeeze(2)
