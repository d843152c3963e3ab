"""The Poisson loss, for counts."""

from enum import StrEnum
from typing import Any

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Rows, Scalars, Vectors
from sureprox.problems import checks
from sureprox.problems.losses.functions import exp_above_line, log_below_line, omega, relative_entropy
from sureprox.problems.losses.pointwise import Bound, Pointwise

ROOM = 40.0  # e^z stays so many powers of e below the largest number, so that products with it are finite


class Link(StrEnum):
    LOG = "log"
    IDENTITY = "identity"


class Poisson(Pointwise):
    """f(x) = sum_i w_i [mu_i - y_i + y_i log(y_i / mu_i)] >= 0, z = A x + offset, y >= 0.

    Half of the Poisson deviance, which is the negative log-likelihood but for a constant of the data. y, `weights` >= 0
    and `offset` are (B, m) or (m,); y need not be whole numbers.

    `link="log"`: mu = e^z. The second derivative e^z has no bound, so there is no L: `lipschitz` is that of a bound
    max(e^offset, y) and only a first guess. Certified solves, the default, raise it where it is too small; optimizers
    alone (`certify=False`) may diverge. Where e^z comes within e^40 of the largest number, f is infinite.

    `link="identity"`: mu = z, f infinite where z < 0, or z = 0 < y. An offset > 0 is needed wherever y > 0, a
    background of the counts. With A, x >= 0 the second derivative is at most y / offset^2, of which `lipschitz` is
    made: use a penalty that keeps x >= 0.
    """

    batched = ("A", "y", "weights", "offset")
    fenchel_young = Pointwise.fenchel_young
    offset: Tensor | None = None

    def __init__(self, A: Any, y: Any, link: str = "log", weights: Any = None, offset: Any = None) -> None:
        self.A = checks.matrix(A)
        self.y = checks.counts(y, self.A)
        try:
            self.link = Link(link)
        except ValueError:
            raise InputError(f"link is {link!r}; choose 'log' or 'identity'") from None
        self._weigh(weights, self.y)
        if offset is not None:
            self.offset = checks.offset(offset, self.y, self.A)
        if self.link is Link.IDENTITY:
            self._require_background()

    def _require_background(self) -> None:
        background = torch.zeros_like(self.y) if self.offset is None else self.offset
        wrong = (background < 0) | ((background == 0) & (self.y > 0))
        if bool(wrong.any()):
            value = float(background.detach()[wrong][0])
            raise InputError(
                f"offset is {value:g} for some row; link='identity' needs offset >= 0, and > 0 wherever y > 0"
            )

    @property
    def shape(self) -> tuple[int, int]:
        return self.y.shape[0], self.n

    @property
    def guesses_curvature(self) -> bool:
        return True

    @property
    def restricts(self) -> bool:
        return self.link is Link.IDENTITY

    def inner(self, x: Vectors) -> Rows:
        """A x + offset."""
        z = self.map.forward(x)
        return z if self.offset is None else z + self.offset

    def _mean(self, z: Rows) -> Rows:
        """mu, at the end of the domain where z is beyond."""
        if self.link is Link.LOG:
            return z.clamp(max=_highest(z)).exp()
        least = torch.finfo(z.dtype).tiny ** 0.5
        return torch.where(z > least * self.y, z, least * self.y)

    def _inside(self, z: Rows) -> Tensor:
        if self.link is Link.LOG:
            return z <= _highest(z)
        return (z > 0) | ((z == 0) & (self.y == 0))

    def _log_mean(self, z: Rows, mu: Rows) -> Rows:
        return z if self.link is Link.LOG else torch.where(mu > 0, mu, 1.0).log()

    def terms(self, z: Rows) -> Rows:
        mu = self._mean(z)
        terms = relative_entropy(self.y, mu, mu - self.y, self._log_mean(z, mu))
        return torch.where(self._inside(z), terms, torch.inf)

    def slopes(self, z: Rows) -> Rows:
        """e^z - y, or 1 - y/z."""
        mu = self._mean(z)
        if self.link is Link.LOG:
            return mu - self.y
        positive = self.y > 0
        safe = torch.where(positive, mu, 1.0)
        return torch.where(positive, (safe - self.y) / safe, 1.0)

    def curvatures(self, z: Rows) -> Rows:
        """e^z, or y/z^2."""
        mu = self._mean(z)
        if self.link is Link.LOG:
            return mu
        safe = torch.where(self.y > 0, mu, 1.0)
        return self.y / safe / safe

    def row_prox(self, t: Rows, step: Tensor) -> Rows:
        """log: z = T - w, T = t + step y, with w = step e^z, so that w + log w = T + log step.

        identity: the root >= 0 of z^2 - (t - step) z - step y.
        """
        if self.link is Link.IDENTITY:
            half = (t - step) / 2
            root = (half.square() + step * self.y).sqrt()
            other = torch.where(half > 0, 1.0, root - half).clamp(min=torch.finfo(t.dtype).tiny)
            return torch.where(half > 0, half + root, step * self.y / other)
        T, scale = t + step * self.y, step.log()
        w = omega(T + scale)
        return torch.where(w > 1, w.log() - scale, T - w)

    def row_lift(self, u: Rows, z: Rows, step: Tensor) -> Rows:
        """identity, y = 0: phi is a line that ends at 0, where row_prox rests for u < 1 - z / step."""
        if self.link is Link.LOG:
            return u
        return torch.where(self.y > 0, u, torch.maximum(u, 1 - z / step))

    def curvature_within(self, z: Rows, rise: Rows) -> tuple[Rows, Rows]:
        """How far mu may go, at which phi'' = mu (log), or y / mu^2 (identity).

        log: D = q log(q/mu) - q + mu for the mean q at t, >= (q - mu)^2 / (2 mu) where q < mu, and
        >= d^2 / (2 (mu + d/3)) where q = mu + d > mu.
        identity: D = y (w - 1 - log w), w = z/t, >= y (w - 1)^2 / 2 where w < 1, >= y (w - 1)^2 / (2 w) where w > 1.
        Where y = 0, phi is a line that ends at 0: D = (1 - v) z.
        """
        mu = self._mean(z)
        if self.link is Link.LOG:
            third = rise / 3
            return (mu - (2 * mu * rise).sqrt()).clamp(min=0), mu + third + (third.square() + 2 * mu * rise).sqrt()
        positive = self.y > 0
        part = rise / torch.where(positive, self.y, 1.0)
        least = (1 - (2 * part).sqrt()).clamp(min=0)
        most = 1 + part + (part.square() + 2 * part).sqrt()
        bend = self.y / mu.square()
        return torch.where(positive, bend * least.square(), 0.0), torch.where(
            positive, bend * most.square(), rise / (2 * mu.square())
        )

    @property
    def curvature_bound(self) -> Tensor:
        """max(e^offset, y), which is none, or y / offset^2, which is one for A, x >= 0."""
        if self.link is Link.IDENTITY:
            return self.curvatures(torch.zeros_like(self.y) if self.offset is None else self.offset)
        if self.offset is None:
            return self.y.clamp(min=1)
        return torch.maximum(self._mean(self.offset), self.y)

    @property
    def steepness(self) -> Bound:
        return torch.inf if self.link is Link.LOG else super().steepness

    @property
    def steepest(self) -> Bound:
        if self.link is Link.LOG:
            return torch.inf
        return self.slopes(torch.zeros_like(self.y) if self.offset is None else self.offset).abs().clamp(min=1)

    @property
    def dual_domain(self) -> tuple[Bound, Bound]:
        """v >= -y, or v <= 1 (v < 1 where y > 0)."""
        return (-self.y, torch.inf) if self.link is Link.LOG else (-torch.inf, 1.0)

    def conjugates(self, v: Rows) -> Rows:
        """q log q - q - y log y + y with q = v + y; or -y log(1 - v)."""
        if self.link is Link.LOG:
            q = v + self.y
            entropy = torch.xlogy(q, q) - q - torch.xlogy(self.y, self.y) + self.y
            return torch.where(q >= 0, entropy, torch.inf)
        left = torch.where(self.y > 0, -self.y * torch.log1p(-v.clamp(max=1)), 0.0)
        return torch.where(v <= 1, left, torch.inf)

    def divergence(self, z: Rows, v: Rows) -> Rows:
        """q log(q / mu) - q + mu with q = v + y, mu = e^z; or with q = y, mu = z (1 - v)."""
        low, high = self.dual_domain
        gaps = self._gaps(z, v, self._mean(z) - self.y - v)
        if self.link is Link.IDENTITY:
            gaps = self._gaps(z, v, z - self.y - v * z)
        return torch.where((v >= low) & (v <= high), gaps, torch.inf)

    def dual_gaps(self, z: Rows, scale: Scalars) -> Rows:
        s = scale.unsqueeze(1)
        u = self.slopes(z)
        excess = (1 - s) * (u if self.link is Link.LOG else z - self.y)
        return self._gaps(z, s * u, excess)

    def _gaps(self, z: Rows, v: Rows, excess: Rows) -> Rows:
        """`divergence`, from mu - q = `excess`."""
        mu = self._mean(z)
        if self.link is Link.LOG:
            gaps = relative_entropy((v + self.y).clamp(min=0), mu, excess, z)
        else:
            left = mu * (1 - v)
            log_left = torch.where(left > 0, left, 1.0).log()
            gaps = relative_entropy(self.y, left, excess, torch.where(left > 0, log_left, -torch.inf))
        return torch.where(self._inside(z), gaps, torch.inf)

    def rises(self, d: Rows, at: Rows) -> Rows:
        """e^t (e^d - 1 - d), t = at; or y (r - log(1 + r)), r = d / t."""
        mu, there = self._mean(at), at + d
        if self.link is Link.LOG:
            near = mu * exp_above_line(d.clamp(-1, 1))
            far = self._mean(there) - mu - mu * d
            rise = torch.where(d.abs() <= 1, near, far)
        else:
            r = torch.where(self.y > 0, d / torch.where(self.y > 0, mu, 1.0), 0.0)
            safe = torch.where(r > -1, r, 0.0)
            rise = self.y * log_below_line(safe)
        return torch.where(self._inside(there), rise, torch.inf).nan_to_num(nan=torch.inf, posinf=torch.inf)


def _highest(like: Tensor) -> float:
    """The largest z whose e^z counts as finite."""
    return float(torch.tensor(torch.finfo(like.dtype).max, dtype=torch.float64).log()) - ROOM
