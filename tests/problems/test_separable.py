"""Penalties of somebody's own are tried before a certificate relies on them."""

import pytest
import torch

import sureprox as sp
from helpers import F64, normal
from sureprox.optimizers import FISTA
from sureprox.problems import L1, LeastSquares, Penalty


class GroupLasso(Penalty):
    """r(x) = lam |x|_2, and a box for its subdifferential at 0, which is a ball."""

    lam = 2.0

    def value(self, x):
        return self.lam * x.norm(dim=1)

    def prox(self, v, step):
        return v * (1 - self.lam * step / v.norm(dim=1, keepdim=True)).clamp(min=0)

    def subdiff(self, x):
        size = x.norm(dim=1, keepdim=True)
        slope = torch.where(size > 0, self.lam * x / size, 0.0)
        return torch.where(size > 0, slope, -self.lam), torch.where(size > 0, slope, self.lam)


class Huberised(GroupLasso):
    """A group penalty that is 1/2 |x|^2, and so separable, near 0."""

    def value(self, x):
        size = x.norm(dim=1)
        return torch.where(size <= 1, size.square() / 2, size - 0.5)

    def prox(self, v, step):
        size = v.norm(dim=1, keepdim=True)
        return torch.where(size <= 1 + step, v / (1 + step), v * (1 - step / size))

    def subdiff(self, x):
        slope = x / x.norm(dim=1, keepdim=True).clamp(min=1)
        return slope, slope


class Ball(Penalty):
    """Zero where |x|_2 <= 1, infinite elsewhere."""

    def value(self, x):
        return torch.where(x.norm(dim=1) <= 1 + 1e-9, 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v / v.norm(dim=1, keepdim=True).clamp(min=1)

    def subdiff(self, x):
        return torch.zeros_like(x), torch.zeros_like(x)


class TotalVariation(Penalty):
    """r(x) = |x_1 - x_2|, its proximal operator that of nothing."""

    def value(self, x):
        return (x[:, 0] - x[:, 1]).abs()

    def prox(self, v, step):
        return v

    def subdiff(self, x):
        return torch.zeros_like(x), torch.zeros_like(x)


class Forgotten(L1):
    """An elastic net that keeps the subdifferential of its parent."""

    def value(self, x):
        return super().value(x) + x.square().sum(1)

    def prox(self, v, step):
        return super().prox(v, step) / (1 + 2 * step)


class Interval(Penalty):
    """Zero where 1 <= x_j <= 2, infinite elsewhere: the origin is outside."""

    def value(self, x):
        return torch.where(((x >= 1) & (x <= 2)).all(1), 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v.clamp(1, 2)

    def subdiff(self, x):
        return torch.where(x > 1, 0.0, -torch.inf).to(x.dtype), torch.where(x < 2, 0.0, torch.inf).to(x.dtype)


class Linear(Penalty):
    """r(x) = |x|_1 + <c, x>, with values of both signs."""

    def __init__(self, c):
        self.c = c

    def value(self, x):
        return x.abs().sum(1) + (self.c * x).sum(1)

    def prox(self, v, step):
        return L1(torch.ones((), dtype=v.dtype)).prox(v - step * self.c, step)

    def subdiff(self, x):
        return tuple(bound + self.c for bound in L1(torch.ones((), dtype=x.dtype)).subdiff(x))


def data(n: int = 6) -> LeastSquares:
    return LeastSquares(normal(3, 12, n), normal(3, 12, seed=1))


@pytest.mark.parametrize("kind", [GroupLasso, Huberised, Ball, TotalVariation])
@pytest.mark.parametrize("adopted", [False, True])
def test_what_is_not_separable_is_refused_in_one_line(kind, adopted):
    r = kind()
    if adopted:
        r = type(kind.__name__, (), {name: staticmethod(getattr(r, name)) for name in ("value", "prox", "subdiff")})()
    with pytest.raises(sp.InputError, match=rf"^{kind.__name__} is not separable.*sum of functions of one coordinate"):
        sp.solve(sp.Problem(data(), r), FISTA(restart=True))


def test_a_group_of_one_coordinate_is_separable():
    solution = sp.solve(sp.Problem(data(1), GroupLasso()), FISTA(restart=True), tol=1e-8)
    assert solution.converged.all()
    torch.testing.assert_close(solution.x, sp.solve(sp.Problem(data(1), L1(2.0)), tol=1e-8).x, rtol=1e-6, atol=1e-8)


def test_a_subdifferential_that_is_not_that_of_the_values_is_refused():
    with pytest.raises(sp.InputError, match=r"^Forgotten\.subdiff returns slopes that Forgotten\.value does not have"):
        sp.solve(sp.Problem(data(), Forgotten(0.3)), FISTA(restart=True))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("make", [Interval, lambda: Linear(normal(6, seed=8)), lambda: Linear(1e8 * normal(6, seed=8))])
def test_separable_penalties_of_any_kind_are_accepted(make, dtype):
    problem = sp.Problem(data(), make()).to(dtype=dtype)
    solution = sp.solve(problem, FISTA(restart=True), tol=1e-3, max_iter=50)
    assert torch.isfinite(solution.objective).all()
