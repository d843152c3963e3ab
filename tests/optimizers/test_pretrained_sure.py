"""The weights of Sure that ship: the old ones walk as they always did, the general ones are one set for every form."""

import pytest
import torch

import sureprox as sp
from form_cases import problem
from sureprox.evaluation.battery import first_hits
from sureprox.evaluation.datasets import Dataset, Instances
from sureprox.optimizers import FISTA, read_card
from sureprox.problems import Huber, LeastSquares, Logistic, Problem
from sureprox.problems.penalties import Box, ElasticNet, NonNegative

F64 = torch.float64
GOLDEN = {  # the first coordinates after ten steps, of the code before there was a second edition of the features
    "sure/lasso": [0.005644264664701066, 0.0021143148540071445, 0.0, -0.04991948920063398],
    "sure/lasso-light": [0.8138062289554295, 0.6895259914479408, -0.3686066336790162, 0.0],
    "sure/logistic": [0.23044419830376395, 0.0, 0.0, -0.05946095326621134],
    "sure/logistic-light": [0.4239646398677209, 0.0, 0.0, -0.23703833609542213],
}


def wave(*shape: int, step: float) -> torch.Tensor:
    """Numbers that are the same everywhere."""
    count = torch.Size(shape).numel()
    return torch.sin(step * torch.arange(1, count + 1, dtype=F64)).reshape(shape)


@pytest.mark.parametrize("name", GOLDEN)
def test_the_old_weights_walk_as_they_did(name):
    A, b, optimizer = wave(2, 6, 8, step=0.7), wave(2, 6, step=1.3), sp.load(name).double()
    assert optimizer.features == "l1"
    assert "features" not in read_card(name).arguments
    given = sp.lasso(A, b, 0.3) if "lasso" in name else sp.logistic(A, (b > 0).double(), 0.02)
    state = optimizer.init(given, wave(2, 8, step=0.4))
    with torch.no_grad():
        *_, last = sp.iterate(given, optimizer, state, 10, engine="plain")
    torch.testing.assert_close(last.x[0, :4], torch.tensor(GOLDEN[name], dtype=F64), rtol=1e-9, atol=1e-12)


def test_sure_is_the_general_one():
    ours, named = sp.load("sure"), sp.load("sure/general")
    assert ours.features == "general"
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), named.parameters(), strict=True))
    assert read_card("sure") == read_card("sure/general")
    assert "sure" not in sp.pretrained()
    given = problem("huber", "everything", "own")
    assert torch.equal(sp.solve(given, "sure").x, sp.solve(given, named).x)


def drawn(name: str) -> Problem:
    """Of other sizes than those in training."""
    generator = torch.Generator().manual_seed(11)
    A = torch.randn(4, 60, 100, generator=generator, dtype=F64)
    A = A / torch.linalg.vector_norm(A, dim=1, keepdim=True)
    truth = torch.randn(4, 100, generator=generator, dtype=F64) * (torch.rand(4, 100, generator=generator) < 0.1)
    b = torch.bmm(A, truth.abs().unsqueeze(2)).squeeze(2)
    b = b + 0.05 * torch.randn(4, 60, generator=generator, dtype=F64)
    return {
        "elastic net": lambda: Problem(LeastSquares(A, b), ElasticNet(0.05, 0.01)),
        "nonnegative huber": lambda: Problem(Huber(A, b, 0.2), NonNegative(0.02)),
        "logistic box": lambda: Problem(Logistic(A, (b > b.median()).double()), Box(-0.5, 0.5)),
    }[name]()


@pytest.mark.parametrize("name", ["elastic net", "nonnegative huber", "logistic box"])
def test_the_general_weights_need_fewer_iterations_than_restarted_fista(name):
    given = drawn(name)
    data = Dataset(Instances(name, "here", given, given.start()), sp.reference(given).objective, 1e-12)
    single = given.to(dtype=torch.float32)
    hits = [first_hits(o, single, data, torch.float32, 2000)[1e-6] for o in (sp.load("sure"), FISTA(restart=True))]
    assert bool((hits[0] > 0).all())
    assert bool((hits[0] <= hits[1]).all())
    assert float(hits[0].double().median()) <= 0.75 * float(hits[1].double().median())
