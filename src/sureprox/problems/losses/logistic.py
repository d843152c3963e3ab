"""The logistic loss."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import log1pexp
from sureprox.problems.losses.pointwise import Pointwise
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class Logistic(Pointwise):
    """f(x) = mean_i [log(1 + e^{t_i}) - y_i t_i], t = A x + offset, y_i in {0, 1}; L = curvature * lambda_max(A'A) / m.

    A mean, as in the paper; all other losses of this package are sums.

    The second derivative of log(1 + e^z) is at most 1/4, so `curvature=0.25` is the sharp constant. The paper uses
    `curvature=1.0`, a valid bound four times too large.

    `weights` (m,) or (B, m), >= 0: row i counts w_i times, f(x) = 1/m sum_i w_i [log(1 + e^{t_i}) - y_i t_i], and
    L = curvature * lambda_max(A' diag(w) A) / m.

    phi(z) = log(1 + e^z) with z = (1 - 2y) t, how far on the wrong side of the boundary a row is.
    """

    batched = ("A", "y", "weights", "offset")
    stackable = True
    offset: Tensor | None = None

    def __init__(self, A: Any, y: Any, curvature: float = 0.25, weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        self.y = checks.labels(y, self.A)
        if not (isinstance(curvature, int | float) and 0 < curvature < float("inf")):
            raise InputError(f"curvature is {curvature!r}; pass a number > 0: 0.25 is sharp, the paper takes 1.0")
        self.curvature = float(curvature)
        self._weigh(weights, self.y)
        if offset is not None:
            self.offset = checks.offset(offset, self.y, self.A)

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0], self.n

    @property
    def signs(self) -> Rows:
        return 1 - 2 * self.y

    def inner(self, x: Vectors) -> Rows:
        """(1 - 2y) (A x + offset)."""
        t = self.map.forward(x)
        return self.signs * (t if self.offset is None else t + self.offset)

    def terms(self, z: Rows) -> Rows:
        # log(1 + e^t) - y t = log(1 + e^z) with z = (1 - 2y) t: nothing cancels, for any margin
        return log1pexp(z)

    def slopes(self, z: Rows) -> Rows:
        """sigma(z)."""
        return torch.sigmoid(z)

    def curvatures(self, z: Rows) -> Rows:
        """sigma (1 - sigma)."""
        return torch.sigmoid(z) * torch.sigmoid(-z)

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """By Newton's method from about where sigma(z) = t / step."""
        least = torch.finfo(t.dtype).eps
        return self.rooted(t, step, torch.logit((t / step).clamp(least, 1 - least)))

    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        """D = KL(v | sigma) >= 2 (v - sigma)^2, so that |v - sigma| <= sqrt(rise / 2); and phi'' = v (1 - v) at v."""
        reach = (rise / 2).sqrt()
        e, other = torch.sigmoid(z), torch.sigmoid(-z)
        left = (e - reach).clamp(min=0) * (other + reach).clamp(max=1)
        right = (e + reach).clamp(max=1) * (other - reach).clamp(min=0)
        half = (e - 0.5).abs() <= reach  # v = 1/2 is among them
        return torch.minimum(left, right), torch.where(half, 0.25, torch.maximum(left, right))

    @property
    def curvature_bound(self) -> float:
        return 0.25

    @property
    def steepest(self) -> float:
        return 1.0

    def conjugates(self, v: Rows) -> Rows:
        """v log v + (1 - v) log(1 - v), 0 <= v <= 1."""
        inside = v.clamp(0, 1)
        entropy = torch.xlogy(inside, inside) + torch.special.xlog1py(1 - inside, -inside)
        return torch.where(inside == v, entropy, torch.inf)

    @property
    def dual_domain(self) -> tuple[float, float]:
        return 0.0, 1.0

    def divergence(self, z: Rows, v: Rows) -> Rows:
        """KL(v | sigma) = v log(v / sigma) + (1 - v) log((1 - v) / (1 - sigma))."""
        e, other, inside = torch.sigmoid(z), torch.sigmoid(-z), v.clamp(0, 1)
        d = inside - e
        log_other = torch.where(inside < 1, torch.log1p(-d / other), 0.0)
        terms = torch.where(inside > 0, inside * torch.log1p(d / e), 0.0) + (1 - inside) * log_other
        return torch.where(inside == v, terms.clamp(min=0), torch.inf)

    def dual_gaps(self, z: Rows, scale: Scalars) -> Rows:
        """KL(w | sigma), w = s sigma: w log s + (1 - w) log(1 + (1 - s) e^z).

        The last logarithm is that of (1 - w)/(1 - sigma).
        """
        s = scale.unsqueeze(1)
        w = s * torch.sigmoid(z)
        return torch.xlogy(w, s) + (1 - w) * log1pexp(z + torch.log1p(-s))

    def rises(self, d: Rows, at: Rows) -> Rows:
        """log(1 + e^{t + d}) - log(1 + e^t) - sigma(t) d, t = at.

        It does not change with the signs of both t and d, and has most digits where t <= 0. Where |d| <= 1 its first
        two parts are log(1 + sigma(t) (e^d - 1)).
        """
        t, d = -at.abs(), torch.where(at > 0, -d, d)
        slope = torch.sigmoid(t)
        near = torch.log1p(slope * torch.expm1(d.clamp(-1, 1)))
        far = log1pexp(t + d) - log1pexp(t)
        return (torch.where(d.abs() <= 1, near, far) - slope * d).clamp(min=0)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """mean_i KL(v_i | sigma_i) with v = s sigma."""
        return super().fenchel_young(z, scale)

    # --- the mean instead of the sum ----------------------------------------------------------------------------------

    def total(self, rows: Rows) -> Scalars:
        return self._weighted(rows).mean(1)

    def dual_grad(self, v: Rows) -> Vectors:
        return self.map.adjoint(self.signs * self._weighted(v)) / self.m

    @property
    def row_factors(self) -> float | Tensor:
        return self.signs / self.m if self.weights is None else self.signs * self.weights / self.m

    def dual_metric(self, z: Rows) -> Rows:
        scale: float = self.m**0.5
        return scale * self.signs * super().dual_metric(z)

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """curvature * lambda_max(A'A) / m, estimated by Lanczos' method (see `largest_eigenvalue`) or exact."""
        root = None if self.weights is None else self.weights.sqrt()
        return self.curvature * self._gram_norm(root, exact, largest) / self.m

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R = diag(sqrt(w sigma (1 - sigma) / m))."""
        curvature = self._weighted(self.curvatures(self.inner(x))) / self.m
        return curvature.sqrt().unsqueeze(2) * columns

    @property
    def steepness(self) -> float | Tensor:
        """w / 4 whatever `curvature` says: this is what is true, not what the steps are made of."""
        steepness: float | Tensor = super().steepness / self.m
        return steepness

    def slope_bound(self, size: Tensor) -> Tensor:
        return super().slope_bound(size) / self.m

    def _weighted(self, rows: Rows) -> Rows:
        return rows if self.weights is None else self.weights * rows
