"""tracks.cu and judge.cu against the plain steps and decisions of `Certified`, run on a CPU thread by thread."""

import ctypes
from dataclasses import replace

import pytest
import torch
from emulation import emulated, listed

from sureprox.guarantee import Certified
from sureprox.guarantee.guaranteed import is_check
from sureprox.kernels.certified import gpu as judge
from sureprox.kernels.on_gpu import operations
from sureprox.kernels.products import gpu_extrapolated
from sureprox.kernels.runtime import cuda
from sureprox.optimizers import FISTA, ISTA, Optimizer, Sure
from sureprox.problems import lasso
from sureprox.problems.forms import form_of
from sureprox.sources import LassoFamily, LogisticFamily


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    made = {}

    def kernel(name: str, macros):
        if (name, macros) not in made:
            made[name, macros] = emulated(f"emulate_{name}.cpp", dict(macros), tmp_path_factory.mktemp("kernel"))
        return made[name, macros]

    return kernel


def products(A, x, before, momentum, b, z, w, partial, *sizes):
    """What extrapolated.cu computes, by PyTorch."""
    z.copy_(torch.einsum("bmn,bkn->bkm", A, x) - b.unsqueeze(1))
    w.copy_(z + momentum.unsqueeze(2) * (z - before))
    partial.zero_()[0] = torch.einsum("bmn,bkm->bkn", A, w)


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    def kernel(file, name, macros, device, shared_memory=0):
        def launch(grid, block, arguments, shared_mem=0):
            *arrays, n, m = given = listed(file, name, arguments)
            if name == "extrapolated":
                return products(*given)
            assert grid[1:] == (1, 1)
            addresses = [None if array is None else array.data_ptr() for array in arrays]
            return kernels(name, macros).run((ctypes.c_void_p * len(addresses))(*addresses), n, m, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "multiprocessors", lambda device: 132)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "shared_memory", lambda device: 232_448)
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)


class Wild(Optimizer):
    """Returns what no optimizer should, another thing for every instance."""

    def init(self, problem, x0, **options):
        return ISTA().init(problem, x0, **options)

    def step(self, problem, state):
        x = state.x.clone()
        x[0], x[1], x[2, 0], x[3] = torch.nan, 1e30, torch.inf, x[3]
        x[4] = x[4] + state.step_size[4] * problem.grad(state.x)[4]
        return replace(ISTA().step(problem, state), x=x)


FAMILY = LassoFamily(m=30, n=44, nonzeros=5)
OPTIMIZERS = {"sure": Sure, "wild": Wild, "restarted": lambda: FISTA(restart=True), "fista": FISTA}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("factor", [1.0, 30.0])  # of the step size: with 30, L is far too small
@pytest.mark.parametrize("shared", [False, True])
def test_every_decision_is_the_plain_one(on_cpu, name, factor, shared):
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(1)
    problem, x0 = FAMILY.sample(6, generator), FAMILY.start(6, generator)
    if shared:
        problem = lasso(problem.f.A[0], problem.f.b, problem.r.lam)
    inner = OPTIMIZERS[name]()
    plain = Certified(inner)
    found, _ = operations(form_of(problem), inner, plain)
    assert found.follow is judge.follow
    assert (found.ahead is None) == shared
    quick = Certified(inner, replace(found, move=None))
    products = Certified(inner, replace(found, move=None, follow=None)).stack(problem)
    state = plain.init(problem, x0, step_size=factor * problem.step_size())
    tracks = set()
    with torch.no_grad():
        for _ in range(40):
            theirs, ours = plain.advance(products, state), quick.advance(products, state)
            for part in ("track", "rejected", "idle"):
                assert torch.equal(getattr(ours, part), getattr(theirs, part)), part
            for part in ("x", "z", "step_size", "weight", "inner_z", "g"):
                mine, other = getattr(ours, part), getattr(theirs, part)
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6, equal_nan=True)
            torch.testing.assert_close(ours.above, theirs.above, rtol=1e-4, atol=1e-4 * float(theirs.above[:, 3].max()))
            for part in ("x", "z", "y", "zy", "t"):
                mine, other = getattr(ours.tracks, part), getattr(theirs.tracks, part)
                torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)
            state = plain.pull_back(problem, theirs) if is_check(theirs.k) else theirs
            tracks |= set(state.track.tolist())
    assert (state.rejected > 0).all() if factor > 1 else (state.rejected == 0).all()
    assert len(tracks) >= (1 if name == "fista" else 2)


def test_other_problems_are_judged_by_plain_operations(on_cpu):
    generator, optimizer = torch.Generator().manual_seed(2), Certified(Sure())
    problem = FAMILY.sample(3, generator)
    assert judge.builds(form_of(problem), 3, 1)
    for other in (problem.shifted(1.0), LogisticFamily(m=40, n=12, nonzeros=4).sample(3, generator)):
        found, _ = operations(form_of(other), optimizer.optimizer, optimizer)
        assert found.follow is None
        assert (found.ahead is gpu_extrapolated.extrapolate) == (other.shift is not None)
