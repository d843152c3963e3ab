"""Squares: f(x) = 1/2 |z|^2."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import tiny
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
        return self.best_scale(z, low, high)

    def best_scale(self, v: Rows, low: Scalars, high: Scalars) -> Scalars:
        """argmax_s of the dual value -s <v, b> - s^2 |v|^2 / 2 on [low, high]."""
        square = v.square().sum(1)
        best = torch.where(square > 0, -(v * self.target).sum(1) / square.clamp(min=tiny(square)), 1.0)
        return torch.minimum(torch.maximum(best, low), high)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """1/2 (1 - s)^2 |z|^2."""
        return 0.5 * ((1 - scale).unsqueeze(1) * z).square().sum(1)

    # --- what `free_gap` asks of every loss; phi' is z itself ---------------------------------------------------------

    @property
    def dual_domain(self) -> tuple[float, float]:
        return -torch.inf, torch.inf

    def slopes(self, z: Rows) -> Rows:
        return z

    def dual_grad(self, v: Rows) -> Vectors:
        return self.grad_at(v)

    @property
    @abstractmethod
    def row_factors(self) -> float | Tensor:
        """c with grad f = A'(c z)."""

    @property
    def row_curvature(self) -> Rows:
        """c^2."""
        factors: Tensor = torch.as_tensor(self.row_factors, dtype=self.like.dtype, device=self.like.device)
        return factors.square().expand(self.shape[0], self.m)

    def dual_metric(self, z: Rows) -> Rows:
        return torch.ones_like(z)

    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        return torch.ones_like(z), torch.ones_like(z)

    @property
    def row_shares(self) -> Rows:
        """o with f = sum_i o_i phi(z_i)."""
        return torch.ones_like(self.b)

    def divergence(self, z: Rows, v: Rows) -> Rows:
        """1/2 (z - v)^2."""
        return 0.5 * (z - v).square()

    def total(self, rows: Rows) -> Scalars:
        return rows.sum(1)


class LeastSquares(Quadratic):
    """f(x) = 1/2 |A x - b|^2, grad f(x) = A'(A x - b), L = lambda_max(A'A).

    `weights` (m,) or (B, m), >= 0: f(x) = 1/2 |z|^2 with z = diag(sqrt(w)) (A x + offset - b), and
    L = lambda_max(A' diag(w) A). `offset` (m,) or (B, m) is taken from b.
    """

    batched = ("A", "b", "root")
    stackable = True
    fenchel_young = Quadratic.fenchel_young
    root: Tensor | None = None  # sqrt(w)

    def __init__(self, A: Any, b: Any, weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        self.b = checks.rows("b", b, self.A)
        if offset is not None:
            self.b = self.b - checks.offset(offset, self.b, self.A)
        if weights is not None:
            self.root = checks.row_weights(weights, self.b, self.A).sqrt()

    @property
    def weights(self) -> Tensor | None:
        return None if self.root is None else self.root.square()

    @property
    def target(self) -> Tensor:
        """diag(sqrt(w)) b: z + target is a linear function of x."""
        return self.b if self.root is None else self.root * self.b

    def inner(self, x: Vectors) -> Rows:
        """The residual A x - b, times sqrt(w)."""
        residual = self.map.residual(x, self.b)
        return residual if self.root is None else self.root * residual

    @property
    def row_factors(self) -> float | Tensor:
        return 1.0 if self.root is None else self.root

    def grad_at(self, z: Rows) -> Vectors:
        return self.map.adjoint(z if self.root is None else self.root * z)

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """z with z + step z = t."""
        return t / (1 + step)

    def row_lift(self, u: Rows, z: Rows, step: Tensor) -> Rows:
        """u."""
        return u

    def row_turns(self, z: Rows, step: Tensor) -> tuple[Rows, Tensor | None]:
        """See `Pointwise.row_turns`."""
        return (step / (1 + step)).expand_as(z), None

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """lambda_max(A' diag(w) A), estimated by Lanczos' method (see `largest_eigenvalue`) or by singular values."""
        return self._gram_norm(self.root, exact, largest)

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R = diag(sqrt(w))."""
        return columns if self.root is None else self.root.unsqueeze(2) * columns
