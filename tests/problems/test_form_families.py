"""Families of the other forms: what is drawn is what they say, the generator decides it, and it can be solved."""

from dataclasses import replace

import pytest
import torch

import sureprox as sp
from helpers import F64, refused
from sureprox.sources import (
    BoxFamily,
    DeconvolutionFamily,
    ElasticNetFamily,
    GroupFamily,
    HuberFamily,
    NonNegativeFamily,
    PoissonFamily,
    SeparableMixture,
    SparseFamily,
)
from sureprox.training import TrainingConfig
from sureprox.training.config import FAMILIES, card_family, family_dict

SMALL = {
    "elastic-net": ElasticNetFamily(m=20, n=30, nonzeros=5),
    "nonnegative": NonNegativeFamily(m=30, n=20, nonzeros=5),
    "box": BoxFamily(m=30, n=20, nonzeros=10),
    "huber": HuberFamily(m=30, n=20, nonzeros=5),
    "poisson": PoissonFamily(m=30, n=20, nonzeros=5),
    "group": GroupFamily(m=20, n=30, nonzeros=10),
    "sparse": SparseFamily(m=30, n=40, nonzeros=4, density=0.1),
    "deconvolution": DeconvolutionFamily(m=32, n=32, nonzeros=4),
    "separable": SeparableMixture(m=24, n=20),
}
every = pytest.mark.parametrize("name", list(SMALL))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


@every
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_shapes_and_the_generator_decides(name, dtype):
    family = SMALL[name]
    torch.manual_seed(1)
    one = family.sample(4, seeded(3), dtype)
    torch.manual_seed(2)
    again, other = family.sample(4, seeded(3), dtype), family.sample(4, seeded(4), dtype)
    assert (one.batch, one.n, one.dtype) == (4, family.n, dtype)
    assert all(torch.equal(a, b) for a, b in zip(one.tensors(), again.tensors(), strict=True))
    assert any(
        not torch.equal(a, b) for a, b in zip(one.tensors(), other.tensors(), strict=True) if a.is_floating_point()
    )
    start = family.start(4, seeded(), dtype)
    assert (start.shape, start.dtype) == ((4, family.n), dtype)


@every
def test_solutions_are_found_and_are_not_trivial(name):
    problem = SMALL[name].sample(4, seeded(5), F64)
    found = sp.solve(problem, max_iter=20_000)
    assert bool(found.converged.all())
    assert float(problem.kkt_residual(torch.zeros_like(found.x)).min()) > 0.01
    assert float(found.objective.min()) > 0


@every
def test_a_card_can_name_the_family(name):
    family = SMALL[name]
    assert FAMILIES[name] is type(family)
    assert card_family(family_dict(family)) == family


def test_each_is_what_it_says():
    net = SMALL["elastic-net"].sample(3, seeded(), F64)
    assert (float(net.r.l1), float(net.r.l2)) == (0.1, 0.05)
    positive = SMALL["nonnegative"].sample(3, seeded(), F64)
    assert float(positive.f.A.min()) >= 0
    torch.testing.assert_close(positive.f.A.norm(dim=1), torch.ones(3, 20, dtype=F64))
    assert float(SMALL["nonnegative"].start(3, seeded()).min()) >= 0
    box = SMALL["box"].sample(3, seeded(), F64)
    assert bool((sp.solve(box).x.abs() == 0.5).any())
    assert float(SMALL["box"].start(3, seeded()).abs().max()) <= 0.5
    huber = replace(SMALL["huber"], outliers=0.5, noise=0.0, nonzeros=0).sample(20, seeded(), F64)
    assert float((huber.f.b.abs() > 1).double().mean()) == pytest.approx(0.46, abs=0.06)
    counts = SMALL["poisson"].sample(50, seeded(), F64).f.y
    assert bool((counts == counts.round()).all())
    assert 2 < float(counts.mean()) < 6
    groups = SMALL["group"]
    truth = groups.truth(50, seeded(), F64).reshape(50, 6, 5)
    assert set((truth != 0).sum(2).unique().tolist()) == {0, 5}
    assert bool(((truth != 0).any(2).sum(1) == 2).all())
    sparse = SMALL["sparse"].sample(2, seeded(), F64).f.A
    assert isinstance(sparse, sp.operators.Sparse)
    assert bool(((sparse.dense() != 0).sum(0) == 3).all())
    blurred = SMALL["deconvolution"].sample(2, seeded(), F64).f.A
    assert isinstance(blurred, sp.operators.Convolution)
    torch.testing.assert_close(blurred.dense().norm(dim=0), torch.ones(32, dtype=F64))


def test_the_mixture_has_all_four_penalties_in_one_batch():
    r = SMALL["separable"].sample(200, seeded(), F64).r
    assert bool((r.l1 > 0).all())
    boxed, positive = torch.isfinite(r.high), r.low == 0
    net = r.l2 > 0
    for kind in (net, positive, boxed, ~(net | positive | boxed)):
        assert 0.15 < float(kind.double().mean()) < 0.35
    assert not bool((net & positive).any() | (net & boxed).any())


def test_impossible_ones_are_refused():
    refused(lambda: GroupFamily(n=201), "impossible family GroupFamily(", "multiple of size")
    refused(lambda: DeconvolutionFamily(n=20), "need m = n")
    refused(lambda: SparseFamily(m=0), "impossible family SparseFamily(")


def test_a_model_is_trained_on_elastic_nets(tmp_path):
    torch.manual_seed(0)
    optimizer = sp.optimizers.GoMathL2O(hidden=4)
    before = [weights.clone() for weights in optimizer.state_dict().values()]
    config = TrainingConfig(segment=4, length=8, batch=4, batches=4, epochs=1, validate_every=2, validation=4)
    assert sp.train(optimizer, SMALL["elastic-net"], config, out=tmp_path / "run").completed
    assert any(not torch.equal(a, b) for a, b in zip(before, optimizer.state_dict().values(), strict=True))
