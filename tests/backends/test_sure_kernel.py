"""sure.cu against the plain step of Sure, run on a CPU thread by thread (see emulate.h)."""

import ctypes
from dataclasses import fields, replace

import pytest
import torch
from emulation import emulated_for, listed
from torch._subclasses.fake_tensor import FakeTensorMode

from sureprox.base.operations import Operations
from sureprox.guarantee import Certified
from sureprox.guarantee.planned import Planned
from sureprox.kernels.runtime import cuda
from sureprox.kernels.runtime.replay import copy_over, shortcuts
from sureprox.kernels.runtime.structure import bare, structure, tensors
from sureprox.kernels.sure import gpu as cuda_sure
from sureprox.kernels.sure.gpu import SureMove, builds
from sureprox.optimizers import GoMathL2O, Sure
from sureprox.optimizers.base import Seen
from sureprox.problems import Problem, WeightedL1, lasso
from sureprox.problems.forms import form_of
from sureprox.sources import LassoFamily, LogisticFamily


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    return emulated_for("emulate_sure.cpp", tmp_path_factory)


@pytest.fixture
def launches(monkeypatch, kernels):
    """The emulated kernel in place of the compiled one; counts how often it was launched."""
    count = []

    def kernel(file, name, macros, device, shared_memory=0):
        def launch(grid, block, arguments):
            assert name == "sure_step"
            assert grid[1:] == (1, 1)
            *arrays, n, many = listed(file, name, arguments)
            given = [array for array in arrays if array is not None]
            assert all(array.is_contiguous() and array.dtype == torch.float32 for array in given)
            addresses = [None if array is None else array.data_ptr() for array in arrays]
            kernels(macros).run((ctypes.c_void_p * 35)(*addresses), n, many, grid[0])
            count.append(name)

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)
    return count


def lively(coordinate: int, conjugate: bool) -> Sure:
    """With weights of a size at which every gate and output matters."""
    torch.manual_seed(3)
    optimizer = Sure(coordinate=coordinate, conjugate=conjugate)
    for parameter in optimizer.parameters():
        parameter.data.normal_(std=0.3)
    return optimizer


def in_double(state):
    return replace(
        state, **{f.name: v.double() for f in fields(state) if isinstance(v := getattr(state, f.name), torch.Tensor)}
    )


CASES = [
    (LassoFamily(m=20, n=40, nonzeros=5), 0.0),
    (LassoFamily(m=8, n=150, nonzeros=9), 0.0),  # another number of threads
    (LassoFamily(m=8, n=300, nonzeros=9), 1.0),  # more coordinates than threads, a start far away
    (LassoFamily(m=8, n=600, nonzeros=9), 0.0),  # more than a thread has in a pair
    (LogisticFamily(m=40, n=12, nonzeros=4), 0.0),
]


@pytest.mark.parametrize(("n", "expected"), [(1, 64), (128, 64), (129, 128), (256, 128), (257, 256), (5000, 256)])
def test_a_block_has_a_thread_for_two_coordinates(n, expected):
    assert cuda_sure.threads(n) == expected


@pytest.mark.parametrize("coordinate", [0, 8])
@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize(("family", "offset"), CASES)
def test_every_field_after_a_step_is_that_of_the_plain_step(launches, coordinate, conjugate, family, offset):
    """From every state of a run, the next one by the kernel and by the plain code in double precision: the kernel is
    about as exact as the plain code in float32."""
    optimizer = lively(coordinate, conjugate)
    quick, exact = SureMove(optimizer), lively(coordinate, conjugate).double()
    generator = torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator) + offset
    state = optimizer.init(problem, x0)
    double = problem.to(dtype=torch.float64)
    with torch.no_grad():
        for number in range(8):
            g = problem.grad(state.x)
            ours = quick(optimizer, problem, state, Seen(g))
            theirs = exact.move(double, in_double(state), Seen(g.double()))
            single = optimizer.move(problem, state, Seen(g))
            assert ours.k == theirs.k == number + 1
            for f in fields(ours):
                mine, other = getattr(ours, f.name), getattr(theirs, f.name)
                if isinstance(mine, torch.Tensor):
                    assert mine.shape == other.shape, f.name
                    rounding = float((getattr(single, f.name) - other).abs().max())  # of the plain step in float32
                    error = float((mine - other).abs().max())
                    assert error <= 1e-5 * float(other.abs().max()) + 4 * rounding, (number, f.name, error, rounding)
            state = ours
    assert len(launches) == 8


@pytest.mark.parametrize("lam", [0.05, [0.05, 0.0, 0.4]])
def test_one_lam_or_one_for_each(launches, lam):
    generator = torch.Generator().manual_seed(1)
    A, b = torch.randn(3, 10, 20, generator=generator), torch.randn(3, 10, generator=generator)
    problem = lasso(A, b, torch.tensor(lam))
    optimizer = Sure()
    ours = theirs = optimizer.init(problem, torch.zeros(3, 20))
    quick = Operations(move=SureMove(optimizer))
    with torch.no_grad():
        for _ in range(10):
            ours, theirs = Planned(optimizer, quick).step(problem, ours), optimizer.step(problem, theirs)
    torch.testing.assert_close(ours.x, theirs.x, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("coordinate", "conjugate"), [(8, False), (0, True), (8, True)])
def test_certified_runs_are_the_same(launches, coordinate, conjugate):
    family, generator = LassoFamily(m=20, n=40, nonzeros=5), torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    plain = Certified(Sure(coordinate=coordinate, conjugate=conjugate))
    quick = Certified(plain.optimizer, Operations(move=SureMove(plain.optimizer)))
    state = plain.init(problem, x0)
    with torch.no_grad():
        for _ in range(10):  # each from the same state: untrained weights may amplify rounding without limit
            ours, state = quick.step(problem, state), plain.step(problem, state)
            torch.testing.assert_close(ours.x, state.x, rtol=1e-4, atol=1e-5)
    assert len(launches) == 10


@pytest.mark.parametrize("coordinate", [0, 8])
@pytest.mark.parametrize("where", ["x", "g"])
def test_nan_is_seen_and_stays_in_its_instance(launches, coordinate, where):
    optimizer = lively(coordinate, True)
    family, generator = LassoFamily(m=20, n=40, nonzeros=5), torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    state = optimizer.init(problem, x0)
    g = problem.grad(x0).clone()
    quick = SureMove(optimizer)
    with torch.no_grad():
        clean = quick(optimizer, problem, state, Seen(g))
        broken = state.x.clone()
        (broken if where == "x" else g)[1, 7] = torch.nan
        after = quick(optimizer, problem, replace(state, x=broken), Seen(g))
    assert bool(torch.isnan(after.x[1, 7]))
    assert torch.equal(after.x[[0, 2]], clean.x[[0, 2]])


def test_what_the_kernel_is_not_made_for(launches):
    problem = LassoFamily(m=20, n=40, nonzeros=5).sample(3, torch.Generator().manual_seed(1))
    form = form_of(problem)
    assert builds(form, Sure())
    assert builds(form, Sure(coordinate=0))
    for other in (problem.shifted(1.0), Problem(problem.f, WeightedL1(torch.full((40,), 0.1)))):
        assert not builds(form_of(other), Sure())
    assert not builds(form_of(problem.to(dtype=torch.float64)), Sure())
    for other in (Sure().double(), GoMathL2O(), Sure(coordinate=4)):
        assert not builds(form, other)


def test_compiled_code_knows_the_shapes(launches):
    """The shapes that torch.compile is told are those of what comes back."""
    family, generator = LassoFamily(m=20, n=40, nonzeros=5), torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    for coordinate, conjugate in ((8, False), (0, True), (8, True)):
        optimizer = Sure(coordinate=coordinate, conjugate=conjugate)
        state = optimizer.init(problem, x0)
        memory = cuda_sure.COORDINATE if coordinate else ()
        names = ("step_size", *cuda_sure.VECTORS, *cuda_sure.NUMBERS, *cuda_sure.INSTANCE, *memory)
        given = [problem.grad(x0), problem.r.lam, [getattr(state, name) for name in names], SureMove(optimizer).packed]
        made = cuda_sure.sure_step(*given)
        with FakeTensorMode() as mode:
            told = cuda_sure.sure_step(*torch.utils._pytree.tree_map(mode.from_tensor, given))
        assert [value.shape for value in told] == [value.shape for value in made]


@pytest.mark.parametrize(("coordinate", "conjugate"), [(8, False), (0, True)])
def test_the_step_that_closes_a_ring_writes_where_it_began(launches, coordinate, conjugate):
    """Four steps as `Replay` records them: the last one's results lie in the first state, and little is copied."""
    family, generator = LassoFamily(m=20, n=40, nonzeros=5), torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    optimizer = lively(coordinate, conjugate)
    quick = Operations(move=SureMove(optimizer))
    state = optimizer.init(problem, x0)
    shape = structure(state)
    first = tuple(value.contiguous().clone() for value in tensors(state, shape))
    states, made = [first], cuda.Results({})
    with torch.no_grad():
        for place in range(4):
            given = shortcuts(first, states, made) if place == 3 else {}
            with cuda.results(given) as made:
                after = tensors(Planned(optimizer, quick).step(problem, bare(shape, iter(states[place]))), shape)
            states.append(after)
        for _ in range(4):
            state = Planned(optimizer, quick).step(problem, state)
    names = [name for name, kind in shape.fields if kind == "tensor"]
    apart = {name for name, a, b in zip(names, first, after, strict=True) if a.data_ptr() != b.data_ptr()}
    assert apart == (set() if conjugate else {"x_before", "g_before"})  # this g comes from the plain gradient
    copy_over(first, after)
    for name, mine, exact in zip(names, first, tensors(state, shape), strict=True):
        assert torch.equal(mine, exact), name


def test_what_the_closing_step_still_reads_is_not_overwritten():
    first = (torch.zeros(2), torch.zeros(2))
    later, made = torch.ones(2), cuda.Results({}, [])
    made.places.append(later.data_ptr())
    assert shortcuts(first, [first, (later, torch.ones(2))], made) == {0: first[0]}
    assert shortcuts(first, [first, (later, first[0])], made) == {}
