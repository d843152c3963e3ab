"""Penalties of disjoint groups of coordinates, through the Euclidean norm |x_g| of each group."""

from abc import abstractmethod
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from sureprox.base.errors import InputError
from sureprox.base.types import Scalars, Steps, Vectors
from sureprox.problems import penalty_input
from sureprox.problems.batch import repeated_rows
from sureprox.problems.penalty import Best, Penalty
from sureprox.problems.penalty_input import NONE
from sureprox.problems.separable import column, soft_threshold

ROUNDS = 60  # of Newton's method for a norm; it takes fewer than ten, and none where a group has one step size


class Groups(Penalty):
    """What penalties of groups share: `groups`, (n,) the number of each coordinate's group, and a weight for each.

    The groups may be given as that, with -1 for a coordinate that is in no group and has no penalty, or as lists of
    coordinates, one for each group; the coordinates that no list names are in none.
    """

    batched: ClassVar[tuple[str, ...]] = ("lam",)

    def __init__(self, groups: Any, lam: Any, weights: Any = None) -> None:
        self.listed = penalty_input.is_list_of_groups(groups)  # lists may leave out the last coordinates
        self.groups = penalty_input.from_lists(groups) if self.listed else penalty_input.labels(groups)
        self.count = int(self.groups.max()) + 1
        self.lam = penalty_input.per_instance("lam", lam)
        self.weights = penalty_input.nonnegative("weights", [1.0] * self.count if weights is None else weights)
        if tuple(self.weights.shape) != (self.count,):
            raise InputError(f"weights has shape {tuple(self.weights.shape)}; there are {self.count} groups")

    def fitted(self, batch: int, n: int) -> Self:
        size = len(self.groups)
        if size > n or (size < n and not self.listed):
            raise InputError(f"groups name {size} coordinates; this problem has {n}")
        for name in self.batched:
            value = getattr(self, name)
            if value is not None and value.ndim == 1 and len(value) != batch:
                raise InputError(f"{name} has shape ({len(value)},); f has a batch of {batch}: pass ({batch},)")
        rest = torch.full((n - size,), NONE, dtype=torch.int64, device=self.groups.device)
        return self._map(lambda name, value: torch.cat([value, rest]) if name == "groups" and len(rest) else value)

    def stacked(self, copies: int) -> Self:
        return self._map(lambda name, value: repeated_rows(value, copies) if self._is_cut(name, value) else value)

    def subdiff(self, x: Vectors) -> tuple[Vectors, Vectors]:
        kind = type(self).__name__
        raise InputError(
            f"{kind} is not separable, and this method needs the subdifferential of each coordinate; "
            "use a method that takes proximal steps alone, such as FISTA(restart=True)"
        )

    def scaled(self, scale: Scalars) -> Self:
        """scale * r, scale (B,); for balls the radius."""
        return self._map(lambda name, value: value * scale if name in (self.batched or ()) else value)

    def flat_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """All s for which r* does not grow."""
        return self.dual_range(g)

    @property
    def size(self) -> Tensor:
        """lam w_g, (1, G) or (B, G)."""
        return column(self.lam) * self.weights

    def norms(self, x: Vectors) -> Tensor:
        """|x_g| for every group, (B, G)."""
        largest = x.abs().amax(1, keepdim=True)  # squares of what is divided by it neither overflow nor all underflow
        scale = torch.where((largest > 0) & torch.isfinite(largest), largest, 1.0)
        return self.summed((x / scale).square()).sqrt() * scale

    def summed(self, terms: Vectors) -> Tensor:
        """The sums over the groups, (B, G)."""
        total = terms.new_zeros(len(terms), self.count + 1)
        return total.index_add(1, self._places, terms)[:, : self.count]

    def largest(self, terms: Vectors) -> Tensor:
        """The largest of the terms >= 0 in each group, (B, G)."""
        most = terms.new_zeros(len(terms), self.count + 1)
        return most.scatter_reduce(1, self._places.expand_as(terms), terms, "amax")[:, : self.count]

    def spread(self, values: Tensor, outside: float) -> Tensor:
        """The value (B, G) of each coordinate's group, (B, n); `outside` where it has none."""
        rest = values.new_full((len(values), 1), outside)
        return torch.cat([values, rest], 1)[:, self._places]

    @property
    def _places(self) -> Tensor:
        """(n,) with `count` for coordinates in no group."""
        return torch.where(self.groups == NONE, self.count, self.groups)

    @property
    def grouped(self) -> Tensor:
        """(n,) bool: the coordinate is in a group."""
        return self.groups != NONE

    def loose(self, x: Vectors) -> tuple[Tensor, Tensor]:
        """(up, down), (B, n) bool: coordinates without any penalty."""
        free = (self.spread(self.size.expand(len(x), -1), 0.0) == 0) & (self.floor_slope(x) == 0)
        return free, free

    @abstractmethod
    def certain_zeros(self, g: Vectors, reach: Vectors) -> Tensor:
        """(B, n) bool: x_j = 0 wherever -g' is in the subdifferential at x and |g'_j - g_j| <= reach_j for all j."""

    def floor_slope(self, x: Vectors) -> Vectors:
        """l1 of a penalty that has one."""
        return torch.zeros_like(x)

    @abstractmethod
    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """(low, high): all s with r*(-s g) finite."""


class SparseGroup(Groups):
    """r(x) = l1 |x|_1 + lam sum_g w_g |x_g|, disjoint groups of any sizes; w_g = 1 unless `weights` (G,) are given.

    l1, lam >= 0 are numbers or one per instance (B,).
    """

    batched = ("lam", "l1")
    stackable = True
    finite_everywhere = True
    l1: Tensor | None

    def __init__(self, groups: Any, l1: Any, lam: Any, weights: Any = None) -> None:
        super().__init__(groups, lam, weights)
        self.l1 = penalty_input.per_instance("l1", l1)

    def value(self, x: Vectors) -> Scalars:
        total = (self.size * self.norms(x)).sum(1)
        return total if self.l1 is None else total + self.l1 * x.abs().sum(1)

    def difference(self, x: Vectors, y: Vectors) -> Scalars:
        """|x_g| - |y_g| = <x_g - y_g, x_g + y_g> / (|x_g| + |y_g|): no digits are lost where x is close to y."""
        both = self.norms(x) + self.norms(y)
        apart = self.summed((x - y) * (x + y)) / torch.where(both > 0, both, 1.0)
        change = (self.size * apart).sum(1)
        return change if self.l1 is None else change + self.l1 * (x.abs() - y.abs()).sum(1)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """x_g = u_g / (1 + w step / |x_g|) with u = S(v, l1 step); 0 where |u_g / step| <= w.

        With one step size in a group |x_g| = |u_g| - w step; otherwise it solves sum_j u_j^2 / (t + w step_j)^2 = 1.
        """
        u = v if self.l1 is None else soft_threshold(v, column(self.l1) * step)
        step = step.expand_as(u)
        norm = self._norm_of_prox(u, self.spread(self.size.expand(len(u), -1), 0.0) * step)
        there = self.spread(norm, 1.0)
        factor = there / (there + self.spread(self.size.expand(len(u), -1), 0.0) * step).clamp(min=_tiny(u))
        return torch.where(self.grouped, u * factor, u)

    def _norm_of_prox(self, u: Vectors, shift: Vectors) -> Tensor:
        """(B, G): t > 0 with sum_j u_j^2 / (t + shift_j)^2 = 1, or 0 where there is none, by Newton's method.

        1 / |u / (t + shift)| - 1 is concave in t, so that from t = |u| - max shift it rises to its zero.
        """
        t = (self.norms(u) - self.largest(shift)).clamp(min=0)
        for _ in range(ROUNDS):
            below = (self.spread(t, 1.0) + shift).clamp(min=_tiny(u))
            ratio = u / below
            square = self.summed(ratio.square())
            slope = self.summed(ratio.square() / below)
            root = square.sqrt()
            new = torch.where(square > 1, t + (root - 1) * square / slope.clamp(min=_tiny(u)), t)
            new = torch.where(torch.isfinite(new), new, t)
            if bool(((new - t).abs() <= 4 * torch.finfo(u.dtype).eps * new).all()):
                break
            t = new
        return torch.where((square <= 1) & (t <= 0), 0.0, t)

    def distance(self, x: Vectors, g: Vectors) -> Vectors:
        """Where x_g = 0: what S(-g, l1) has beyond the ball of radius lam w_g; elsewhere the slopes are definite."""
        norm = self.spread(self.norms(x), 0.0)
        size = self.spread(self.size.expand(len(x), -1), 0.0)
        l1 = torch.zeros_like(x[:, :1]) if self.l1 is None else column(self.l1)
        slope = g + torch.where(norm > 0, size * x / torch.where(norm > 0, norm, 1.0), 0.0)
        apart = torch.where(x != 0, (slope + l1 * torch.sign(x)).abs(), (slope.abs() - l1).clamp(min=0))
        left = self.spread(self.norms(apart), 0.0)
        beyond = apart * (1 - size / torch.where(left > 0, left, 1.0)).clamp(min=0)
        return torch.where(self.grouped & (norm == 0), beyond, apart)

    def slope(self, x: Vectors) -> Vectors:
        """The subgradient lam w_g x_g / |x_g| + l1 sign(x), 0 where that is not defined."""
        norm = self.spread(self.norms(x), 0.0)
        slope = self.spread(self.size.expand(len(x), -1), 0.0) * x / torch.where(norm > 0, norm, 1.0)
        return slope if self.l1 is None else slope + column(self.l1) * torch.sign(x)

    def least_slope(self, x: Vectors) -> Vectors:
        """|x_g| >= sum_j |x_j| / sqrt(size of g)."""
        sizes = self.summed(torch.ones_like(x)).clamp(min=1)
        return self.spread(self.size / sizes.sqrt(), 0.0) + self.floor_slope(x)

    def floor_slope(self, x: Vectors) -> Vectors:
        return torch.zeros_like(x) if self.l1 is None else column(self.l1).expand_as(x)

    def certain_zeros(self, g: Vectors, reach: Vectors) -> Tensor:
        """|S(g'_g, l1)| < lam w_g for a whole group, |g'_j| < l1 for a coordinate."""
        beyond = g.abs() + reach - self.floor_slope(g)
        norms = self.norms(beyond.clamp(min=0))
        whole = self.spread((norms < self.size).to(g.dtype), 0.0) > 0
        return whole | (beyond < 0)

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """|s| with |S(s g_g, l1)| <= lam w_g for every group, and |s g_j| <= l1 outside of them."""
        size = self.size.expand(len(g), -1)
        if self.l1 is None:
            norms = self.norms(g)
            limit = torch.where(norms > 0, size / norms, torch.inf)
            alone = torch.where(self.grouped | (g == 0), torch.inf, 0.0)
        else:
            limit = self._largest_scale(g, size)
            alone = torch.where(self.grouped | (g == 0), torch.inf, self.floor_slope(g) / g.abs())
        most = torch.cat([limit, alone], 1).amin(1)
        return -most, most

    def _largest_scale(self, g: Vectors, size: Tensor) -> Tensor:
        """(B, G): the s >= 0 with |S(s g_g, l1)| = size, by bisection, from below; infinite where g_g = 0.

        It lies between size/|g_g| and (size + l1 sqrt(k)) / |g_g|, k being the size of the group.
        """
        norms, l1 = self.norms(g), self.floor_slope(g)
        sizes = self.summed(torch.ones_like(g)).sqrt()
        safe = torch.where(norms > 0, norms, 1.0)
        widest = torch.zeros_like(size) if self.l1 is None else column(self.l1) * sizes
        low, high = size / safe, (size + widest) / safe
        for _ in range(ROUNDS):
            middle = (low + high) / 2
            inside = self.norms(soft_threshold(self.spread(middle, 0.0) * g, l1)) <= size
            low, high = torch.where(inside, middle, low), torch.where(inside, high, middle)
        return torch.where(norms > 0, low, torch.inf)

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """sum_g [lam w_g |x_g| + l1 |x_g|_1 + s <g_g, x_g>], every term >= 0 where s is within `dual_range`."""
        linear = scale.unsqueeze(1) * g * x + self.floor_slope(x) * x.abs()
        terms = self.size * self.norms(x) + self.summed(linear)
        return terms.clamp(min=0).sum(1) + torch.where(self.grouped, 0.0, linear).clamp(min=0).sum(1)


class GroupL2(SparseGroup, constructor=True):
    """r(x) = lam sum_g w_g |x_g|, disjoint groups of any sizes; w_g = 1 unless `weights` (G,) are given.

    lam >= 0 is a number or one per instance (B,). The weights of Yuan and Lin are the roots of the sizes.
    """

    def __init__(self, groups: Any, lam: Any, weights: Any = None) -> None:
        Groups.__init__(self, groups, lam, weights)
        self.l1 = None


class GroupBall(Groups):
    """r(x) = 0 where |x_g| <= lam w_g for all groups, else infinite."""

    batched = ("lam",)
    stackable = True

    @property
    def restricts(self) -> bool:
        return True

    @property
    def slack(self) -> float:
        """What rounding may change of a norm."""
        return 8 * torch.finfo(self.lam.dtype).eps

    def value(self, x: Vectors) -> Scalars:
        """In float32 a point must be inside by more than rounding, so that it is inside in float64 too."""
        border = 1 + self.slack if x.dtype == torch.float64 else 1 - self.slack / 2
        inside = (self.norms(x) <= border * self.size).all(1)
        return torch.where(inside, 0.0, torch.inf).to(x.dtype)

    def prox(self, v: Vectors, step: Steps) -> Vectors:
        """The nearest point of the balls: with one step size in a group v_g min(1, radius / |v_g|).

        Otherwise x_j = v_j / (1 + t step_j), t >= 0 the solution of |x_g| = radius.
        """
        radius = self.size.expand(len(v), -1)
        if step.ndim < 2 or step.shape[1] == 1:
            return self._pulled_in(v, radius)
        step = step.expand_as(v)
        safe = radius.clamp(min=_tiny(v))
        t = ((self.norms(v) / safe - 1) / self.largest(step).clamp(min=_tiny(v))).clamp(min=0)
        for _ in range(ROUNDS):
            x = v / (1 + self.spread(t, 0.0) * step)
            norm = self.norms(x)
            bend = self.summed(x.square() * step / (1 + self.spread(t, 0.0) * step))
            new = torch.where(norm > radius, t + (norm / safe - 1) * norm.square() / bend.clamp(min=_tiny(v)), t)
            new = torch.where(torch.isfinite(new), new, t)
            if bool(((new - t).abs() <= 4 * torch.finfo(v.dtype).eps * new).all()):
                break
            t = new
        return self._pulled_in(v / (1 + self.spread(t, 0.0) * step), radius)

    def _pulled_in(self, x: Vectors, radius: Tensor) -> Vectors:
        """x_g min(1, radius / |x_g|), and by rounding no longer."""
        most, norm = radius * (1 - self.slack), self.norms(x)
        return x * self.spread(torch.where(norm > most, most / norm.clamp(min=_tiny(x)), 1.0), 1.0)

    def distance(self, x: Vectors, g: Vectors) -> Vectors:
        """Inside |g|; on the sphere what -g has beside the outward normals x_g t, t >= 0."""
        norm, radius = self.norms(x), self.size
        on = self.spread((norm >= (1 - 2 * self.slack) * radius) & (norm > 0), 0.0) > 0
        along = self.summed(-g * x) / norm.square().clamp(min=_tiny(x))
        beside = g + self.spread(along.clamp(min=0), 0.0) * x
        pinned = self.spread((radius == 0).expand_as(norm), 0.0) > 0
        return torch.where(pinned, 0.0, torch.where(on, beside, g).abs())

    def slope(self, x: Vectors) -> Vectors:
        return torch.zeros_like(x)

    def least_slope(self, x: Vectors) -> Vectors:
        return torch.zeros_like(x)

    def loose(self, x: Vectors) -> tuple[Tensor, Tensor]:
        free = ~self.grouped.expand_as(x)
        return free, free

    def certain_zeros(self, g: Vectors, reach: Vectors) -> Tensor:
        """Balls of radius 0."""
        return self.spread((self.size == 0).to(g.dtype).expand(len(g), -1), 0.0) > 0

    def dual_range(self, g: Vectors) -> tuple[Scalars, Scalars]:
        """All s: a ball bounds every direction. Coordinates outside of the balls allow none but s = 0."""
        free = torch.where(self.grouped | (g == 0), torch.inf, 0.0).amin(1)
        return -free, free

    def dual_scales(self, g: Vectors, best: Best) -> list[Scalars]:
        """r* grows, which `best` does not take into account: s = 1 is right at a solution, and F itself is a gap."""
        one = self.dual_range(g)[1].clamp(max=1)
        return [one, torch.zeros_like(one)]

    def fenchel_young(self, x: Vectors, g: Vectors, scale: Scalars) -> Scalars:
        """sum_g [lam w_g |s g_g| + s <g_g, x_g>], every term >= 0."""
        p = scale.unsqueeze(1) * g
        return (self.size * self.norms(p) + self.summed(p * x)).clamp(min=0).sum(1)


BLOCKS = (GroupL2, SparseGroup, GroupBall)  # exactly these, and none of their subclasses


def _tiny(like: Tensor) -> float:
    return torch.finfo(like.dtype).tiny
