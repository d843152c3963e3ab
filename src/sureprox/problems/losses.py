"""The losses of this package: f(x) = sum_i w_i phi(z_i; y_i), z = A x."""

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.smooth import LinearModel
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class Quadratic(LinearModel):
    """f(x) = 1/2 |z|^2, z = M x - b with a linear map M made of A: all that does not depend on M."""

    b: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return self.b.shape[0], self.A.shape[-1]

    @property
    def target(self) -> Tensor:
        """b."""
        return self.b

    def value_at(self, z: Rows) -> Scalars:
        return 0.5 * z.square().sum(1)

    @property
    def steepness(self) -> float:
        return 1.0

    def bregman(self, d: Rows, at: Rows) -> Scalars:
        """1/2 |d|^2."""
        return 0.5 * d.square().sum(1)

    def slope_bound(self, size: Tensor) -> Tensor:
        return size

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """argmax_s of the dual value -s <z, b> - s^2 |z|^2 / 2 on [low, high]."""
        square = z.square().sum(1)
        best = torch.where(square > 0, -(z * self.target).sum(1) / square.clamp(min=_tiny(square)), 1.0)
        return torch.minimum(torch.maximum(best, low), high)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """1/2 (1 - s)^2 |z|^2."""
        return 0.5 * ((1 - scale).unsqueeze(1) * z).square().sum(1)


class LeastSquares(Quadratic):
    """f(x) = 1/2 |A x - b|^2, grad f(x) = A'(A x - b), L = lambda_max(A'A)."""

    batched = ("A", "b")
    stackable = True
    fenchel_young = Quadratic.fenchel_young

    def __init__(self, A: Any, b: Any) -> None:
        self.A = checks.matrix(A)
        self.b = checks.rows("b", b, self.A)

    def inner(self, x: Vectors) -> Rows:
        """The residual A x - b."""
        return self.map.residual(x, self.b)

    def grad_at(self, z: Rows) -> Vectors:
        return self.map.adjoint(z)

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """lambda_max(A'A), estimated by Lanczos' method (see `largest_eigenvalue`) or exact by singular values."""
        return self.map.gram_norm(self.shape[0], exact, largest)

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        return columns


class Logistic(LinearModel):
    """f(x) = mean_i [log(1 + e^{t_i}) - y_i t_i], t = A x, y_i in {0, 1}; L = curvature * lambda_max(A'A) / m.

    The second derivative of log(1 + e^z) is at most 1/4, so `curvature=0.25` is the sharp constant. The paper uses
    `curvature=1.0`, a valid bound four times too large.

    `weights` (m,) or (B, m), >= 0: row i counts w_i times, f(x) = 1/m sum_i w_i [log(1 + e^{t_i}) - y_i t_i], and
    L = curvature * lambda_max(A' diag(w) A) / m.
    """

    batched = ("A", "y", "weights")
    stackable = True
    weights: Tensor | None = None

    def __init__(self, A: Any, y: Any, curvature: float = 0.25, weights: Any = None) -> None:
        self.A = checks.matrix(A)
        self.y = checks.labels(y, self.A)
        if not (isinstance(curvature, int | float) and 0 < curvature < float("inf")):
            raise InputError(f"curvature is {curvature!r}; pass a number > 0: 0.25 is sharp, the paper takes 1.0")
        self.curvature = float(curvature)
        if weights is not None:
            self.weights = checks.row_weights(weights, self.y, self.A)

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0], self.A.shape[-1]

    def inner(self, x: Vectors) -> Rows:
        """(1 - 2y) A x: how far on the wrong side of the boundary each row is."""
        return (1 - 2 * self.y) * self.map.forward(x)

    def value_at(self, z: Rows) -> Scalars:
        # log(1 + e^t) - y t = log(1 + e^z) with t = A x, z = (1 - 2y) t: nothing cancels, for any margin
        return self._mean(_log1pexp(z))

    def grad_at(self, z: Rows) -> Vectors:
        return self.map.adjoint((1 - 2 * self.y) * self._weighted(torch.sigmoid(z))) / self.m

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """curvature * lambda_max(A'A) / m, estimated by Lanczos' method (see `largest_eigenvalue`) or exact."""
        root = None if self.weights is None else self.weights.sqrt()
        return self.curvature * self.map.gram_norm(self.shape[0], exact, largest, row_scale=root) / self.m

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R = diag(sqrt(w sigma (1 - sigma) / m))."""
        z = self.inner(x)
        curvature = self._weighted(torch.sigmoid(z) * torch.sigmoid(-z)) / self.m
        return curvature.sqrt().unsqueeze(2) * columns

    @property
    def steepness(self) -> float | Tensor:
        """w / 4 whatever `curvature` says: this is what is true, not what the steps are made of."""
        return 0.25 / self.m if self.weights is None else 0.25 / self.m * self.weights.amax(1, keepdim=True)

    def bregman(self, d: Rows, at: Rows) -> Scalars:
        """mean_i [log(1 + e^{t_i + d_i}) - log(1 + e^{t_i}) - sigma(t_i) d_i], t = at.

        A term does not change with the signs of both t_i and d_i, and has most digits where t_i <= 0. Where |d_i| <= 1
        its first two parts are log(1 + sigma(t_i) (e^{d_i} - 1)).
        """
        t, d = -at.abs(), torch.where(at > 0, -d, d)
        slope = torch.sigmoid(t)
        near = torch.log1p(slope * torch.expm1(d.clamp(-1, 1)))
        far = _log1pexp(t + d) - _log1pexp(t)
        return self._mean((torch.where(d.abs() <= 1, near, far) - slope * d).clamp(min=0))

    def slope_bound(self, size: Tensor) -> Tensor:
        if self.weights is None:
            return torch.full_like(size, self.m**-0.5)
        norm: Tensor = torch.linalg.vector_norm(self.weights, dim=1, keepdim=True)
        return (norm / self.m).expand_as(size)

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """The largest admissible s <= 1: s = 1 is the optimal dual direction, phi* needs 0 <= s <= 1."""
        return torch.minimum(high, torch.ones_like(high)).clamp(min=0)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """mean_i KL(v_i | sigma_i) with v = y + s (sigma - y).

        With e = sigmoid(z), w = s e: KL = w log s + (1 - w) log(1 + (1 - s) e^z), where the last logarithm is that of
        (1 - w)/(1 - e).
        """
        s = scale.unsqueeze(1)
        w = s * torch.sigmoid(z)
        divergence = torch.xlogy(w, s) + (1 - w) * _log1pexp(z + torch.log1p(-s))
        return self._mean(divergence).clamp(min=0)

    def _weighted(self, rows: Rows) -> Rows:
        return rows if self.weights is None else self.weights * rows

    def _mean(self, rows: Rows) -> Scalars:
        return self._weighted(rows).mean(1)


def _log1pexp(u: Tensor) -> Tensor:
    """log(1 + e^u) for any u: torch's softplus is exact below its threshold, and u to rounding above 40."""
    return softplus(u, threshold=40.0)


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny
