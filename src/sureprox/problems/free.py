"""The duality gap where r leaves coordinates free: the dual point is corrected, then scaled."""

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems.losses import Pointwise, Quadratic, Softmax
from sureprox.problems.losses.functions import clip, scale_range
from sureprox.problems.problem import Problem

CHUNK = 2**22  # entries of gathered columns held at a time
ROUNDING = 1e-9  # of its terms: a sum of this size is what rounding has left of zero

Loss = Quadratic | Pointwise | Softmax


def has_free_gap(problem: Problem) -> bool:
    """Whether `free_gap` knows the conjugate of f: the losses of this package, and r of it too."""
    return problem.has_duality_gap and isinstance(problem.f, Loss)


@torch.no_grad()
def free_gap(problem: Problem, x: Vectors) -> Scalars:
    """(B,) an upper bound on F(x) - F*, in float64 and up to rounding, finite where r leaves coordinates free.

    With f(x) = phi(A x) a dual point theta must have A_E' theta = 0, E being the coordinates with r_j = 0, and
    u = grad phi(A x) misses that by the gradient on E. So the point is s v, v = u after a Newton step on E, seen from
    the dual side, and s as in `Problem.certificate`. Where there is no such v, as where all rows of a Huber loss are
    outliers, or the conjugate is not finite at it, the bound is F(x) itself: no f here is negative.

    What rounding leaves of A_E'v counts as if x*_E were as large as x_E.
    """
    f = problem.f
    assert isinstance(f, Loss)
    low, high = problem.r.subdiff(torch.zeros_like(x))
    free = (low == 0) & (high == 0)
    size = max(1, int(free.sum(1).max()))
    parts = torch.arange(len(x), device=x.device).split(max(1, CHUNK // (size * f.m)))
    return torch.cat([_part(problem.select(part), problem.centred(x)[part], free[part], size) for part in parts])


def _part(problem: Problem, y: Vectors, free: Tensor, size: int) -> Scalars:
    f, r = problem.f, problem.r
    assert isinstance(f, Loss)
    order = free.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :size]
    inside = free.gather(1, order)
    columns = f.map.columns(order) * inside.unsqueeze(1)
    z, ends = f.inner(y), f.dual_domain
    v = _corrected(f, y, z, columns, order)
    gradient = f.dual_grad(v)
    missed = torch.where(inside, gradient.gather(1, order).abs(), 0.0)
    terms = (columns.abs() * (f.row_factors * v).abs().unsqueeze(2)).sum(1)
    exists = (missed <= ROUNDING * terms).all(1)
    penalised = torch.where(free, 0.0, gradient)
    bound, domain = r.dual_range(penalised), scale_range(v, *ends)  # type: ignore[attr-defined]
    scale = f.best_scale(v, torch.maximum(bound[0], domain[0]), torch.minimum(bound[1], domain[1]))
    rest = r.fenchel_young(y, penalised, scale)  # type: ignore[attr-defined]
    left = (torch.where(free, gradient, 0.0) * y).abs().sum(1) * scale.abs()
    gap = f.total(f.divergence(z, clip(scale.unsqueeze(1) * v, *ends))) + rest + left
    value = f.value_at(z) + r.value(y)
    return torch.where(exists & torch.isfinite(gap), torch.minimum(gap, value), value)


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
