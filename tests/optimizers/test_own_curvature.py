"""An f without a global Lipschitz constant, given with an L that is far too small: L rises step by step and falls."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from certified_cases import ADVERSARIES
from helpers import F64, normal
from sureprox.guarantee import Certified, CertifiedCheap
from sureprox.guarantee.tracks import FALL, JUMP, adapted
from sureprox.optimizers import FISTA, ISTA
from sureprox.problems import L1


class Poisson(sp.Smooth):
    """f(x) = sum_i e^{a_i'x} - y_i a_i'x, with an L that says nothing."""

    batched = ("A", "y")

    def __init__(self, A: Tensor, y: Tensor, L: float) -> None:
        self.A, self.y, self.L = A, y, L

    @property
    def shape(self):
        return self.A.shape[0], self.A.shape[2]

    def value(self, x):
        z = torch.einsum("bmn,bn->bm", self.A, x)
        return (z.exp() - self.y * z).sum(1)

    def grad(self, x):
        return torch.einsum("bmn,bm->bn", self.A, torch.einsum("bmn,bn->bm", self.A, x).exp() - self.y)

    def lipschitz(self, exact=False):
        return torch.full_like(self.A[:, 0, 0], self.L)


def poisson(L: float) -> sp.Problem:
    A, w = normal(4, 30, 8), 0.5 * normal(4, 8, seed=1)
    y = torch.poisson(torch.einsum("bmn,bn->bm", A, w).exp(), generator=torch.Generator().manual_seed(2))
    return sp.Problem(Poisson(A, y, L), L1(torch.tensor(0.5, dtype=F64)))


@pytest.fixture(scope="module")
def solved() -> tuple[Tensor, Tensor]:
    """A solution and F*."""
    exact = sp.solve(poisson(1e4), FISTA(restart=True), max_iter=5000, tol=1e-12, certify=False)
    assert float(exact.kkt.max()) <= 1e-12 * float(poisson(1e4).scale()[1].max())  # what float64 has
    return exact.x, exact.objective


@pytest.mark.parametrize("L", [3.0, 1e-3])
@pytest.mark.parametrize("certify", [True, "audit", "cheap"])
@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_an_L_far_too_small_does_not_end_the_solve(solved, L, certify, dtype):
    for optimizer in (FISTA(restart=True), ISTA(), ADVERSARIES["NaN"]):
        solution = sp.solve(poisson(L).to(dtype=dtype), optimizer, certify=certify)
        assert solution.converged.all()
        assert (solution.rejected > 0).all()
        if dtype == F64:
            assert ((solution.objective - solved[1]).abs() <= 1e-6 * solved[1].abs()).all()


@pytest.mark.parametrize("mode", [Certified, CertifiedCheap])
@pytest.mark.parametrize("L", [3.0, 1e-3, 200.0])
def test_the_rate_holds_while_L_rises_and_falls(solved, mode, L):
    """F(x_k) - F* <= |x_0 - x*|^2 / (2 weight) and weight >= (j + 1)^2 / (4 L), L being the largest so far."""
    problem, (target, best) = poisson(L), solved
    for optimizer in (FISTA(restart=True), ADVERSARIES["ascent"]):
        method, x0 = mode(optimizer), 0.3 * normal(4, 8, seed=4)
        square = (x0 - target).square().sum(1)
        state = method.init(problem, x0)
        highest, accepted, falls, weight = 1 / state.step_size, torch.zeros(4), torch.zeros(4), torch.zeros(4)
        with torch.no_grad():
            for _ in range(150):
                before, state = state, method.step(problem, state)
                highest = torch.maximum(highest, 1 / torch.minimum(before.step_size, FALL * state.step_size))
                accepted += state.weight != before.weight
                falls += state.step_size > before.step_size
                assert (problem.objective(state.x) - best <= square / (2 * state.weight) + 1e-9 * best.abs()).all()
                assert (state.weight >= weight).all()  # what was proved is not lost
                known = (accepted + 1).square() / (4 * highest)
                assert (state.weight >= known * (1 - 1e-12))[accepted > 0].all()
                weight = state.weight
        assert (1 / state.step_size >= L * (1 - 1e-12)).all()
        if L < 100:
            assert (falls > 0).all()
            assert (accepted > (0.5 * 150 if mode is Certified else 4)).all()


def test_each_instance_alone(solved):
    problem = poisson(3.0)
    together = sp.solve(problem, ISTA())
    for i in range(4):
        alone = sp.solve(problem.select(torch.tensor([i])), ISTA())
        torch.testing.assert_close(alone.x[0], together.x[i], rtol=1e-9, atol=1e-11)
        assert alone.rejected[0] == together.rejected[i]


def test_what_L_becomes():
    L, lowest = torch.full((6,), 4.0), torch.full((6,), 1.0)
    curvature = torch.tensor([[3.0], [5.0], [20.0], [1e9], [torch.inf], [torch.nan]])
    raised, accepted = adapted(L, lowest, curvature, None)
    assert accepted[:, 0].tolist() == [True, False, False, False, False, False]
    torch.testing.assert_close(raised, torch.tensor([4.0, 8.0, 20.4, 4 * JUMP, 8.0, 8.0]))
    flat = torch.tensor([[True, True], [True, False], [True, True]])
    fallen, _ = adapted(torch.full((3,), 4.0), torch.tensor([1.0, 1.0, 3.9]), torch.ones(3, 2), flat)
    torch.testing.assert_close(fallen, torch.tensor([4 * FALL, 4.0, 4.0]))


def test_an_L_that_is_right_stays():
    problem = poisson(1e4)
    method = Certified(FISTA(restart=True))
    state = method.init(problem, problem.start())
    with torch.no_grad():
        for _ in range(60):
            state = method.step(problem, state)
    assert state.rejected.tolist() == [0] * 4
    torch.testing.assert_close(state.step_size, problem.step_size(), rtol=1e-15, atol=0)
