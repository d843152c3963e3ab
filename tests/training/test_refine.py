"""scripts/refine.py: the last stage of training of the shipped GO-Math-L2O."""

import json

import pytest
import torch

import refine
from sureprox.optimizers import GoMathL2O
from sureprox.sources import LassoFamily

FAMILY = LassoFamily(m=20, n=40, nonzeros=4)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(refine, "POOL", 12)
    monkeypatch.setattr(refine, "BATCH", 6)


def run(tmp_path, name):
    torch.manual_seed(0)
    optimizer = GoMathL2O()
    before = [parameter.detach().clone() for parameter in optimizer.parameters()]
    refine.refined(optimizer, FAMILY, 4, 1e-3, 5, tmp_path / name)
    return before, list(optimizer.parameters()), (tmp_path / name).read_text()


def test_every_step_is_logged_moves_the_weights_and_is_the_same_again(tmp_path):
    before, after, log = run(tmp_path, "first")
    lines = [json.loads(line) for line in log.splitlines()]
    assert [line["step"] for line in lines] == [1, 2, 3, 4]
    assert all(torch.isfinite(p).all() for p in after)
    assert any(not torch.equal(p, q) for p, q in zip(before, after, strict=True))
    again = run(tmp_path, "second")[1]
    assert all(torch.equal(p, q) for p, q in zip(after, again, strict=True))


def test_the_loss_is_the_mean_logarithm_of_mean_gaps():
    generator = torch.Generator().manual_seed(0)
    problem = FAMILY.sample(5, generator, torch.float64)
    x0 = FAMILY.start(5, generator, torch.float32)
    best = torch.zeros(5, dtype=torch.float64) + 1e-3
    torch.manual_seed(0)
    optimizer = GoMathL2O()
    found = refine.loss_of(optimizer, problem, x0, best, torch.Generator().manual_seed(1))
    state = optimizer.init(problem.to(dtype=torch.float32), x0, generator=torch.Generator().manual_seed(1))
    terms = []
    with torch.no_grad():
        for k in range(1, 37):
            state = optimizer.step(problem.to(dtype=torch.float32), state)
            if k in (20, 24, 28, 32, 36):
                terms.append(float(((problem.objective(state.x.double()) - 1e-3) / 1e-3).mean().log()))
    assert found.item() == pytest.approx(sum(terms) / 5, rel=1e-4)
