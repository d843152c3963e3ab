"""coordinates.cu against Sure's own network, run on a CPU thread by thread (see emulate.h)."""

import pytest
import torch
from emulation import emulated, pointer

from sureprox.backends import coordinates, cuda
from sureprox.backends.coordinates import FusedSureNetwork, can_fuse_coordinates, sure_coordinates
from sureprox.backends.cuda_sure import fused_sure
from sureprox.optimizers import Certified, GoMathL2O, Sure
from sureprox.problems import LassoFamily, LogisticFamily

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory):
    made = {}

    def kernel(outputs: int):
        if outputs not in made:
            made[outputs] = emulated("emulate_coordinates.cpp", {"OUTPUTS": outputs}, tmp_path_factory.mktemp("kernel"))
        return made[outputs]

    return kernel


@pytest.fixture
def on_cpu(monkeypatch, kernels):
    """`sure_coordinates` with the emulated kernel in place of the compiled one."""

    def kernel(file, name, macros, device, shared_memory=0):
        def launch(grid, block, arguments):
            *arrays, n = arguments
            assert grid[1:] == (1, 1)
            kernels(dict(macros)["OUTPUTS"]).run(*map(pointer, arrays), n, grid[0])

        return launch

    monkeypatch.setattr(cuda, "kernel", kernel)
    monkeypatch.setattr(cuda, "index", lambda device: 0)
    monkeypatch.setattr(cuda, "usable", lambda device, dtype, memory: dtype == torch.float32)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("n", [1, 30, 256, 300])
def test_emulated_kernel_is_the_network(on_cpu, conjugate, n):
    torch.manual_seed(n)
    network = Sure(conjugate=conjugate).network
    for parameter in network.parameters():
        parameter.data.normal_()  # larger than trained ones, so that every gate is used
    batch, outputs = 3, network.outputs
    features = [torch.randn(batch, k, n) for k in (1, 1, 1, 3, 1, 1)]
    told, base = torch.randn(batch, 32), torch.randn(batch, outputs, 1)
    memory = torch.randn(batch, 8, n), torch.randn(batch, 8, n)
    with torch.no_grad():
        ours, mine = FusedSureNetwork(network).coordinates(features, told, base, memory)
        exact = network.double()
        theirs, other = exact.coordinates(
            [f.double() for f in features], told.double(), base.double(), tuple(part.double() for part in memory)
        )
    for a, b in ((ours, theirs), (mine[0], other[0]), (mine[1], other[1])):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("conjugate", [False, True])
@pytest.mark.parametrize("family", [LassoFamily(m=20, n=40, nonzeros=5), LogisticFamily(m=40, n=12, nonzeros=4)])
def test_steps_are_the_same(on_cpu, conjugate, family):
    torch.manual_seed(0)
    optimizer = Sure(conjugate=conjugate)
    generator = torch.Generator().manual_seed(1)
    problem, x0 = family.sample(3, generator), family.start(3, generator)
    problem = problem.shifted(0.5)  # the kernel of the whole step is not made for these
    quick = Certified(fused_sure(optimizer))
    assert isinstance(quick.optimizer.network, FusedSureNetwork)
    assert not isinstance(optimizer.network, FusedSureNetwork)
    for fast, plain in ((quick.optimizer, optimizer), (quick, Certified(optimizer))):
        state = plain.init(problem, x0)
        with torch.no_grad():
            for _ in range(10):  # each from the same state: untrained weights may amplify rounding without limit
                ours, state = fast.step(problem, state), plain.step(problem, state)
                torch.testing.assert_close(ours.x, state.x, rtol=1e-4, atol=1e-5)


def test_nan_stays_in_its_coordinate(on_cpu):
    network = FusedSureNetwork(Sure().network)
    features = [torch.zeros(1, k, 5) for k in (1, 1, 1, 3, 1, 1)]
    features[0][0, 0, 2] = torch.nan
    memory = torch.zeros(1, 8, 5), torch.zeros(1, 8, 5)
    with torch.no_grad():
        out, _ = network.coordinates(features, torch.zeros(1, 32), torch.zeros(1, 3, 1), memory)
    assert torch.isnan(out).any(1).tolist() == [[False, False, True, False, False]]


def test_what_the_kernel_is_not_made_for(on_cpu):
    assert can_fuse_coordinates(Sure(), CPU, torch.float32)
    assert not can_fuse_coordinates(Sure(), CPU, torch.float64)
    assert not can_fuse_coordinates(Sure().double(), CPU, torch.float32)
    assert not can_fuse_coordinates(GoMathL2O(), CPU, torch.float32)
    for width in (0, 4, 16):
        assert not can_fuse_coordinates(Sure(coordinate=width), CPU, torch.float32)
    assert not can_fuse_coordinates(fused_sure(Sure()), CPU, torch.float32)


def test_compiled_code_can_hold_the_operation():
    n = 6
    memory = torch.empty(2, 8, n, device="meta")
    given = (memory, memory, memory, torch.empty(2, 32), torch.empty(2, 3), torch.empty(coordinates.UNITS))
    torch.library.opcheck(sure_coordinates, tuple(value.to("meta") for value in given), test_utils=("test_schema",))
