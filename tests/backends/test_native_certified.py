"""Certified iterations by the kernels of a CPU against the plain ones."""

from dataclasses import replace

import pytest
import torch

from engines import kernels, walked
from sureprox.guarantee import Certified, CertifiedCheap
from sureprox.guarantee.guaranteed import TRACKS, Track, is_check
from sureprox.kernels.certified import cpu as cpu_certified
from sureprox.optimizers import FISTA, ISTA, GoMathL2O, Optimizer, Sure
from sureprox.problems.stacked import Points, Stacked
from sureprox.sources import LassoFamily, LogisticFamily

pytestmark = pytest.mark.usefixtures("native")


class Wild(Optimizer):
    """Returns what no optimizer should, another thing for every instance."""

    def init(self, problem, x0, **options):
        return ISTA().init(problem, x0, **options)

    def step(self, problem, state):
        x = state.x.clone()
        x[0], x[1], x[2, 0], x[3] = torch.nan, 1e30, torch.inf, x[3]
        x[4] = x[4] + state.step_size[4] * problem.grad(state.x)[4]
        return replace(ISTA().step(problem, state), x=x)


OPTIMIZERS = {"go": GoMathL2O, "sure": Sure, "wild": Wild, "restarted": lambda: FISTA(restart=True), "fista": FISTA}
TOLERANCE = {torch.float32: 2e-5, torch.float64: 1e-12}


def sampled(m: int, n: int, dtype: torch.dtype, batch: int = 6):
    generator = torch.Generator().manual_seed(m + n)
    family = LassoFamily(m=m, n=n, nonzeros=5)
    return family.sample(batch, generator, dtype), family.start(batch, generator, dtype)


def assert_same_finder(ours, theirs, tolerance):
    """The track of the best point is the same, unless both FISTA tracks are at one point: then rounding decides."""
    other = ours.track != theirs.track
    if bool(other.any()):
        points = theirs.tracks.x[other]
        assert int(torch.minimum(ours.track, theirs.track)[other].min()) == TRACKS.index(Track.FISTA)
        assert float((points[:, 0] - points[:, -1]).abs().max()) <= tolerance * float(points.abs().max())


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("m", "n"), [(30, 44), (1, 16), (33, 64), (7, 101)])
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("factor", [1.0, 30.0])  # of the step size: with 30, L is far too small
def test_every_iteration_is_the_plain_one(name, m, n, dtype, factor):
    torch.manual_seed(0)
    problem, x0 = sampled(m, n, dtype)
    optimizer = Certified(OPTIMIZERS[name]())
    state = optimizer.init(problem, x0, step_size=factor * problem.step_size())
    stack = optimizer.stack(problem)
    # images and gradients are small differences of terms of about this size, which is what rounding is relative to
    terms = float(problem.f.b.abs().max() + problem.lipschitz().max() * x0.abs().max())
    with torch.no_grad():
        for _ in range(20):
            inner = state.inner
            if inner is not None:
                inner = optimizer.optimizer.step(problem, inner)
            ours = cpu_certified.follow(optimizer, stack, state, inner)
            theirs = optimizer.follow(stack, state, inner)
            assert torch.equal(ours.rejected, theirs.rejected)
            assert torch.equal(ours.idle, theirs.idle)
            assert_same_finder(ours, theirs, TOLERANCE[dtype])
            pairs = [(getattr(ours, p), getattr(theirs, p)) for p in ("x", "z", "step_size", "weight", "inner_z", "g")]
            pairs += [(getattr(ours.tracks, p), getattr(theirs.tracks, p)) for p in ("x", "z", "y", "zy", "t")]
            for mine, other in pairs:
                usable = other.isfinite()
                assert torch.equal(mine.isfinite(), usable)
                scale = max(float(other.where(usable, 0).abs().max()), terms)
                assert float((mine - other).where(usable, 0).abs().max()) <= TOLERANCE[dtype] * scale
            seen, known = ours.above, theirs.above
            assert torch.equal(seen.isinf(), known.isinf())
            error = (seen - known).masked_fill(known.isinf(), 0).abs()
            assert (error <= 10 * TOLERANCE[dtype] * (known.abs() + known[:, 3:4].abs() + 1)).all()
            state = optimizer.pull_back(problem, theirs) if is_check(theirs.k) else theirs
    assert ours.k == 20
    if factor > 1 and m > 1:
        assert (state.rejected > 0).all()


@pytest.mark.parametrize("kind", [Certified, CertifiedCheap])
@pytest.mark.parametrize("shift", [None, 2.0])
def test_paths_are_the_plain_ones(kind, shift):
    problem, x0 = sampled(40, 60, torch.float64)
    problem = problem if shift is None else problem.shifted(shift)
    optimizer = kind(FISTA(restart=True))
    start = optimizer.init(problem, x0)
    ours, theirs = walked(optimizer, problem, start, 60), walked(optimizer, problem, start, 60, "plain")
    assert float((ours.x - theirs.x).abs().max()) <= 1e-10
    assert torch.equal(ours.track, theirs.track)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_products_and_comparison(dtype):
    problem, x0 = sampled(23, 37, dtype)
    stack = Certified(Sure()).stack(problem)
    generator = torch.Generator().manual_seed(5)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=dtype)

    x, before, momentum = normal(6, 3, 37), normal(6, 3, 23), normal(6, 3)
    with torch.no_grad():
        ours = cpu_certified.ahead(stack, x, before, momentum)
        theirs = stack.ahead(x, before, momentum)
        for mine, other in zip(ours, theirs, strict=True):
            assert float((mine - other).abs().max()) <= TOLERANCE[dtype] * float(other.abs().max())
        start = Stacked(problem, 1)
        seen = cpu_certified.look(start, x[:, :1])
        for mine, other in zip(seen, start.look(x[:, :1]), strict=True):
            assert float((mine - other).abs().max()) <= TOLERANCE[dtype] * float(other.abs().max())
        new, base = Points(x, theirs[0]), Points(normal(6, 3, 37), normal(6, 3, 23))
        best, L = Points(x0.unsqueeze(1), normal(6, 1, 23)), problem.lipschitz()
        ours = cpu_certified.compare(stack, new, base, theirs[2], best, L)
        theirs = stack.compare(new, base, theirs[2], best, L)
    for part in ("above", "curvature", "move"):
        mine, other = getattr(ours, part), getattr(theirs, part)
        assert float((mine - other).abs().max()) <= 10 * TOLERANCE[dtype] * float(other.abs().max())


def test_what_they_are_not_made_for():
    problem, _ = sampled(20, 40, torch.float64)
    optimizer = Certified(Sure().double())
    shared = problem.select(torch.tensor([0]))
    others = [
        problem.shifted(1.0),
        LogisticFamily(m=40, n=20, nonzeros=4).sample(3, torch.Generator().manual_seed(0), torch.float64),
        type(shared)(type(shared.f)(shared.f.A[0], problem.f.b[:1]), shared.r),
    ]
    for other in others:
        assert kernels(other, optimizer).follow is None
    assert kernels(problem, optimizer).follow is cpu_certified.follow


def test_alone_is_as_in_the_batch():
    problem, x0 = sampled(30, 50, torch.float32)
    optimizer = Certified(FISTA(restart=True))
    with torch.no_grad():
        begun = optimizer.init(problem, x0)  # by PyTorch, whose products depend on the batch
        together = walked(optimizer, problem, begun, 25)
        for i in range(problem.batch):
            index = torch.tensor([i])
            alone = walked(optimizer, problem.select(index), begun.select(index), 25)
            assert torch.equal(alone.x[0], together.x[i])
