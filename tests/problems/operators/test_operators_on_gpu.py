"""On a GPU: operators as on a CPU."""

import pytest
import torch
from operator_cases import CASES, made

from helpers import F64, normal
from sureprox.problems import L1, LeastSquares, Problem
from sureprox.solve.solve import solve

F32 = torch.float32


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [F32, F64])
@pytest.mark.parametrize("name", [name for name in CASES if name != "function"])
def test_the_same_on_cuda(name, dtype):
    operator, matrix = made(name, dtype)
    there = operator.to(device="cuda")
    m, n = operator.shape
    x, z = normal(3, n, seed=5, dtype=dtype), normal(3, m, seed=6, dtype=dtype)
    close = {"rtol": 1e-12, "atol": 1e-11} if dtype == F64 else {"rtol": 1e-4, "atol": 1e-4}
    torch.testing.assert_close(there.forward(x.cuda()).cpu(), operator.forward(x), **close)
    torch.testing.assert_close(there.adjoint(z.cuda()).cpu(), operator.adjoint(z), **close)
    problem = Problem(LeastSquares(there, z.cuda()), L1(0.3))
    solution = solve(problem, tol=1e-4)
    truth = solve(Problem(LeastSquares(matrix, z.double()), L1(0.3)), tol=1e-8)
    assert bool(solution.converged.all())
    torch.testing.assert_close(solution.objective.cpu(), truth.objective, rtol=2e-4, atol=0)
    exact = problem.to(dtype=F64).lipschitz(exact=True)
    assert bool((problem.lipschitz().double() >= (1 - 1e-4) * exact).all())
