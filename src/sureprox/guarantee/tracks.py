"""FISTA tracks that run beside another optimizer: several per instance, all from one product with A."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from sureprox.base.types import Scalars
from sureprox.optimizers.base import Batched
from sureprox.problems.stacked import Points

GROWTH = 1.02  # L is raised to this multiple of the curvature that was seen,
JUMP = 10.0  # but to at most this multiple of itself: a step that is far too long sees the curvature far away
FALL = 0.9  # and falls to this part of itself, where it may, when far less was seen


@dataclass(frozen=True)
class Tracks(Batched):
    """T tracks per instance: x and the extrapolated y (B, T, n), their images z and zy, t (B, T) of the momentum."""

    x: Tensor
    z: Tensor
    y: Tensor
    zy: Tensor
    t: Tensor

    @property
    def bases(self) -> Points:
        """Where the gradients are taken."""
        return Points(self.y, self.zy)

    def pace(self, x: Tensor, plain: int) -> tuple[Tensor, Tensor]:
        """t+ = (1 + sqrt(1 + 4 t^2))/2 and the momentum (t - 1)/t+ (B, T) of a step to x (B, T, n).

        Tracks from number `plain` on restart: t = 1 before this, whenever <y - x, x - x_before> > 0.
        """
        with torch.no_grad():
            t = self.t
            if plain < t.shape[1]:
                against = ((self.y - x) * (x - self.x))[:, plain:].sum(2) > 0
                t = torch.cat([t[:, :plain], torch.where(against, 1.0, t[:, plain:])], 1)
            t_next = (1 + torch.sqrt(1 + 4 * t.square())) / 2
            return t_next, (t - 1) / t_next

    def advanced(self, new: Points, accepted: Tensor, plain: int) -> "Tracks":
        """`moved` at its own pace. Since images are affine, that of y is the same combination of theirs."""
        pace = self.pace(new.x, plain)
        return self.moved(new, torch.addcmul(new.z, pace[1].unsqueeze(2), new.z - self.z), accepted, pace)

    def moved(self, new: Points, ahead: Tensor, accepted: Tensor, pace: tuple[Tensor, Tensor]) -> "Tracks":
        """x = new and y = x + momentum (x - x_before), whose image is `ahead`, where `accepted` (B, T).

        A track that is not accepted does not move.
        """
        t, momentum = pace
        keep = accepted.unsqueeze(2)
        return Tracks(
            x=torch.where(keep, new.x, self.x),
            z=torch.where(keep, new.z, self.z),
            y=torch.where(keep, torch.addcmul(new.x, momentum.unsqueeze(2), new.x - self.x), self.y),
            zy=torch.where(keep, ahead, self.zy),
            t=torch.where(accepted, t, self.t),
        )

    def paced(self, weight: Scalars, L: Scalars) -> "Tracks":
        """The first track with t^2 - t = weight L: so it goes on after L has changed.

        y - x being (t_j - 1)/t times the last move, y comes t_before/t times as far from x.
        """
        with torch.no_grad():
            t = (1 + torch.sqrt(1 + 4 * weight * L)) / 2
            share = (self.t[:, 0] / t).view(-1, 1, 1)
        y, zy = (torch.lerp(here[:, :1], there[:, :1], share) for here, there in ((self.x, self.y), (self.z, self.zy)))
        return replace(
            self,
            y=torch.cat([y, self.y[:, 1:]], 1),
            zy=torch.cat([zy, self.zy[:, 1:]], 1),
            t=torch.cat([t.unsqueeze(1), self.t[:, 1:]], 1),
        )

    def restarted(self, mask: Tensor, x: Tensor, z: Tensor) -> "Tracks":
        """All tracks anew from x (B, n) with image z where `mask` (B,)."""
        return self.where(mask, started(x, z, self.t.shape[1]))

    def where(self, mask: Tensor, other: "Tracks") -> "Tracks":
        """The tracks of `other` where `mask` (B,)."""
        rows = mask.view(-1, 1, 1)
        return Tracks(
            *(
                torch.where(rows if mine.ndim == 3 else rows[:, 0], theirs, mine)
                for mine, theirs in ((getattr(self, name), getattr(other, name)) for name in ("x", "z", "y", "zy", "t"))
            )
        )


def started(x: Tensor, z: Tensor, count: int) -> Tracks:
    """`count` tracks that start at x (B, n) with image z."""
    x, z = (part.unsqueeze(1).expand(-1, count, -1) for part in (x, z))
    return Tracks(x=x, z=z, y=x, zy=z, t=torch.ones_like(x[:, :, 0]))


def adapted(L: Scalars, lowest: Scalars, curvature: Tensor, flat: Tensor | None) -> tuple[Scalars, Tensor]:
    """(L, accepted) from the curvatures (B, T) that T steps of length 1/L have seen.

    A step is accepted where it has seen no more than L. If any is not, L becomes 1.02 times what was seen, but at least
    twice and at most ten times as large; curvatures that are not finite count as zero. Where all steps surely were
    `flat` (see `Comparison`), L falls by a tenth, not below `lowest`.
    """
    allowed = (L * (1 + 8 * torch.finfo(L.dtype).eps)).unsqueeze(1)
    accepted = curvature <= allowed
    seen = curvature.nan_to_num(nan=0.0, posinf=0.0).amax(1)
    higher = torch.minimum(JUMP * L, torch.maximum(2 * L, GROWTH * seen))
    lower = L if flat is None else torch.where(flat.all(1) & (lowest <= FALL * L), FALL * L, L)
    return torch.where(accepted.all(1), lower, higher), accepted
