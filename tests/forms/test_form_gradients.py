"""Gradients through iterations on every form: those of float64 in float32, and finite differences of them."""

import pytest
import torch
from torch import Tensor

import sureprox as sp
from form_cases import MATRICES, PAIRS, problem
from helpers import normal
from sureprox.optimizers import FISTA
from sureprox.problems import Problem

FORMS = [(loss, penalty, MATRICES[k % len(MATRICES)]) for k, (loss, penalty) in enumerate(PAIRS)]
STEPS, SMALL = 5, 1e-6


def inputs(form: tuple[str, str, str], dtype: torch.dtype) -> tuple[Problem, Tensor, list[Tensor]]:
    """A problem and a size of steps, which is a constant for gradients; a start, the numbers of r, and a dense A."""
    made = problem(*form, dtype=dtype)
    step = made.step_size()
    start = (0.1 * normal(made.batch, made.n, seed=5).abs() + 0.2).to(dtype)
    data = [start, *made.r.tensors()]
    if isinstance(made.f.A, Tensor):
        made.f.A = made.f.A.clone()
        data.append(made.f.A)
    return made, step, [tensor.requires_grad_() for tensor in data if tensor.is_floating_point()]


def answer(made: Problem, step: Tensor, x0: Tensor) -> Tensor:
    """A fixed combination of the coordinates after a few certified steps."""
    x = sp.solve(made, FISTA(), x0, max_iter=STEPS, tol=1e-14, step_size=step, polish=False).x
    return (normal(*x.shape, seed=7) * x.double()).sum()


def gradients(made: Problem, step: Tensor, data: list[Tensor]) -> list[Tensor]:
    return list(torch.autograd.grad(answer(made, step, data[0]), data, materialize_grads=True))


@pytest.mark.parametrize("form", FORMS, ids=" ".join)
def test_iterations_in_float32_have_the_gradients_of_float64(form):
    single, double = (gradients(*inputs(form, dtype)) for dtype in (torch.float32, torch.float64))
    assert any(theirs.any() for theirs in double)
    for ours, theirs in zip(single, double, strict=True):
        assert torch.isfinite(ours).all()
        assert float((ours.double() - theirs).norm()) <= 1e-3 * float(theirs.norm()) + 1e-6


@pytest.mark.parametrize("form", FORMS[::2], ids=" ".join)
def test_gradients_are_differences(form):
    """Along random directions of all data at once."""
    made, step, data = inputs(form, torch.float64)
    directions = [normal(tensor.numel(), seed=k).reshape(tensor.shape) for k, tensor in enumerate(data)]
    slope = sum(float((g * d).sum()) for g, d in zip(gradients(made, step, data), directions, strict=True))
    values = []
    with torch.no_grad():
        before = [tensor.clone() for tensor in data]
        for size in (SMALL, -SMALL):
            for tensor, here, direction in zip(data, before, directions, strict=True):
                tensor.copy_(here + size * direction)
            values.append(float(answer(made, step, data[0])))
    assert slope == pytest.approx((values[0] - values[1]) / (2 * SMALL), rel=1e-4, abs=1e-5)
