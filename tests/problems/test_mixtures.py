"""The mixtures that Sure is trained on."""

import pytest
import torch

from helpers import lam_max, refused
from sureprox.sources import LassoMixture, LogisticMixture

SMALL = {"lasso": LassoMixture(m=24, n=30), "logistic": LogisticMixture(m=40, n=12)}
both = pytest.mark.parametrize("name", list(SMALL))


@both
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_shapes_and_determinism(name, dtype):
    family = SMALL[name]
    one, again = (family.sample(5, torch.Generator().manual_seed(3), dtype) for _ in range(2))
    assert (one.batch, one.n, one.dtype) == (5, family.n, dtype)
    assert all(torch.equal(a, b) for a, b in zip(one.tensors(), again.tensors(), strict=True))
    other = family.sample(5, torch.Generator().manual_seed(4), dtype)
    assert not torch.equal(one.f.A, other.f.A)
    assert all(torch.isfinite(tensor).all() for tensor in one.tensors())


@both
def test_lam_is_a_share_of_lam_max(name, generator):
    problem = SMALL[name].sample(400, generator, torch.float64)
    share = problem.r.lam / lam_max(problem)
    top = 10**-0.2 / (3 if name == "lasso" else 1)
    low = 0.01 / (3 if name == "lasso" else 1)
    assert low * 0.999 <= float(share.min()) < low * 1.2
    assert top * 0.85 < float(share.max()) <= top * 1.001


def test_lasso_has_unit_columns_rows_that_are_zero_and_correlations(generator):
    problem = SMALL["lasso"].sample(400, generator, torch.float64)
    A, b = problem.f.A, problem.f.b
    torch.testing.assert_close(torch.linalg.vector_norm(A, dim=1), torch.ones(400, 30, dtype=torch.float64))
    rows = (A.abs().amax(2) > 0).sum(1)
    assert 6 <= int(rows.min()) < 8
    assert 22 <= int(rows.max()) <= 24
    assert bool((b[A.abs().amax(2) == 0] == 0).all())
    neighbours = (A[:, :, 1:] * A[:, :, :-1]).sum(1).mean(1)
    assert float((neighbours > 0.5).double().mean()) > 0.1
    assert float((neighbours.abs() < 0.2).double().mean()) > 0.3


def test_logistic_repeats_rows_with_their_labels(generator):
    problem = SMALL["logistic"].sample(200, generator, torch.float64)
    A, y = problem.f.A, problem.f.y
    assert set(y.unique().tolist()) == {0.0, 1.0}
    counts = []
    for rows, labels in zip(A, y, strict=True):
        both = torch.cat([rows, labels.unsqueeze(1)], 1)
        counts.append(len(both.unique(dim=0)))
        assert len(rows.unique(dim=0)) == counts[-1]
    assert 6 <= min(counts) < 12
    assert max(counts) > 34


@both
def test_starts_are_zero_normal_and_moved(name, generator):
    family = SMALL[name]
    x = family.start(2000, generator, torch.float64)
    zero = (x == 0).all(1)
    assert float(zero.double().mean()) == pytest.approx(0.15, abs=0.03)
    moved = x.mean(1).abs() > 0.9
    assert float(moved.double().mean()) == pytest.approx(0.4, abs=0.05)
    assert 0.7 * 10**family.reach < float(x.mean(1).abs().max()) < 1.2 * 10**family.reach
    assert float((x.mean(1) < -0.9).double().mean()) > 0.15


def test_impossible_mixtures_are_refused():
    refused(lambda: LassoMixture(m=3), "impossible mixture", "m, n >= 4")
