"""The mixture of the general Sure: the generator decides it, and it is what it says."""

import pytest
import torch

from helpers import F64, refused
from sureprox.sources import GeneralMixture
from sureprox.training.config import FAMILIES, card_family, family_dict

M, N, COUNT = 60, 20, 300
SMALL = GeneralMixture(m=M, n=N)
parts = pytest.mark.parametrize("part", range(4))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@parts
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_the_generator_decides(part, dtype):
    family = SMALL.parts[part]
    torch.manual_seed(1)
    one = family.sample(4, seeded(3), dtype)
    torch.manual_seed(2)
    again, other = family.sample(4, seeded(3), dtype), family.sample(4, seeded(4), dtype)
    assert (one.batch, one.n, one.dtype) == (4, N, dtype)
    assert all(torch.equal(a, b) for a, b in zip(one.tensors(), again.tensors(), strict=True))
    assert not torch.equal(one.f.A, other.f.A)
    assert all(not torch.isnan(tensor).any() for tensor in one.tensors())


@parts
def test_penalties_are_as_often_of_each_kind_as_it_says(part):
    problem = SMALL.parts[part].sample(COUNT, seeded(), F64)
    r, f = problem.r, problem.f
    lasso, square, low, high = r.l1 > 0, r.l2 > 0, torch.isfinite(r.low), torch.isfinite(r.high)
    shares = {0.75: lasso, 0.25: low & (r.low == 0), 0.15: low & (r.low < 0), 0.4: low, 0.25 / 3 + 0.15: high}
    for share, there in shares.items():
        assert float(there.double().mean()) == pytest.approx(share, abs=4 * (share * (1 - share) / COUNT) ** 0.5)
    assert bool((lasso | low | square).all())  # none is without a penalty
    assert bool((r.low[low & high & (r.low < 0)] == -r.high[low & high & (r.low < 0)]).all())
    most = f.grad(torch.zeros(COUNT, N, dtype=F64)).abs().amax(1)
    of_l1, of_l2 = (r.l1 / most)[lasso].log10(), (r.l2 / f.lipschitz())[square].log10()
    for found, (least, largest) in ((of_l1, (-2.3, -0.3)), (of_l2, (-4.5, -1.0))):
        assert least - 1e-6 <= float(found.min()) <= float(found.max()) <= largest + 1e-6
        assert float(found.max() - found.min()) > 0.9 * (largest - least)


@pytest.mark.parametrize("part", [0, 3])
def test_designs_have_columns_of_one_size_or_of_many(part):
    f = SMALL.parts[part].sample(COUNT, seeded(), F64).f
    norms = torch.linalg.vector_norm(f.A, dim=1)
    uneven = (norms.amax(1) / norms.amin(1)) > 1.001
    assert 0.1 <= float(uneven.double().mean()) <= 0.3
    rows = (f.A.abs().sum(2) > 0).sum(1)
    assert int(rows.min()) <= 0.3 * N
    assert int(rows.max()) >= 0.9 * M
    assert float((rows < N).double().mean()) > 0.2


def test_logistic_problems_repeat_their_rows():
    f = SMALL.parts[1].sample(40, seeded(), F64).f
    assert set(f.y.unique().tolist()) == {0.0, 1.0}
    assert not bool((f.A.abs().sum(2) == 0).any())
    found = 0
    for A, y in zip(f.A, f.y, strict=True):
        same = [k for k in range(4, M) if torch.equal(A[k], A[0])]
        if same:
            period = same[0]
            assert torch.equal(A[period : 2 * period], A[: len(A[period : 2 * period])])
            assert torch.equal(y[period : 2 * period], y[: len(y[period : 2 * period])])
            found += 1
    assert found >= 20


def test_the_mixture_is_one_of_its_parts_and_is_known_by_name():
    drawn = {type(SMALL.sample(2, seeded(seed)).f).__name__ for seed in range(20)}
    assert drawn == {"LeastSquares", "Logistic", "Huber"}
    assert FAMILIES["sure-general"] is GeneralMixture
    assert card_family(family_dict(SMALL)) == SMALL
    refused(lambda: GeneralMixture(m=3), "impossible mixture", "m, n >= 4")


def test_starts_are_zero_near_and_far():
    x0 = SMALL.start(COUNT, seeded(), F64)
    zero, far = (x0 == 0).all(1), x0.abs().amin(1) > 5
    assert float(zero.double().mean()) == pytest.approx(0.4, abs=0.12)
    assert 0.05 < float(far.double().mean()) < 0.3
