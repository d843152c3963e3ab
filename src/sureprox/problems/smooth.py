"""The smooth part f of a problem: value, gradient, smoothness constant.

Write your own by subclassing `Smooth`; to get a duality gap as well, implement `HasSmoothDual`.
"""

from abc import abstractmethod
from typing import Any, Protocol, Self, runtime_checkable

import torch
from torch import Tensor
from torch.nn.functional import softplus

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.batch import BatchData, defined_at, repeated_rows
from sureprox.problems.linear import Largest, LinearMap
from sureprox.problems.spectrum import largest_eigenvalue


class Smooth(BatchData):
    """A batch of convex L-smooth functions f_i on R^n."""

    @property
    def shape(self) -> tuple[int, int]:
        """(B, n). A subclass that leaves it out must say n in another way; see `ForeignSmooth`."""
        raise InputError(f"{type(self).__name__} does not say its size; give it a property shape -> (B, n)")

    @property
    def like(self) -> Tensor:
        """A tensor whose dtype and device are those of the data: the first of real numbers, or of complex ones."""
        held = self._tensors().values()
        for value in (*(v for v in held if v.is_floating_point()), *(v.real for v in held if v.is_complex())):
            return value
        raise InputError(f"{type(self).__name__} holds no tensor of floats; give it a property like -> Tensor")

    def __init_subclass__(cls, **options: Any) -> None:
        """Where a class changes value or grad, its parent's `value_and_grad` is that of another f."""
        super().__init_subclass__(**options)
        both = defined_at(cls, "value_and_grad")
        if min(defined_at(cls, "value"), defined_at(cls, "grad")) < both:
            cls.value_and_grad = Smooth.value_and_grad  # type: ignore[method-assign]

    @abstractmethod
    def value(self, x: Vectors) -> Scalars:
        """f(x)."""

    @abstractmethod
    def grad(self, x: Vectors) -> Vectors:
        """grad f(x)."""

    def value_and_grad(self, x: Vectors) -> tuple[Scalars, Vectors]:
        """f(x) and grad f(x); where they share a product with A, it is computed once."""
        return self.value(x), self.grad(x)

    @abstractmethod
    def lipschitz(self, exact: bool = False) -> Scalars:
        """L with |grad f(x) - grad f(y)| <= L |x - y|."""


@runtime_checkable
class HasSmoothDual(Protocol):
    """f(x) = phi(A x): what the duality gap needs to know about phi, at the dual point s u, u = grad phi(A x).

    All of it is computed from z = inner(x), so that one product with A serves them all. The class of f must define
    `fenchel_young` itself: a subclass may be another function, so that it has no gap until it names its parent's,
    `fenchel_young = Parent.fenchel_young`.
    """

    def inner(self, x: Vectors) -> Rows:
        """z: A x, or what phi makes of it first, such as A x - b."""
        ...

    def value_at(self, z: Rows) -> Scalars:
        """f(x)."""
        ...

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """The best s in [low, high] (or a good one) for which phi* is finite at s u."""
        ...

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """phi(A x) + phi*(s u) - s <u, A x> >= 0, computed without cancellation."""
        ...


class LinearModel(Smooth):
    """f(x) = phi(A x), one A per instance (B, m, n) or one for all (m, n); everything is a function of z = inner(x).

    inner must be affine, so that the images of x and y give that of (1 + c) x - c y.
    """

    A: Tensor
    copies: int = 1  # points per instance, see `stacked`

    @property
    def like(self) -> Tensor:
        return self.A

    @property
    def map(self) -> LinearMap:
        return LinearMap(self.A, self.copies)

    @property
    def m(self) -> int:
        return self.A.shape[-2]

    @abstractmethod
    def inner(self, x: Vectors) -> Rows:
        """z: A x, or what phi makes of it first, such as A x - b."""

    @abstractmethod
    def value_at(self, z: Rows) -> Scalars:
        """f(x)."""

    @abstractmethod
    def grad_at(self, z: Rows) -> Vectors:
        """grad f(x)."""

    def value(self, x: Vectors) -> Scalars:
        return self.value_at(self.inner(x))

    def grad(self, x: Vectors) -> Vectors:
        return self.grad_at(self.inner(x))

    def value_and_grad(self, x: Vectors) -> tuple[Scalars, Vectors]:
        z = self.inner(x)
        return self.value_at(z), self.grad_at(z)

    def repeated(self, count: int) -> Self:
        """A shared A and a single right-hand side, as a batch of `count` equal instances."""
        return self._map(lambda name, value: value if name == "A" else value.expand(count, -1))

    def stacked(self, copies: int) -> Self:
        """The same functions for `copies` points per instance, rows i * copies + j, at one read of A."""
        clone = self._map(lambda name, value: value if name == "A" else repeated_rows(value, copies))
        clone.copies = copies
        return clone

    @abstractmethod
    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """L; `largest` estimates the largest eigenvalue of A'A."""

    @abstractmethod
    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R C for columns C (B, m, k) of A, where Hessian f(x) = (R A)'(R A)."""

    @property
    @abstractmethod
    def steepness(self) -> float | Tensor:
        """c with phi'' <= c, a number or (B, 1): grad f has the Lipschitz constant c lambda_max(A'A)."""

    @abstractmethod
    def bregman(self, d: Rows, at: Rows) -> Scalars:
        """phi(at + d) - phi(at) - <grad phi(at), d> >= 0, computed without cancellation."""

    @abstractmethod
    def slope_bound(self, size: Tensor) -> Tensor:
        """An upper bound on |grad phi(z)| where |z| = size, (B, K) for K points per instance."""

    def _is_cut(self, name: str, value: Tensor) -> bool:
        return super()._is_cut(name, value) and not (name == "A" and value.ndim == 2)  # a shared A stays whole


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
        weighted = self.map if self.weights is None else LinearMap(self.weights.sqrt().unsqueeze(2) * self.A)
        return self.curvature * weighted.gram_norm(self.shape[0], exact, largest) / self.m

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
