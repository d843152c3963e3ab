"""Iterations of the cheap guarantee by the kernels of a CPU against the plain ones."""

import dataclasses

import pytest
import torch

from engines import kernels, walked
from sureprox.guarantee import CertifiedCheap
from sureprox.guarantee.cheap import SHARE
from sureprox.kernels.certified import cpu as cpu_certified
from sureprox.kernels.network.cpu import go_math_move
from sureprox.optimizers import FISTA, ISTA, GoMathL2O, Sure
from sureprox.optimizers.base import Seen
from sureprox.problems.stacked import Points, Stacked
from sureprox.sources import LassoFamily, LogisticFamily

pytestmark = pytest.mark.usefixtures("native")

OPTIMIZERS = {"go": GoMathL2O, "sure": Sure, "ista": ISTA, "restarted": lambda: FISTA(restart=True)}
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def sampled(m: int, n: int, dtype: torch.dtype, batch: int = 5):
    generator = torch.Generator().manual_seed(m + n)
    family = LassoFamily(m=m, n=n, nonzeros=5)
    return family.sample(batch, generator, dtype), family.start(batch, generator, dtype)


def both(optimizer, problem, state, inner):
    """A turn by the kernel and by the plain code."""
    stack = Stacked(problem, 1)
    base = Points(state.inner.x.unsqueeze(1), state.inner_z.unsqueeze(1))
    return cpu_certified.follow_cheap(stack, state, inner), optimizer.follow(stack, state, base, state.g, inner)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("m", "n"), [(30, 44), (1, 16), (33, 64), (7, 101)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("factor", [1.0, 30.0])  # of the step size: with 30, L is far too small
def test_every_turn_is_the_plain_one(name, m, n, dtype, factor):
    torch.manual_seed(0)
    problem, x0 = sampled(m, n, dtype)
    optimizer = CertifiedCheap(OPTIMIZERS[name]())
    state = optimizer.init(problem, x0, step_size=factor * problem.step_size())
    terms = float(problem.f.b.abs().max() + problem.lipschitz().max() * x0.abs().max())
    with torch.no_grad():
        for _ in range(2 * SHARE + 3):
            inner = optimizer.optimizer.step(problem, state.inner)
            if not float(inner.x.abs().max()) < 1e16:  # it flies off
                break
            ours, theirs = both(optimizer, problem, state, inner)
            assert ours.k == theirs.k == state.k + 1
            for part in ("track", "rejected", "idle", "pull_backs", "given_up"):
                assert torch.equal(getattr(ours, part), getattr(theirs, part)), part
            pairs = [(getattr(ours, p), getattr(theirs, p)) for p in ("x", "z", "inner_z", "g", "fista_g", "weight")]
            pairs += [(getattr(ours.fista, p), getattr(theirs.fista, p)) for p in ("x", "z", "y", "zy", "t")]
            pairs += [(ours.step_size, theirs.step_size)]
            for mine, other in pairs:
                scale = max(float(other.abs().max()), terms, float(inner.x.abs().max()) * terms)
                assert mine.shape == other.shape
                assert float((mine - other).abs().max()) <= TOLERANCE[dtype] * scale
            for part in ("gained", "origin", "now"):
                mine, other = getattr(ours, part), getattr(theirs, part)
                assert torch.equal(mine.isinf(), other.isinf()), part  # far away F overflows
                error = (mine - other).masked_fill(other.isinf(), 0).abs()
                error = error / (other.abs() + theirs.origin.abs() + terms**2)
                assert float(error.max()) <= 10 * TOLERANCE[dtype], part
            state = theirs
    assert state.k >= SHARE
    if factor > 1 and m > 1:
        assert (state.rejected > 0).all()


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize(("m", "n"), [(30, 44), (33, 64), (7, 101)])
def test_step_and_turn_in_one_kernel_are_the_two(m, n, dtype):
    torch.manual_seed(0)
    problem, x0 = sampled(m, n, dtype)
    optimizer = CertifiedCheap(GoMathL2O().to(dtype))
    with torch.no_grad():
        state = optimizer.init(problem, x0)
        for _ in range(SHARE + 2):
            ours = cpu_certified.go_math_turn(optimizer, problem, state)
            inner = go_math_move(optimizer.optimizer, problem, state.inner, Seen(state.g[:, 0]))
            theirs = both(optimizer, problem, state, inner)[0]
            for mine, other in ((ours, theirs), (ours.inner, theirs.inner), (ours.fista, theirs.fista)):
                for field in dataclasses.fields(mine):
                    value = getattr(mine, field.name)
                    if isinstance(value, torch.Tensor):
                        assert torch.equal(value, getattr(other, field.name)), field.name
            state = ours
        assert state.k == SHARE + 2
    assert kernels(problem, optimizer).turn is cpu_certified.go_math_turn
    assert kernels(problem, CertifiedCheap(ISTA())).turn is None
    assert kernels(problem.shifted(1.0), optimizer).turn is None


def test_where_it_applies():
    problem, _ = sampled(20, 40, torch.float64)
    assert kernels(problem).follow_cheap is cpu_certified.follow_cheap
    logistic = LogisticFamily(m=40, n=20, nonzeros=4).sample(3, torch.Generator(), torch.float64)
    for other in (problem.shifted(1.0), logistic):
        assert kernels(other).follow_cheap is None


def test_steps_go_through_the_kernel_until_one_is_given_up(monkeypatch):
    problem, x0 = sampled(30, 50, torch.float64)
    calls, real = [], cpu_certified.call
    monkeypatch.setattr(
        cpu_certified, "call", lambda name, *rest, **more: (calls.append(name), real(name, *rest, **more))
    )
    optimizer = CertifiedCheap(ISTA())  # slower than restarted FISTA: given up
    with torch.no_grad():
        state = optimizer.init(problem, x0)
        while not state.any_up:
            assert calls.count(cpu_certified.TURN) == state.k
            state = walked(optimizer, problem, state, 1)
        turns = state.k
        state = walked(optimizer, problem, state, 12)
    assert calls.count(cpu_certified.TURN) == turns
    assert bool(state.given_up.any())


def test_alone_is_as_in_the_batch():
    problem, x0 = sampled(30, 50, torch.float32)
    torch.manual_seed(0)
    optimizer = CertifiedCheap(GoMathL2O())
    with torch.no_grad():
        begun = optimizer.init(problem, x0)  # by PyTorch, whose products depend on the batch
        together = walked(optimizer, problem, begun, SHARE + 3)
        for i in range(problem.batch):
            index = torch.tensor([i])
            alone = walked(optimizer, problem.select(index), begun.select(index), SHARE + 3)
            assert torch.equal(alone.x[0], together.x[i])
            assert torch.equal(alone.fista.x[0], together.fista.x[i])
