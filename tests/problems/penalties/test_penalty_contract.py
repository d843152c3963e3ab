"""One contract for every penalty: proximal operators, subdifferentials, conjugates, shapes, precision, instances."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from helpers import F64, normal
from sureprox.problems.penalties import (
    L1,
    Box,
    ElasticNet,
    GroupBall,
    GroupL2,
    NonNegative,
    Penalty,
    Separable,
    SparseGroup,
    WeightedL1,
    Zero,
)

B, N = 3, 7
GROUPS = [[0, 3], [1, 2, 6], [5]]  # 4 is in none


def each(seed: int) -> torch.Tensor:
    return normal(B, seed=seed).abs()


def every(seed: int) -> torch.Tensor:
    return normal(B, N, seed=seed).abs()


def mixed_bounds() -> tuple[torch.Tensor, torch.Tensor]:
    low, high = -every(5), every(6)
    low[:, 0], high[:, 1], low[:, 2], high[:, 2] = -torch.inf, torch.inf, 0.3, 0.3
    return low, high


CASES = {
    "l1": lambda: L1(each(1)),
    "weighted": lambda: WeightedL1(normal(N, seed=2).abs()),
    "zero": Zero,
    "elastic net": lambda: ElasticNet(0.4, each(3)),
    "l2 per coordinate": lambda: Separable(l2=every(4)),
    "nonnegative": lambda: NonNegative(each(1)),
    "box": lambda: Box(-0.5, every(2)),
    "everything": lambda: Separable(every(1), every(2), *mixed_bounds()),
    "away from zero": lambda: Separable(0.3, 0.2, low=0.5, high=torch.inf),
    "below zero": lambda: Separable(0.3, high=-0.25),
    "groups": lambda: GroupL2(GROUPS, each(1)),
    "weighted groups": lambda: GroupL2([0, 1, 1, 0, -1, 2, 1], 0.7, weights=[1.0, 2.0, 0.0]),
    "sparse groups": lambda: SparseGroup(GROUPS, 0.2, each(1)),
    "balls": lambda: GroupBall(GROUPS, 0.5 + each(1)),
}
FINITE = {"l1", "weighted", "zero", "elastic net", "l2 per coordinate", "groups", "weighted groups", "sparse groups"}


@pytest.fixture(params=CASES)
def name(request):
    return request.param


@pytest.fixture
def r(name) -> Penalty:
    return CASES[name]().fitted(B, N)


def inside(r: Penalty, x: torch.Tensor) -> torch.Tensor:
    return r.prox(x, torch.full((B, 1), 1e-3, dtype=F64))


@pytest.mark.parametrize("step", ["one", "each"])
def test_no_point_nearby_is_better_than_the_proximal_one(r, step):
    """The objective of the prox is strongly convex: a local minimum of it is the minimum."""
    p = torch.full((B, 1), 0.7, dtype=F64) if step == "one" else 0.1 + every(8)
    for seed, size in ((1, 1.0), (2, 0.05), (3, 30.0)):
        v = size * normal(B, N, seed=seed)
        x = r.prox(v, p)
        value = r.value(x) + ((x - v).square() / (2 * p)).sum(1)
        assert torch.isfinite(value).all()
        chance = torch.Generator().manual_seed(seed)
        for scale in (1e-4, 1e-2, 1.0):
            for _ in range(15):
                direction = torch.randn(B, N, generator=chance, dtype=F64)
                direction = direction * (torch.rand(B, N, generator=chance) < 0.5)
                other = x + scale * size * direction
                there = r.value(other) + ((other - v).square() / (2 * p)).sum(1)
                assert bool((value <= there + 1e-12 * (1 + value.abs())).all())


@pytest.mark.parametrize("step", ["one", "each"])
def test_the_proximal_point_satisfies_its_optimality_condition(r, step):
    """(v - x)/p is a subgradient at x."""
    p = torch.full((B, 1), 0.7, dtype=F64) if step == "one" else 0.1 + every(8)
    for size in (1e-6, 1.0, 1e6):
        v = size * normal(B, N, seed=4)
        x = r.prox(v, p)
        assert bool((r.distance(x, (x - v) / p) <= 1e-9 * (1 + size)).all())


def test_distance_is_that_to_the_subdifferential(name, r):
    """By its definition: u is a subgradient at x exactly if r(y) >= r(x) + <u, y - x>, tried along many y."""
    x = inside(r, normal(B, N, seed=1) * (normal(B, N, seed=2) > 0))
    g = normal(B, N, seed=3)
    far = r.distance(x, g)
    assert bool((far >= 0).all())
    slope = r.slope(x)
    assert bool((r.distance(x, -slope) <= 1e-12).all())
    chance = torch.Generator().manual_seed(0)
    for _ in range(60):
        y = inside(r, x + torch.randn(B, N, generator=chance, dtype=F64))
        assert bool((r.value(y) - r.value(x) - (slope * (y - x)).sum(1) >= -1e-9).all())
    if name in FINITE:  # a step against -g + d descends where -g is no subgradient
        assert bool((far.amax(1) > 0).all())


def test_fenchel_young_is_the_gap_of_the_conjugate(r):
    """r(x) + r*(p) - <p, x> with r* by maximisation: proximal steps of <p, .> - r from several starts."""
    x, g = inside(r, normal(B, N, seed=1)), normal(B, N, seed=2)
    low, high = r.dual_range(g)
    assert bool((low <= 0).all())
    assert bool((high >= 0).all())
    for share in (0.0, 0.5, 1.0):
        s = share * torch.minimum(high, torch.full_like(high, 1.5))
        p = -s.unsqueeze(1) * g
        y = x.clone()
        for size in (1.0, 10.0, 100.0):
            step = torch.full((B, 1), size, dtype=F64)
            for _ in range(300):
                y = r.prox(y + step * p, step)
        conjugate = (p * y).sum(1) - r.value(y)
        ours = r.fenchel_young(x, g, s)
        expected = r.value(x) + conjugate - (p * x).sum(1)
        torch.testing.assert_close(ours, expected, rtol=1e-6, atol=1e-6)
        assert bool((ours >= expected - 1e-9).all())


def test_beyond_the_range_the_conjugate_is_infinite(r):
    g = normal(B, N, seed=2)
    high = r.dual_range(g)[1]
    for i in torch.isfinite(high).nonzero()[:, 0].tolist():
        p = -1.01 * high[i] * g - 1e-3 * g
        y = torch.zeros(B, N, dtype=F64)
        step = torch.full((B, 1), 1e12, dtype=F64)
        for _ in range(5):
            y = r.prox(y + step * p, step)
        assert float((p * y).sum(1)[i] - r.value(y)[i]) > 1e2


def test_difference_and_value(r):
    x, y = inside(r, normal(B, N, seed=1)), inside(r, normal(B, N, seed=2))
    torch.testing.assert_close(r.difference(x, y), r.value(x) - r.value(y), rtol=1e-10, atol=1e-12)


def test_precision_instances_and_copies(r):
    x, step = normal(B, N, seed=1), 0.1 + every(9)
    single = r.to(dtype=torch.float32)
    close = single.prox(x.float(), step.float())
    assert close.dtype == torch.float32
    torch.testing.assert_close(close.double(), r.prox(x, step), rtol=1e-4, atol=1e-5)
    index = torch.tensor([2, 0])
    part = r.select(index)
    torch.testing.assert_close(part.prox(x[index], step[index]), r.prox(x, step)[index], rtol=1e-13, atol=1e-15)
    torch.testing.assert_close(part.value(x[index]), r.value(x)[index], rtol=1e-13, atol=0)
    twice = r.stacked(2)
    rows = x.repeat_interleave(2, 0)
    torch.testing.assert_close(twice.prox(rows, step.repeat_interleave(2, 0))[::2], r.prox(x, step), rtol=1e-13, atol=0)


def test_gradients_flow_through_prox_and_value(name, r):
    x = inside(r, normal(B, N, seed=1)).requires_grad_()
    step = 0.1 + every(9)
    (r.prox(x, step).sum() + torch.nan_to_num(r.value(x)).sum()).backward()
    assert x.grad is not None
    assert torch.isfinite(x.grad).all()


def test_least_slope_holds(r):
    kappa, zero = r.least_slope(torch.zeros(B, N, dtype=F64)), r.value(torch.zeros(B, N, dtype=F64))
    for seed in range(20):
        y = inside(r, normal(B, N, seed=seed))
        bound = torch.where(torch.isfinite(zero), (kappa * y.abs()).sum(1) + zero, -torch.inf)
        assert bool((r.value(y) >= bound - 1e-12).all())


def test_group_prox_in_a_diagonal_metric_against_a_general_minimiser():
    r = SparseGroup(GROUPS, 0.2, 0.8)
    v, step = normal(1, N, seed=3) * 3, 0.05 + normal(1, N, seed=4).abs()
    ours = r.fitted(1, N).prox(v, step)

    def objective(x: np.ndarray) -> float:
        groups = sum(np.linalg.norm(x[group]) for group in GROUPS)
        return 0.2 * np.abs(x).sum() + 0.8 * groups + ((x - v[0].numpy()) ** 2 / (2 * step[0].numpy())).sum()

    found = minimize(
        objective, ours[0].numpy() + 0.1, method="Nelder-Mead", options={"maxiter": 40_000, "fatol": 1e-14}
    )
    assert objective(ours[0].numpy()) <= found.fun + 1e-12
    assert 0 < int((ours != 0).sum()) < N
