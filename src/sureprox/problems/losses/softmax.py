"""The multinomial logistic loss."""

from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import (
    ROUNDS,
    exp_above_line,
    half_the_digits,
    log1pexp,
    omega,
    relative_entropy,
    scale_range,
)
from sureprox.problems.operators.repeated import Repeated
from sureprox.problems.smooth import LinearModel
from sureprox.problems.spectrum import Largest, largest_eigenvalue


class Softmax(LinearModel):
    """f(x) = sum_i w_i [log(sum_c e^{z_ic}) - z_{i, y_i}], z_c = A x_c + offset_c, for k classes c, y_i in 0..k-1.

    x (B, k n) is x_1, ..., x_k one after the other, as the rows of scikit-learn's `coef_`.
    L = lambda_max(A' diag(w) A) / 2.
    A: (B, m, n), or (m, n) shared by the batch; y and `weights` >= 0: (B, m) or (m,); `offset`: (B, m, k) or (m, k).
    `classes`: k, by default the largest label plus one.

    z = inner(x) holds the rows of the first class, then those of the second, ...: (B, k m).
    """

    batched = ("A", "y", "weights", "offset")
    stackable = True
    weights: Tensor | None = None
    offset: Tensor | None = None  # (B, k m)

    def __init__(self, A: Any, y: Any, classes: int | None = None, weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        self.y, self.classes = checks.classes(y, classes, self.A)  # floats: they say the dtype where A does not
        if weights is not None:
            self.weights = checks.row_weights(weights, self.y, self.A)
        if offset is not None:
            self.offset = self._offset(offset, self.y)

    def _offset(self, offset: Any, labels: Rows) -> Tensor:
        tensor = checks.as_tensor("offset", offset, like=labels)
        checks.require_same_kind("offset", tensor, "A", labels)
        wanted = (*labels.shape, self.classes)
        if tuple(tensor.shape) not in (wanted, wanted[1:]):
            raise InputError(f"offset has shape {tuple(tensor.shape)}; {self.classes} classes need {wanted}")
        checks.require_finite("offset", tensor)
        return tensor.expand(wanted).mT.flatten(1)

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0], self.n

    @property
    def n(self) -> int:
        return self.classes * super().n

    @property
    def m(self) -> int:
        """Numbers in an image: one for each row and class."""
        return self.classes * super().m

    @property
    def map(self) -> Repeated:
        return Repeated(super().map, self.classes)

    def inner(self, x: Vectors) -> Rows:
        z = self.map.forward(x)
        return z if self.offset is None else z + self.offset

    # --- rows and classes ---------------------------------------------------------------------------------------------

    def _split(self, z: Rows) -> Tensor:
        """(B, k, m)."""
        return z.reshape(len(z), self.classes, -1)

    @property
    def _given(self) -> Tensor:
        """(B, k, m): whether a row has this class."""
        every = torch.arange(self.classes, device=self.y.device).view(1, -1, 1)
        given: Tensor = self.y.unsqueeze(1) == every.to(self.y.dtype)
        return given

    def _weighted(self, rows: Rows) -> Rows:
        """w times rows (B, m) or (B, k m)."""
        if self.weights is None:
            return rows
        return rows * (self.weights if rows.shape == self.weights.shape else self.weights.repeat(1, self.classes))

    # --- the loss -----------------------------------------------------------------------------------------------------

    def terms(self, z: Rows) -> Tensor:
        """log(1 + e^M), M = log sum_c e^{z_c - z_y} over the other classes c, for each row (B, m)."""
        split, given = self._split(z), self._given
        own = split.gather(1, self.y.long().unsqueeze(1))
        return log1pexp((split - own).masked_fill(given, -torch.inf).logsumexp(1))

    def value_at(self, z: Rows) -> Scalars:
        return self.total(self.terms(z))

    def slopes(self, z: Rows) -> Rows:
        """p - e_y, p = softmax(z); the entry of y is minus the sum of the others."""
        others = self._split(z).softmax(1).masked_fill(self._given, 0.0)
        return torch.where(self._given, -others.sum(1, keepdim=True), others).flatten(1)

    def grad_at(self, z: Rows) -> Vectors:
        return self.dual_grad(self.slopes(z))

    def dual_grad(self, v: Rows) -> Vectors:
        """(I kron A)'(w v): grad f if the slopes were v."""
        return self.map.adjoint(self._weighted(v))

    def total(self, rows: Rows) -> Scalars:
        return self._weighted(rows).sum(1)

    def lipschitz(self, exact: bool = False, largest: Largest = largest_eigenvalue) -> Scalars:
        """lambda_max(A' diag(w) A)/2: no covariance of an indicator has an eigenvalue above 1/2."""
        root = None if self.weights is None else self.weights.sqrt()
        return 0.5 * self.map.operator.gram_norm(self.shape[0], exact, largest, root)

    def hessian_root(self, x: Vectors, columns: Tensor) -> Tensor:
        """R = diag(sqrt(w)) (I - q q') diag(q) for each row, q = sqrt(p)."""
        q = self._split(self.inner(x)).softmax(1).sqrt().unsqueeze(3)
        scaled = q * columns.unflatten(1, (self.classes, -1))
        root: Tensor = scaled - q * (q * scaled).sum(1, keepdim=True)
        if self.weights is not None:
            root = self.weights.sqrt().unsqueeze(1).unsqueeze(3) * root
        return root.flatten(1, 2)

    @property
    def steepness(self) -> float | Tensor:
        return 0.5 if self.weights is None else 0.5 * self.weights.amax(1, keepdim=True)

    def slope_bound(self, size: Tensor) -> Tensor:
        """|p - e_y| <= sqrt(2) in each row."""
        w = torch.ones_like(size[:, :1]) * super().m ** 0.5 if self.weights is None else self.weights
        norm: Tensor = torch.linalg.vector_norm(w, dim=1, keepdim=True)
        return (2**0.5 * norm).expand_as(size)

    def bregman(self, d: Rows, at: Rows) -> Scalars:
        """sum_i w_i log(sum_c p_c e^{d_c}) where sum_c p_c d_c = 0, as log(1 + sum_c p_c (e^{d_c} - 1 - d_c))."""
        t, d = self._split(at), self._split(d)
        p = t.softmax(1)
        centred = d - (p * d).sum(1, keepdim=True)
        near = torch.log1p((p * exp_above_line(centred.clamp(-1, 1))).sum(1))
        far = (t + d).logsumexp(1) - t.logsumexp(1) - (p * d).sum(1)
        rises = torch.where((centred.abs() <= 1).all(1), near, far).clamp(min=0)
        return self.total(rises)

    # --- proximal points of a row -------------------------------------------------------------------------------------

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """z with z + step (p - e_y) = t: z = T - w, w = step p, T = t + step e_y.

        w_c + log w_c = T_c - mu for the one mu where they sum to `step`. The sum is convex in mu and falls, so that
        Newton's method comes from below, where the largest w_c alone is as large: mu = max_c T_c - step - log step.
        """
        T, whole = self._split(t) + step.unsqueeze(2) * self._given, step.unsqueeze(2)
        mu = T.amax(1, keepdim=True) - whole - whole.log()
        for _ in range(ROUNDS):
            w = omega(T - mu)
            above = w.sum(1, keepdim=True) - whole
            mu = mu + above.clamp(min=0) / (w / (1 + w)).sum(1, keepdim=True)
            if bool((above <= half_the_digits(t) * whole).all()):
                break
        return (T - omega(T - mu)).flatten(1)

    def row_lift(self, u: Rows, z: Rows, step: Tensor) -> Rows:
        """u."""
        return u

    def row_turns(self, z: Rows, step: Tensor) -> tuple[Rows, Tensor | None]:
        """step (I + step (diag(p) - p p'))^-1 = diag(d) + e e' for each row: d, and e (B, k, m).

        d = step / (1 + step p) and e = p d / sqrt(sum_c p_c / (1 + step p_c)).
        """
        p, tau = self._split(z).softmax(1), step.unsqueeze(2)
        left = p / (1 + tau * p)
        return (tau / (1 + tau * p)).flatten(1), tau * left / left.sum(1, keepdim=True).sqrt()

    # --- its dual: the slopes are p - e_y for all distributions p -----------------------------------------------------

    @property
    def dual_domain(self) -> tuple[Tensor, float]:
        """-e_y <= v; and the v of a row sum to zero."""
        return -self._given.flatten(1).to(self.like.dtype), torch.inf

    def conjugates(self, v: Rows) -> Tensor:
        """sum_c q_c log q_c, q = v + e_y, for each row (B, m)."""
        q = self._split(v) + self._given
        inside = (q >= 0).all(1) & ((q.sum(1) - 1).abs() <= 64 * torch.finfo(q.dtype).eps)
        return torch.where(inside, torch.xlogy(q, q).sum(1), torch.inf)

    def divergence(self, z: Rows, v: Rows) -> Rows:
        """q log(q / p) - q + p, q = v + e_y: their sum over the classes is KL(q | p)."""
        gaps = self._gaps(z, v, self.slopes(z) - v)
        return torch.where(v >= self.dual_domain[0], gaps, torch.inf)

    def _gaps(self, z: Rows, v: Rows, excess: Rows) -> Rows:
        """`divergence` from p - q = `excess`."""
        log_p = self._split(z).log_softmax(1).flatten(1)
        q = (v + self._given.flatten(1)).clamp(min=0)
        return relative_entropy(q, log_p.exp(), excess, log_p)

    @property
    def row_factors(self) -> float | Tensor:
        """c with grad f = (I kron A)'(c v), v the slopes."""
        return 1.0 if self.weights is None else self.weights.repeat(1, self.classes)

    @property
    def row_shares(self) -> Rows:
        """The weight of each row, once for each class."""
        if self.weights is None:
            return torch.ones(self.shape[0], self.m, dtype=self.like.dtype, device=self.like.device)
        return self.weights.repeat(1, self.classes)

    @property
    def row_curvature(self) -> Rows:
        """w / 4: the diagonal alone, w p (1 - p)."""
        return self.row_shares / 4

    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        """(0, 1/4): the D of a row is KL(q | p) >= 2 (q_c - p_c)^2 for each class c, the binary divergence of that.

        From below nothing is said: D does not change with a constant that is added to all classes.
        """
        return torch.zeros_like(z), torch.full_like(z, 0.25)

    def dual_metric(self, z: Rows) -> Rows:
        """sqrt(p / w): see `Pointwise.dual_metric`; the slopes that a step changes sum to zero in each row."""
        p = self._split(z).softmax(1).flatten(1)
        if self.weights is None:
            return p.sqrt()
        w = self.weights.repeat(1, self.classes)
        return torch.where(w > 0, p / torch.where(w > 0, w, 1.0), 0.0).sqrt()

    def best_scale(self, v: Rows, low: Scalars, high: Scalars) -> Scalars:
        """A good s for the dual point s v, in [low, high] and in the domain: as close to 1 as possible, not below 0."""
        limit = torch.minimum(high, scale_range(v, *self.dual_domain)[1])
        return torch.minimum(limit, torch.ones_like(limit)).clamp(min=0)

    def dual_scale(self, z: Rows, low: Scalars, high: Scalars) -> Scalars:
        """The largest s <= 1 in [low, high]."""
        return torch.minimum(high, torch.ones_like(high)).clamp(min=0)

    def fenchel_young(self, z: Rows, scale: Scalars) -> Scalars:
        """sum_i w_i KL(q_i | p_i), q = s p + (1 - s) e_y."""
        s, u = scale.unsqueeze(1), self.slopes(z)
        return self.total(self._gaps(z, s * u, (1 - s) * u)).clamp(min=0)
