"""Problem = smooth part + penalty, possibly translated."""

from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Steps, Vectors
from sureprox.problems import checks
from sureprox.problems.foreign import adopt_penalty, adopt_smooth
from sureprox.problems.penalty import HasPenaltyDual, Penalty
from sureprox.problems.smooth import HasSmoothDual, LinearModel, Smooth

M = TypeVar("M", bound=LinearModel)

ROUNDING = 2  # units of roundoff by which x + t misses what x was made of


@dataclass(frozen=True)
class Certificate:
    """F(x) and two measures of how far x is from solving its instance, each (B,), and the gradient there."""

    objective: Scalars
    gap: Scalars  # upper bound on F(x) - F*; infinite where no duality gap is known
    kkt: Scalars  # max_j |d_j|, d the shortest with -grad f(x) + d in the subdifferential of r
    grad: Vectors  # grad f(x), (B, n)


class Problem:
    """A batch of problems min_x F(x) = f(x + t) + r(x + t), t = 0 unless made by `shifted`.

    Every method treats the instances alone: x and v are (B, n), results are (B, n) or (B,).
    """

    def __init__(self, f: Any, r: Any, shift: Tensor | None = None, *, grid: tuple[int, ...] | None = None) -> None:
        """f: a `Smooth` or any object with value, grad, lipschitz; r: a `Penalty` or one with value, prox, subdiff.

        `grid`: what the batch is the flattened form of, for example (responses, values of lam); (B,) by default.
        """
        f, r = adopt_smooth(f), adopt_penalty(r)
        self.f: Smooth = f
        self.r: Penalty = r.fitted(*f.shape).to(device=f.like.device, dtype=f.like.dtype)
        self.shift = shift
        self.grid = (self.batch,) if grid is None else grid

    @property
    def batch(self) -> int:
        """B."""
        return self.f.shape[0]

    @property
    def n(self) -> int:
        return self.f.shape[1]

    @property
    def dtype(self) -> torch.dtype:
        return self.f.like.dtype

    @property
    def device(self) -> torch.device:
        return self.f.like.device

    @property
    def requires_grad(self) -> bool:
        return self.f.requires_grad or self.r.requires_grad or (self.shift is not None and self.shift.requires_grad)

    def centred(self, x: Vectors) -> Vectors:
        """x + t: the point at which f and r are evaluated."""
        if not isinstance(x, Tensor) or x.shape != self.f.shape:
            got = f"shape {tuple(x.shape)}" if isinstance(x, Tensor) else f"type {type(x).__name__}"
            raise InputError(f"a point of this problem is a tensor ({self.batch}, {self.n}), got {got}")
        if x.dtype != self.dtype:
            raise InputError(f"the point has dtype {x.dtype}, the problem {self.dtype}; convert it: x.to({self.dtype})")
        if self.shift is None:
            return x
        # A point on the border of the domain, moved there and back, is next to it: it is the one on the border.
        return self.r.settled(x + self.shift, ROUNDING * torch.finfo(x.dtype).eps * (x.abs() + self.shift.abs()))

    def uncentred(self, y: Vectors) -> Vectors:
        """y - t: the inverse of `centred`."""
        return y if self.shift is None else y - self.shift

    def objective(self, x: Vectors) -> Scalars:
        """F(x)."""
        y = self.centred(x)
        return self.f.value(y) + self.r.value(y)

    def grad(self, x: Vectors) -> Vectors:
        """Gradient of the smooth part at x."""
        return self.f.grad(self.centred(x))

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """prox_{r(. + t)}(v) = prox_r(v + t) - t in the diagonal metric 1/step; exact for every t."""
        return self.uncentred(self.r.prox(self.centred(v), step))

    def descended(self, x: Vectors, g: Vectors, step: Steps) -> Vectors:
        """prox_{s r}(x - s g), g being the gradient at x."""
        return self.uncentred(self.r.prox(torch.addcmul(self.centred(x), step, g, value=-1), step))

    def proximal_step(self, x: Vectors, step: Steps) -> Vectors:
        """prox_{s r}(x - s grad f(x))."""
        return self.descended(x, self.grad(x), step)

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        """(low, high) bounds of the subdifferential of the penalty at x."""
        return self.r.subdiff(self.centred(x))

    def subgradient(self, x: Vectors, g: Vectors | None = None) -> Vectors:
        """grad f(x), which may be known as g, plus the midpoint of the subdifferential of the penalty."""
        return (self.grad(x) if g is None else g) + self.r.slope(self.centred(x))

    def lipschitz(self, exact: bool = False) -> Scalars:
        """Smoothness constant L of the smooth part."""
        L = self.f.lipschitz(exact=True) if exact else self.f.lipschitz()
        if not isinstance(L, Tensor) or L.shape != (self.batch,):
            got = f"shape {tuple(L.shape)}" if isinstance(L, Tensor) else f"a {type(L).__name__}"
            raise InputError(
                f"{type(self.f).__name__}.lipschitz returned {got}; it must return a tensor ({self.batch},)"
            )
        return L

    def step_size(self, L: Scalars | None = None) -> Scalars:
        """1/L, by default with L = `lipschitz()`; 1 where L = 0: a linear f has no natural step, and any is safe."""
        if L is None:
            L = self.lipschitz()
        return torch.where(L > 0, 1 / torch.where(L > 0, L, torch.ones_like(L)), torch.ones_like(L))

    @property
    def has_duality_gap(self) -> bool:
        return self._duals() is not None

    def _duals(self) -> tuple[HasSmoothDual, HasPenaltyDual] | None:
        """f and r if each of their classes says itself what the gap needs."""
        f, r = self.f, self.r
        if not (f.states("fenchel_young") and r.states("fenchel_young") and _have_duals(type(f), type(r))):
            return None
        return cast("tuple[HasSmoothDual, HasPenaltyDual]", (f, r))

    def duality_gap(self, x: Vectors) -> Scalars:
        """An upper bound on F(x) - F*, zero at the solution; see `certificate`."""
        if not self.has_duality_gap:
            raise InputError(
                f"no duality gap is known for {type(self.f).__name__} + {type(self.r).__name__}; "
                "use kkt_residual instead"
            )
        return self.certificate(x).gap

    def kkt_residual(self, x: Vectors) -> Scalars:
        """max_j |d_j| of the shortest d by which -grad f(x) misses the subdifferential: zero exactly at solutions."""
        return self.r.distance(self.centred(x), self.grad(x)).amax(1)

    def certificate(self, x: Vectors) -> Certificate:
        """Objective, duality gap and KKT residual, which share A x and the gradient A'u, u = grad phi(A x).

        With f(x) = phi(A x), the dual point s u and s chosen so that it is feasible, primal minus dual value is the
        sum of two Fenchel-Young gaps, each a sum of non-negative terms, so nothing cancels:
        [phi(A x) + phi*(s u) - s u'A x] + [r(x) + r*(-s A'u) + s (A'u)'x].
        """
        y, duals = self.centred(x), self._duals()
        if duals is not None:
            f, r = duals
            z = f.inner(y)
            g = _grad(self.f, y, z)
            value = f.value_at(z)
            scales = r.dual_scales(g, partial(f.dual_scale, z))
            gaps = [f.fenchel_young(z, scale) + r.fenchel_young(y, g, scale) for scale in scales]
            gap = gaps[0] if len(gaps) == 1 else torch.stack(gaps).amin(0)
        else:
            value, g = self.f.value_and_grad(y)
            gap = torch.full_like(value, torch.inf)
        return Certificate(value + self.r.value(y), gap, self.r.distance(y, g).amax(1), g)

    def residuals(self, x: Vectors, g: Vectors) -> Vectors:
        """The sizes |d_j| of `kkt_residual`, g being the gradient of the smooth part at x."""
        return self.r.distance(self.centred(x), g)

    def scale(self) -> tuple[Scalars, Scalars]:
        """(F, max_j |grad_j f|) at the point x + t = 0: what "small" is measured against, whatever the start."""
        origin = torch.zeros(self.batch, self.n, dtype=self.dtype, device=self.device)
        return self.f.value(origin) + self.r.value(origin), self.f.grad(origin).abs().amax(1)

    def shifted(self, t: Any) -> "Problem":
        """The problem F'(x) = F(x + t), t a number or broadcastable to (B, n); shifts add up."""
        shift = checks.numbers("t", t, self.dtype, self.device)
        checks.require_finite("t", shift)
        try:
            shift = shift.expand(self.batch, self.n)
        except RuntimeError as error:
            raise InputError(
                f"t has shape {tuple(shift.shape)}; pass a number or what broadcasts to ({self.batch}, {self.n})"
            ) from error
        return Problem(self.f, self.r, shift if self.shift is None else self.shift + shift, grid=self.grid)

    def to(self, device: torch.device | str | None = None, dtype: torch.dtype | None = None) -> "Problem":
        shift = None if self.shift is None else self.shift.to(device=device, dtype=dtype)
        return Problem(self.f.to(device, dtype), self.r.to(device, dtype), shift, grid=self.grid)

    def tensors(self) -> list[Tensor]:
        """All tensors the problem is made of, in a fixed order."""
        held = [*self.f.tensors(), *self.r.tensors()]
        return held if self.shift is None else [*held, self.shift]

    @property
    def selectable(self) -> bool:
        """Whether instances can be picked out; own parts that do not say how (`batched`) stay whole."""
        return self.f.selectable and self.r.selectable

    def select(self, index: Tensor) -> "Problem":
        """The instances in `index`, as a smaller batch."""
        shift = None if self.shift is None else self.shift[index]
        return Problem(self.f.select(index), self.r.select(index), shift)

    def start(self, x0: Any = None) -> Vectors:
        """A checked starting point (B, n); zeros if none is given, one (n,) serves the whole batch."""
        if x0 is None:
            return checks.trusted(torch.zeros(self.batch, self.n, dtype=self.dtype, device=self.device))
        x = checks.as_tensor("x0", x0, like=self.f.like)
        checks.require_same_kind("x0", x, "the problem", self.f.like)
        if x.shape not in ((self.batch, self.n), (self.n,)):
            raise InputError(f"x0 has shape {tuple(x.shape)}; this problem needs ({self.batch}, {self.n})")
        checks.require_finite("x0", x)
        return x if x.ndim == 2 else x.expand(self.batch, self.n)

    def __repr__(self) -> str:
        moved = "" if self.shift is None else ", shifted"
        batch = f"{self.batch}" if len(self.grid) == 1 else f"{' x '.join(map(str, self.grid))}"
        return (
            f"Problem({type(self.f).__name__} + {type(self.r).__name__}, batch={batch}, n={self.n}, "
            f"{self.dtype}, {self.device}{moved})"
        )


@cache
def _have_duals(f: type, r: type) -> bool:
    """Once for each class: Python looks through all names of a protocol each time."""
    return issubclass(f, HasSmoothDual) and issubclass(r, HasPenaltyDual)


def _grad(f: Smooth, y: Vectors, z: Rows) -> Vectors:
    """grad f(y), from z = f.inner(y) where f can do that."""
    return f.grad_at(z) if isinstance(f, LinearModel) and type(f).grad is LinearModel.grad else f.grad(y)
