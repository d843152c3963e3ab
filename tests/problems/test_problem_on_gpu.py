"""On a GPU: problems, solves and references as on a CPU."""

import pytest
import torch

import sureprox as sp
from helpers import normal, random_problem


@pytest.mark.cuda
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("kind", ["lasso", "logistic"])
def test_the_same_on_cuda(kind, shared):
    problem = random_problem(kind, shared=shared)
    there = problem.to(device="cuda")
    x = normal(3, 12, seed=3)
    assert there.device.type == "cuda"
    for method in ("objective", "grad", "duality_gap", "kkt_residual"):
        torch.testing.assert_close(getattr(there, method)(x.cuda()).cpu(), getattr(problem, method)(x))
    torch.testing.assert_close(there.lipschitz().cpu(), problem.lipschitz(), rtol=1e-10, atol=0)
    here, far = (sp.solve(p, sp.optimizers.FISTA(restart=True), max_iter=5000) for p in (problem, there))
    assert here.converged.all()
    assert far.converged.all()
    torch.testing.assert_close(far.objective.cpu(), here.objective, rtol=2e-6, atol=0)
    torch.testing.assert_close(sp.reference(there).objective.cpu(), sp.reference(problem).objective, rtol=1e-11, atol=0)
