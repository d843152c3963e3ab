"""Losses of one number for each row: everything about f follows from phi."""

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor

from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import ROUNDS, half_the_digits, scale_range
from sureprox.problems.smooth import LinearModel
from sureprox.problems.spectrum import Largest, largest_eigenvalue

Bound = float | Tensor  # a number, or one for each row (B, m)


class Pointwise(LinearModel):
    """f(x) = sum_i w_i phi_i(z_i), z = inner(x), w >= 0.

    A subclass says what phi is; all its methods are elementwise. `divergence` is zero at v = phi'(z).
    """

    weights: Tensor | None = None

    @abstractmethod
    def terms(self, z: Rows) -> Rows:
        """phi(z)."""

    @abstractmethod
    def slopes(self, z: Rows) -> Rows:
        """u = phi'(z)."""

    @abstractmethod
    def curvatures(self, z: Rows) -> Rows:
        """phi''(z); where phi bends at a kink of phi', one of the two."""

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """z with z + step phi'(z) = t, step (B, 1): the minimum of phi(z) + (z - t)^2 / (2 step)."""
        return self.rooted(t, step, t)

    def row_lift(self, u: Rows, z: Rows, step: Tensor) -> Rows:
        """u; or, where row_prox(z + step u) rests at an end of the domain, the nearest one where it begins to move."""
        return u

    def rooted(self, t: Rows, step: Tensor, z: Rows) -> Rows:
        """`row_prox` by Newton's method from z.

        The root lies between t and t - step phi'(t); a step that leaves what is known of it is cut to half of that.
        """
        ends = t, t - step * self.slopes(t)
        low, high = torch.minimum(*ends), torch.maximum(*ends)
        z = torch.minimum(torch.maximum(z, low), high)
        for _ in range(ROUNDS):
            above = z + step * self.slopes(z) - t
            low, high = torch.where(above <= 0, z, low), torch.where(above >= 0, z, high)
            new = z - above / (1 + step * self.curvatures(z))
            inside = (new >= low) & (new <= high)
            new = torch.where(inside, new, (low + high) / 2)
            enough = torch.where(inside, half_the_digits(t), 2 * torch.finfo(t.dtype).eps) * (1 + z.abs())
            done = bool(((new - z).abs() <= enough).all())
            z = new
            if done:
                break
        return z

    def row_turns(self, z: Rows, step: Tensor) -> tuple[Rows, Tensor | None]:
        """step times the derivative of z = row_prox(t, step) in t: step / (1 + step phi''), and no more than that."""
        return step / (1 + step * self.curvatures(z)), None

    @property
    @abstractmethod
    def curvature_bound(self) -> Bound:
        """c with phi'' <= c."""

    @abstractmethod
    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        """(least, most), what phi'' is between z and all t, as far as D = phi(z) + phi*(v) - v z <= rise, v in dphi(t).

        D >= least/2 (z - t)^2 and D >= (phi'(z) - v)^2 / (2 most). Both follow from bounds of phi'' between z and t.
        """

    @abstractmethod
    def conjugates(self, v: Rows) -> Rows:
        """phi*(v) = max_z v z - phi(z); infinite outside `dual_domain`."""

    @property
    @abstractmethod
    def dual_domain(self) -> tuple[Bound, Bound]:
        """(low, high): phi* is finite between them, 0 included."""

    @abstractmethod
    def divergence(self, z: Rows, v: Rows) -> Rows:
        """phi(z) + phi*(v) - v z >= 0, without cancellation; infinite where phi* is."""

    @abstractmethod
    def dual_gaps(self, z: Rows, scale: Scalars) -> Rows:
        """`divergence(z, s u)`, u = phi'(z), from the exact 1 - s."""

    @abstractmethod
    def rises(self, d: Rows, at: Rows) -> Rows:
        """phi(at + d) - phi(at) - phi'(at) d >= 0, without cancellation."""

    @property
    @abstractmethod
    def steepest(self) -> Bound:
        """|phi'| is at most this."""

    def value_at(self, z: Rows) -> Scalars:
        return self.total(self.terms(z))

    def grad_at(self, z: Rows) -> Vectors:
        return self.dual_grad(self.slopes(z))

    def total(self, rows: Rows) -> Scalars:
        """sum_i w_i rows_i; a row of weight zero does not count, were it infinite."""
        return rows.sum(1) if self.weights is None else _times(self.weights, rows).sum(1)

    def dual_grad(self, v: Rows) -> Vectors:
        """A'(w v): grad f if phi' were v."""
        return self.map.adjoint(v if self.weights is None else self.weights * v)

    @property
    def row_factors(self) -> float | Tensor:
        """c with grad f = A'(c phi'(z))."""
        return 1.0 if self.weights is None else self.weights

    @property
    def row_shares(self) -> Rows:
        """o with f = sum_i o_i phi(z_i)."""
        factors: Tensor = torch.as_tensor(self.row_factors, dtype=self.like.dtype, device=self.like.device)
        return factors.abs().expand(self.shape[0], self.m)

    @property
    def row_curvature(self) -> Rows:
        """o times the bound of phi''."""
        return self.row_shares * self.curvature_bound

    def dual_metric(self, z: Rows) -> Rows:
        """k with k * (R C c) = phi'' C c: what a step c on columns C changes of phi', from `hessian_root`."""
        curvature = self.curvatures(z)
        if self.weights is None:
            return curvature.sqrt()
        counted = self.weights > 0
        return torch.where(counted, curvature / torch.where(counted, self.weights, 1.0), 0.0).sqrt()

    def best_scale(self, v: Rows, low: Scalars, high: Scalars) -> Scalars:
        """A good s for the dual point s v, in [low, high] and in the domain: as close to 1 as possible, not below 0."""
        limit = torch.minimum(high, scale_range(v, *self.dual_domain)[1])
        return torch.minimum(limit, torch.ones_like(limit)).clamp(min=0)

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """The largest s <= 1 in [low, high]: s = 1 is the optimal dual direction, and 0 <= s <= 1 is in the domain."""
        return torch.minimum(high, torch.ones_like(high)).clamp(min=0)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """sum_i w_i divergence(z_i, s u_i)."""
        return self.total(self.dual_gaps(z, scale)).clamp(min=0)

    def bregman(self, d: Rows, at: Rows) -> Scalars:
        return self.total(self.rises(d, at))

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """lambda_max(A' diag(w c) A), c the bound of phi'': estimated by Lanczos' method, or exact."""
        bound = self.curvature_bound
        if isinstance(bound, Tensor):
            weighted = bound if self.weights is None else self.weights * bound
            return self._gram_norm(weighted.sqrt(), exact, largest)
        root = None if self.weights is None else self.weights.sqrt()
        return bound * self._gram_norm(root, exact, largest)

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R = diag(sqrt(w phi''))."""
        curvature = self.curvatures(self.inner(x))
        weighted = curvature if self.weights is None else self.weights * curvature
        return weighted.sqrt().unsqueeze(2) * columns

    @property
    def steepness(self) -> float | Tensor:
        return self._largest(self.curvature_bound)

    def slope_bound(self, size: Tensor) -> Tensor:
        """sqrt(sum_i (w_i max |phi'|)^2)."""
        steep, w = self.steepest, self.weights
        if w is None and not isinstance(steep, Tensor):
            return torch.full_like(size, self.m**0.5 * steep)
        rows = torch.as_tensor(steep, dtype=size.dtype, device=size.device)
        rows = rows if w is None else _times(w, rows)
        norm: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
        return norm.expand_as(size)

    def _largest(self, bound: Bound) -> Bound:
        """The largest w_i bound_i of each instance."""
        if self.weights is not None:
            return (self.weights * bound).amax(1, keepdim=True)
        return bound.amax(1, keepdim=True) if isinstance(bound, Tensor) else bound

    def _weigh(self, weights: Any, like: Rows) -> None:
        """Keep `weights`, if there are any, checked."""
        if weights is not None:
            self.weights = checks.row_weights(weights, like, self.A)


def _times(weights: Rows, rows: Tensor) -> Tensor:
    """w rows, zero where w = 0."""
    return torch.where(weights > 0, weights * rows, 0.0)
