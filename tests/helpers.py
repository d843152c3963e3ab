"""Random problems of any shape and conditioning, and small pieces that several tests share."""

import re
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import sureprox as sp
from sureprox.problems import Problem

F64 = torch.float64


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=F64).to(dtype)


def labels(batch: int, m: int, seed: int = 0) -> Tensor:
    """Random labels, both kinds present where m > 1."""
    y = (normal(batch, m, seed=seed) > 0).to(F64)
    y[:, 0] = 0
    y[:, -1] = 1
    return y


def random_problem(
    kind: str, batch: int = 3, m: int = 8, n: int = 12, ratio: float = 0.1, seed: int = 0, shared: bool = False
) -> Problem:
    """Gaussian data; lam = ratio * lam_max, where lam_max is the smallest lam whose solution is zero."""
    A = normal(m, n, seed=seed) if shared else normal(batch, m, n, seed=seed)
    rhs = normal(batch, m, seed=seed + 1) if kind == "lasso" else labels(batch, m, seed=seed + 1)
    return with_ratio(kind, A, rhs, ratio)


def with_ratio(kind: str, A: Tensor, rhs: Tensor, ratio: float) -> Problem:
    make = getattr(sp, kind)
    return make(A, rhs, ratio * lam_max(make(A, rhs, 0.0)))


def lam_max(problem: Problem) -> Tensor:
    return problem.f.grad(torch.zeros(problem.batch, problem.n, dtype=problem.dtype)).abs().amax(1)


def autoregressive(batch: int, m: int, n: int, rho: float, seed: int = 0) -> Tensor:
    """Columns a_j = rho a_{j-1} + sqrt(1 - rho^2) noise: neighbours have correlation rho."""
    noise = normal(batch, m, n, seed=seed)
    columns = [noise[:, :, 0]]
    for j in range(1, n):
        columns.append(rho * columns[-1] + (1 - rho**2) ** 0.5 * noise[:, :, j])
    return torch.stack(columns, 2)


def walk(problem: Problem, optimizer: sp.optimizers.Optimizer, x0: Tensor | None, steps: int, **options) -> Tensor:
    """The iterates x_0, ..., x_steps as (steps + 1, B, n)."""
    state = optimizer.init(problem, x0, **options)
    path = [state.x]
    path += [state.x for state in sp.iterate(problem, optimizer, state, steps)]
    return torch.stack(path)


def relative_error(ours: Tensor, theirs: Tensor) -> float:
    """Largest difference over the largest magnitude."""
    ours, theirs = ours.detach(), theirs.detach()
    return float((ours - theirs).abs().max() / theirs.abs().max().clamp(min=torch.finfo(F64).tiny))


def refused(call: Callable[[], object], *parts: str, error: type[Exception] = sp.InputError) -> None:
    """`call` raises `error` with a message of one line that holds every one of `parts`."""
    with pytest.raises(error) as caught:
        call()
    message = str(caught.value)
    assert "\n" not in message
    for part in parts:
        assert re.search(re.escape(part), message), f"{part!r} is not in: {message}"
