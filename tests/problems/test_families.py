"""Random families: what is drawn is what the paper says, and the generator decides all of it."""

import pytest
import torch

from helpers import F64, refused
from sureprox.problems.problem import Problem
from sureprox.sources import LassoFamily, LogisticFamily


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


SMALL = [LassoFamily(m=20, n=30, nonzeros=5, lam=0.3), LogisticFamily(m=40, n=15, nonzeros=4, lam=0.3)]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("family", SMALL, ids=lambda family: family.name)
def test_shapes_dtype_and_lam(family, dtype):
    problem = family.sample(6, seeded(), dtype)
    assert isinstance(problem, Problem)
    assert (problem.batch, problem.n, problem.dtype) == (6, family.n, dtype)
    assert problem.f.A.shape == (6, family.m, family.n)
    assert problem.r.lam.tolist() == pytest.approx([0.3] * 6)
    start = family.start(6, seeded(), dtype)
    assert start.shape == (6, family.n)
    assert start.dtype == dtype
    assert problem.objective(start).shape == (6,)


@pytest.mark.parametrize("family", SMALL, ids=lambda family: family.name)
def test_the_generator_decides_everything(family):
    torch.manual_seed(1)
    first = family.sample(3, seeded(4), F64)
    torch.manual_seed(2)
    again, other = family.sample(3, seeded(4), F64), family.sample(3, seeded(5), F64)
    for name in (name for name in first.f.batched if getattr(first.f, name) is not None):
        assert torch.equal(getattr(first.f, name), getattr(again.f, name))
        assert not torch.equal(getattr(first.f, name), getattr(other.f, name))
    assert torch.equal(family.start(3, seeded(4)), family.start(3, seeded(4)))
    generator = seeded(4)
    assert not torch.equal(family.start(3, generator), family.start(3, generator))


def test_lasso_columns_have_unit_norm_and_instances_differ():
    problem = SMALL[0].sample(6, seeded(), F64)
    torch.testing.assert_close(problem.f.A.norm(dim=1), torch.ones(6, 30, dtype=F64), rtol=1e-14, atol=0)
    assert (problem.f.A[0] - problem.f.A[1]).abs().max() > 0.1


@pytest.mark.parametrize("nonzeros", [0, 1, 5, 12])
def test_lasso_signal_has_exactly_the_nonzeros_asked_for(nonzeros):
    """With m > n the signal is recoverable from b: least squares gives it back, to rounding."""
    family = LassoFamily(m=40, n=12, nonzeros=nonzeros)
    problem = family.sample(8, seeded(), F64)
    signal = torch.linalg.lstsq(problem.f.A, problem.f.b.unsqueeze(2)).solution.squeeze(2)
    torch.testing.assert_close(problem.f.value(signal), torch.zeros(8, dtype=F64), rtol=0, atol=1e-24)
    assert ((signal.abs() > 1e-10).sum(1) == nonzeros).all()
    if 0 < nonzeros < 12:
        assert len({tuple(row) for row in (signal.abs() > 1e-10).tolist()}) > 1  # the support is drawn per instance


def test_lasso_signal_is_standard_normal_on_its_support():
    signal = LassoFamily(m=3, n=200, nonzeros=100)._signal(50, seeded(), F64)
    drawn = signal[signal != 0]
    assert len(drawn) == 5000
    assert abs(float(drawn.mean())) < 0.05
    assert float(drawn.std()) == pytest.approx(1, abs=0.05)


def test_logistic_labels_are_separable_by_a_sparse_signal():
    family = SMALL[1]
    problem = family.sample(4, seeded(7), F64)
    generator = seeded(7)
    A = torch.randn(4, family.m, family.n, generator=generator, dtype=F64)
    signal = family._signal(4, generator, F64)
    assert torch.equal(problem.f.A, A)
    assert ((signal != 0).sum(1) == family.nonzeros).all()
    assert torch.equal(problem.f.y, ((A @ signal.unsqueeze(2)).squeeze(2) >= 0).to(F64))


def test_defaults_are_those_of_the_paper():
    lasso, logistic = LassoFamily(), LogisticFamily()
    assert (lasso.m, lasso.n, lasso.nonzeros, lasso.lam) == (250, 500, 50, 0.1)
    assert (logistic.m, logistic.n, logistic.nonzeros, logistic.lam, logistic.curvature) == (1000, 50, 20, 0.1, 1.0)
    assert LogisticFamily(m=9, n=3, nonzeros=1).sample(1, seeded(), F64).f.curvature == 1.0


@pytest.mark.parametrize(
    "options",
    [{"m": 0}, {"n": 0, "nonzeros": 0}, {"nonzeros": 501}, {"nonzeros": -1}, {"lam": -0.1}, {"lam": float("nan")}],
)
def test_impossible_families_are_refused(options):
    refused(lambda: LassoFamily(**options), "impossible family LassoFamily(", "0 <= nonzeros <= n and lam >= 0")
