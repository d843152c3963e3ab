"""The compiled steps of a CPU against the plain ones, on fresh random inputs."""

import dataclasses
from itertools import product

import pytest
import torch
from torch import Tensor

import sureprox as sp
from engines import kernels, walked
from helpers import normal, random_problem
from sureprox.base.operations import PLAIN
from sureprox.guarantee import Certified
from sureprox.kernels.network import cpu as cpu_network
from sureprox.kernels.sure import cpu as cpu_sure
from sureprox.optimizers import FISTA, L2ODM, L2OPA, GoMathL2O, RNNProp, Sure
from sureprox.problems import L1, LeastSquares, Problem, Zero
from sureprox.sources import LassoFamily

pytestmark = pytest.mark.usefixtures("native")

GO_MATH = [
    {"gradient_map": g, "q_shrink": q, "activation": a, "biases": b}
    for (g, q), (a, b) in product(
        [("lhnor", "none"), ("lh", "1/sqrtL"), ("std", "1/L"), ("lhnor", "1/L^2")],
        [("sigmoid", False), ("softplus", True)],
    )
]
SIZES = [{"hidden": h, "layers": k} for h, k in ((1, 1), (3, 2), (4, 1), (16, 3), (21, 2), (33, 1))]
OPTIMIZERS = {
    **{f"go {i}": (GoMathL2O, options) for i, options in enumerate(GO_MATH + SIZES)},
    "pa": (L2OPA, {}),
    "pa softplus": (L2OPA, {"activation": "softplus", "hidden": 7}),
    "dm": (L2ODM, {"layers": 1}),
    "rnnprop": (RNNProp, {"hidden": 5}),
    "sure": (Sure, {}),
    "sure conjugate": (Sure, {"conjugate": True, "coordinate": 5, "instance": 11}),
    "sure light": (Sure, {"coordinate": 0, "conjugate": True}),
    "sure lightest": (Sure, {"coordinate": 0, "instance": 3}),
}


def made(name: str, seed: int = 0):
    kind, options = OPTIMIZERS[name]
    torch.manual_seed(seed)
    optimizer = kind(**options)
    with torch.no_grad():
        for p in optimizer.parameters():
            p.normal_(0, 0.3)
    return optimizer


def fields(state) -> dict[str, Tensor]:
    return {f.name: v for f in dataclasses.fields(state) if isinstance(v := getattr(state, f.name), Tensor)}


def assert_close(ours, plain, rtol: float) -> None:
    """Every field within rtol of its largest entry."""
    ours, plain = fields(ours), fields(plain)
    assert ours.keys() == plain.keys()
    for name, value in plain.items():
        scale = float(value.abs().max()) or 1.0
        assert ours[name].shape == value.shape, name
        assert ours[name].dtype == value.dtype, name
        assert float((ours[name] - value).abs().max()) <= rtol * scale, name


def lasso(batch: int, m: int, n: int, seed: int, dtype: torch.dtype = torch.float64) -> tuple[Problem, Tensor]:
    problem = random_problem("lasso", batch, m, n, seed=seed).to(dtype=dtype)
    return problem, normal(batch, n, seed=seed + 5, dtype=dtype)


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize(("dtype", "rtol"), [(torch.float64, 1e-11), (torch.float32, 2e-4)])
def test_three_steps_are_the_plain_ones_in_every_field(name, dtype, rtol):
    problem, x0 = lasso(3, 13, 75, 7, dtype)
    optimizer = made(name)
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    assert_close(walked(optimizer, problem, start, 3), walked(optimizer, problem, start, 3, "plain"), rtol)


@pytest.mark.parametrize("name", ["go 0", "sure", "sure light", "pa"])
@pytest.mark.parametrize(("m", "n"), [(1, 16), (2, 17), (5, 64), (9, 65), (30, 128), (4, 200)])
def test_every_size(name, m, n):
    problem, x0 = lasso(2, m, n, m + n)
    optimizer = made(name)
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    assert_close(walked(optimizer, problem, start, 2), walked(optimizer, problem, start, 2, "plain"), 1e-11)


@pytest.mark.parametrize("name", ["go 0", "sure conjugate", "sure light"])
def test_every_kind_of_problem(name):
    problem, x0 = lasso(3, 13, 40, 3)
    shared, logistic = random_problem("lasso", 3, 13, 40, shared=True), random_problem("logistic", 3, 13, 40)
    free = Problem(LeastSquares(problem.f.A, problem.f.b), L1(0.0))
    smooth = Problem(LeastSquares(problem.f.A, problem.f.b), Zero())
    for case in (problem.shifted(0.3), problem.shifted(normal(3, 40)), shared, logistic, free, smooth):
        optimizer = made(name)
        with torch.no_grad():
            start = optimizer.init(case, x0)
        assert_close(walked(optimizer, case, start, 3), walked(optimizer, case, start, 3, "plain"), 1e-11)


def test_what_has_no_kernel_takes_the_plain_step():
    problem, x0 = lasso(2, 13, 40, 3)
    tiny, start = lasso(2, 5, 12, 3)

    class Doubled(L1):
        def prox(self, v, step):
            return super().prox(v, 2 * step)

    custom = Problem(problem.f, Doubled(problem.r.lam))
    optimizer = made("go 0")
    assert kernels(problem, optimizer).step is cpu_network.go_math_move
    assert kernels(custom, optimizer).step is None
    assert kernels(custom, optimizer).move is not cpu_network.go_math_move
    assert kernels(tiny, optimizer) == PLAIN
    begun = optimizer.init(custom, x0).detach()
    assert_close(walked(optimizer, custom, begun, 2), walked(optimizer, custom, begun, 2, "plain"), 1e-11)
    begun = optimizer.init(tiny, start).detach()
    assert torch.equal(walked(optimizer, tiny, begun, 1).x, walked(optimizer, tiny, begun, 1, "plain").x)
    with_gradient = next(sp.iterate(problem, optimizer, optimizer.init(problem, x0), 1))
    assert with_gradient.x.requires_grad


@pytest.mark.parametrize("name", ["go 0", "sure", "sure light"])
def test_every_instance_alone_whatever_its_place_and_the_threads(name):
    problem, x0 = lasso(5, 13, 75, 11, torch.float32)
    optimizer = made(name)
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    together = walked(optimizer, problem, start, 4)
    torch.set_num_threads(3)
    try:
        threaded = walked(optimizer, problem, start, 4)
    finally:
        torch.set_num_threads(1)
    order = torch.tensor([4, 2, 0, 1, 3])
    turned = walked(optimizer, problem.select(order), start.select(order), 4)
    assert torch.equal(threaded.x, together.x)
    assert torch.equal(turned.x, together.x[order])
    for i in range(5):
        one = torch.tensor([i])
        assert torch.equal(walked(optimizer, problem.select(one), start.select(one), 4).x, together.x[one])


@pytest.mark.parametrize("name", ["go 0", "go 1", "sure", "sure light", "pa", "rnnprop"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_is_not_a_number_stays_so_and_with_its_instance(name, dtype):
    problem, x0 = lasso(3, 13, 75, 2, dtype)
    optimizer = made(name)
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    x = start.x.clone()
    x[1, 40] = torch.nan
    after = walked(optimizer, problem, dataclasses.replace(start, x=x), 2)
    assert bool(torch.isnan(after.x[1]).all())
    assert torch.equal(after.x[::2], walked(optimizer, problem, start, 2).x[::2])


def test_memory_that_is_not_a_number_or_huge_gives_what_the_plain_step_gives():
    problem, x0 = lasso(2, 13, 75, 2, torch.float32)
    optimizer = made("go 0")
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    h, c = start.h.clone(), start.c.clone()
    h[0, 3, 2], c[1, 80, 1] = torch.nan, 1e30
    h[1, 100] = 1e4
    state = dataclasses.replace(start, h=h, c=c)
    ours, plain = walked(optimizer, problem, state, 1), walked(optimizer, problem, state, 1, "plain")
    torch.testing.assert_close(ours.x, plain.x, rtol=1e-5, atol=1e-6, equal_nan=True)
    assert int(torch.isnan(ours.x).sum()) == 1


@pytest.mark.parametrize("name", ["go-math-l2o/lasso", "sure", "sure light"])
def test_fifty_iterations_of_the_papers_problems_in_float32(name):
    generator, family = torch.Generator().manual_seed(20), LassoFamily()
    problem, x0 = family.sample(4, generator), family.start(4, generator)
    torch.manual_seed(1)
    optimizer = sp.load(name) if "/" in name else OPTIMIZERS[name][0](**OPTIMIZERS[name][1])
    with torch.no_grad():
        start = optimizer.init(problem, x0)
    ours, plain = walked(optimizer, problem, start, 50), walked(optimizer, problem, start, 50, "plain")
    assert float((ours.x - plain.x).norm() / plain.x.norm()) <= 1e-5
    solution = sp.solve(problem, optimizer, x0, certify=False)
    reference = sp.solve(problem, FISTA(restart=True), x0, tol=1e-9, engine="plain")
    assert bool(((solution.objective - reference.objective) <= 1e-6 * reference.objective).all())


@pytest.mark.parametrize("name", ["go 0", "sure light"])
def test_certified_steps_go_through_the_kernels(name, monkeypatch):
    problem, x0 = lasso(3, 13, 75, 5)
    calls, real = [], cpu_network.call

    def call(kernel, *rest, **more):
        calls.append(kernel)
        real(kernel, *rest, **more)

    for module in (cpu_network, cpu_sure):
        monkeypatch.setattr(module, "call", call)
    certified = Certified(made(name))
    with torch.no_grad():
        start = certified.init(problem, x0)
    ours = walked(certified, problem, start, 20)
    assert len(calls) == 20
    torch.testing.assert_close(ours.x, walked(certified, problem, start, 20, "plain").x, rtol=1e-9, atol=1e-9)


def test_the_gradient_from_one_read():
    for m, n in ((1, 16), (4, 31), (5, 32), (33, 100)):
        problem, x = lasso(3, m, n, m)
        ours = kernels(problem.shifted(0.2)).gradient(problem.shifted(0.2), x)
        torch.testing.assert_close(ours, problem.grad(x + 0.2), rtol=1e-12, atol=1e-12)
    assert kernels(random_problem("logistic", 2, 5, 40)).gradient is None
