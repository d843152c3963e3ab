"""The classical optimizers walk the paths of an independent implementation (../shared/golden/README.md)."""

import pytest
import torch

import sureprox as sp
from sureprox.optimizers import FISTA, ISTA, Adam, AdamHD

OPTIMIZERS = {
    "ista": ISTA(),
    "fista": FISTA(),
    "adam": Adam(step_size=0.01, beta1=0.1, beta2=0.1),
    "adam_hd": AdamHD(step_size=0.1, beta1=0.001, beta2=0.1, hyper_step=1e-7),
}


def load(data):
    A, b, lam = torch.tensor(data["A"]), torch.tensor(data["b"]), float(data["lam"])
    return A, b, lam, torch.tensor(data["x"]), torch.tensor(data["objective"])


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("family", ["lasso", "logistic"])
def test_path_and_objective(family, name, golden):
    A, b, lam, path, objective = load(golden(f"{family}_{name}"))
    problem = getattr(sp, family)(A, b, lam)
    L = torch.linalg.eigvalsh(A.mT @ A)[:, -1] / (1 if family == "lasso" else A.shape[1])
    state = OPTIMIZERS[name].init(problem, path[0], step_size=0.9999 / L)
    assert len(path) == 31
    assert (problem.objective(path[0]) - objective[0]).abs().max() <= 1e-9
    for k in range(1, len(path)):
        state = OPTIMIZERS[name].step(problem, state)
        assert state.k == k
        assert (state.x - path[k]).abs().max() <= 1e-9, f"x at step {k}"
        assert (problem.objective(state.x) - objective[k]).abs().max() <= 1e-9, f"objective at step {k}"


@pytest.mark.parametrize("family", ["lasso", "logistic"])
def test_golden_step_size_is_the_exact_lipschitz_constant_of_the_paper(family, golden):
    A, b, lam, *_ = load(golden(f"{family}_ista"))
    problem = sp.lasso(A, b, lam) if family == "lasso" else sp.logistic(A, b, lam, curvature=1.0)
    L = torch.linalg.eigvalsh(A.mT @ A)[:, -1] / (1 if family == "lasso" else A.shape[1])
    torch.testing.assert_close(problem.lipschitz(exact=True), L, rtol=1e-12, atol=0)
