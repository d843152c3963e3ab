"""A step that also says F at its start: the same numbers, one product with A less."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import sureprox as sp
from helpers import relative_error
from optimizer_cases import FAMILIES, calm, seeded, small_problem, start_point, tensors
from sureprox.optimizers import FISTA
from sureprox.optimizers.base import observed_step
from training_cases import LSTM_KINDS, network


def shift_of(problem):
    return torch.linspace(-2, 3, problem.n, dtype=problem.dtype)


@pytest.mark.parametrize("shifted", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", LSTM_KINDS)
def test_observed_step_is_objective_and_step(kind, family, shifted):
    problem = small_problem(family)
    if shifted:
        problem = problem.shifted(shift_of(problem))
    optimizer = calm(network(kind)).double()
    with torch.no_grad():
        state = optimizer.init(problem, start_point(), generator=seeded())
        for k in range(1, 5):
            objective, after = observed_step(optimizer, problem, state)
            assert relative_error(objective, problem.objective(state.x)) <= 1e-12
            expected = optimizer.step(problem, state)
            assert after.k == k
            for name, value in tensors(expected).items():
                assert torch.allclose(tensors(after)[name], value, rtol=1e-12, atol=1e-14), name
            state = after


class Products(TorchDispatchMode):
    """Counts the products with the matrix A."""

    KINDS = ("mm", "bmm", "mv", "addmm", "baddbmm", "addmv")

    def __init__(self, A: torch.Tensor) -> None:
        super().__init__()
        self.memory = A.untyped_storage().data_ptr()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in self.KINDS:
            self.count += any(
                a.untyped_storage().data_ptr() == self.memory for a in args if isinstance(a, torch.Tensor)
            )
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("kind", LSTM_KINDS)
@torch.no_grad()
def test_observed_step_saves_a_product_with_A(kind, family):
    problem, optimizer = small_problem(family), calm(network(kind)).double()
    state = optimizer.init(problem, start_point(), generator=seeded())
    with Products(problem.f.A) as apart:
        optimizer.step(problem, state)
        problem.objective(state.x)
    with Products(problem.f.A) as together:
        observed_step(optimizer, problem, state)
    assert (apart.count, together.count) == (3, 2)


def test_an_optimizer_that_looks_elsewhere_is_refused():
    problem = small_problem("lasso")
    with pytest.raises(sp.InputError, match="FISTA does not ask for the gradient at its point"):
        observed_step(FISTA(), problem, FISTA().init(problem, start_point()))
