"""Sure: what it is without a network, what it does not see, and that the published prototype's numbers come back."""

import runpy
from pathlib import Path

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import sureprox as sp
from helpers import autoregressive, normal, random_problem, refused, with_ratio
from optimizer_cases import calm, gap, path, small_problem, start_point, states
from sureprox.optimizers import FISTA, Sure, sure
from sureprox.optimizers.base import observed_step
from sureprox.problems import Penalty, Problem, Zero
from sureprox.problems.losses import LeastSquares
from sureprox.sources import LassoFamily

F64 = torch.float64
RESEARCH = Path(__file__).resolve().parents[3] / "shared" / "research"
VARIANTS = {
    "full": {},
    "conjugate": {"conjugate": True},
    "light": {"coordinate": 0},
    "light-conjugate": {"coordinate": 0, "conjugate": True},
}
every_variant = pytest.mark.parametrize("variant", list(VARIANTS))


def silent(**arguments) -> Sure:
    """A network whose output is zero, and that takes nothing of the conjugate direction."""
    optimizer = Sure(**arguments).double()
    with torch.no_grad():
        for parameter in optimizer.parameters():
            parameter.zero_()
        if optimizer.conjugate:
            optimizer.network.out.bias[3] = -1e3
    return optimizer


def prototype(name: str) -> Sure:
    """The prototype, through the script that imports it."""
    file = RESEARCH / f"{name}_prototype_weights.npz"
    if not file.is_file():
        pytest.skip(f"no prototype: {file} is not there (the repository was checked out alone)")
    script = Path(__file__).resolve().parents[2] / "scripts" / "import_prototype.py"
    return runpy.run_path(str(script))["prototype"](file)


def median_iterations(optimizer, problem: Problem, x0, steps: int, tol: float = 1e-6) -> int:
    best = sp.reference(problem).objective
    exact = problem.to(dtype=F64)
    hit = torch.full((problem.batch,), steps + 1)
    with torch.no_grad():
        for state in sp.iterate(problem, optimizer, optimizer.init(problem, x0), steps):
            small = (exact.objective(state.x.double()) - best) / best <= tol
            hit = torch.where(small & (hit > steps), state.k, hit)
    return int(hit.median())


# --- without a network ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("variant", "shift"), [("full", 30.0), ("conjugate", 0.0), ("light", 0.0)])
def test_with_zero_output_and_free_momentum_it_is_restarted_fista(variant, shift, monkeypatch):
    monkeypatch.setenv("SUREPROX_ENGINE", "plain")  # kernels have these bounds built in
    monkeypatch.setattr(sure, "MOMENTUM", (0.0, 1.0))
    problem, x0 = random_problem("lasso", m=20, n=40), normal(3, 40, seed=4) + shift
    ours = path(problem, silent(**VARIANTS[variant]), x0, 200)
    theirs = path(problem, FISTA(restart=True), x0, 200)
    assert gap(ours, theirs) <= 1e-9
    assert float((theirs[-1] - theirs[0]).abs().max()) > 0.1


def test_with_zero_output_the_bounds_on_the_momentum_cost_little():
    problem, x0 = random_problem("lasso", m=20, n=40), normal(3, 40, seed=4)
    ours, theirs = (median_iterations(o, problem, x0, 400) for o in (silent(), FISTA(restart=True)))
    assert ours <= 1.1 * theirs
    assert theirs <= 399


def test_the_momentum_is_restarted_for_each_instance_alone():
    problem, x0 = random_problem("lasso", m=20, n=40), normal(3, 40, seed=4)
    momenta = torch.stack([s.momentum for s in states(problem, silent(), x0, 60)])
    restarted = momenta[1:] == 0
    assert restarted[1:].any(0).all()
    assert not (restarted == restarted[:, :1]).all()


# --- what it does not see ---------------------------------------------------------------------------------------------

SCALED = {
    "b, lam and x0": lambda A, b, lam, x0, c: (A, c * b, c * lam, c * x0, c),
    "A and lam": lambda A, b, lam, x0, c: (c * A, b, c * lam, x0 / c, 1 / c),
}


def scale_case(name: str):
    optimizer = prototype("sure") if name == "prototype" else calm(Sure(**VARIANTS[name]))
    generator = torch.Generator().manual_seed(2)
    problem = LassoFamily(m=50, n=100, nonzeros=10).sample(4, generator, F64)
    return optimizer.double(), problem.f.A, problem.f.b, problem.r.lam, normal(4, 100, seed=5) + 3


@pytest.mark.parametrize(
    ("name", "what", "c"),
    [
        ("full", "b, lam and x0", 1e5),
        ("full", "A and lam", 37.0),
        ("conjugate", "A and lam", 1e-4),
        ("light", "b, lam and x0", 1e-4),
        ("light-conjugate", "b, lam and x0", 37.0),
        ("light-conjugate", "A and lam", 37.0),
        ("prototype", "b, lam and x0", 37.0),
        ("prototype", "A and lam", 1e-4),
    ],
)
def test_scaling_the_problem_scales_the_path(name, what, c):
    optimizer, A, b, lam, x0 = scale_case(name)
    A2, b2, lam2, start, factor = SCALED[what](A, b, lam, x0, c)
    ours = path(sp.lasso(A2, b2, lam2), optimizer, start, 200) / factor
    assert gap(ours, path(sp.lasso(A, b, lam), optimizer, x0, 200)) <= 1e-10


@pytest.mark.parametrize(("variant", "c"), [("full", 37.0), ("light-conjugate", 1e-3)])
def test_scaling_the_columns_of_a_logistic_problem_scales_the_path(variant, c):
    problem, optimizer, x0 = small_problem("logistic"), calm(Sure(**VARIANTS[variant])).double(), start_point()
    scaled = sp.logistic(c * problem.f.A, problem.f.y, c * problem.r.lam)
    assert gap(c * path(scaled, optimizer, x0 / c, 200), path(problem, optimizer, x0, 200)) <= 1e-10


@pytest.mark.parametrize("name", ["full", "light-conjugate", "prototype"])
def test_moving_the_problem_moves_the_path(name):
    optimizer, A, b, lam, x0 = scale_case(name)
    problem, t = sp.lasso(A, b, lam), 20 * normal(4, 100, seed=9)
    moved = path(problem.shifted(t), optimizer, x0 - t, 200) + t
    assert gap(moved, path(problem, optimizer, x0, 200)) <= 1e-10


# --- any penalty ------------------------------------------------------------------------------------------------------


class Positive(Penalty):
    """r(x) = lam sum(x), x >= 0: its subdifferential at zero has no lower bound."""

    batched = ()

    def __init__(self, lam: float) -> None:
        self.lam = torch.tensor(lam, dtype=F64)

    def value(self, x):
        return torch.where((x >= 0).all(1), self.lam * x.sum(1), torch.inf)

    def prox(self, v, step):
        return (v - self.lam * step).clamp(min=0)

    def subdiff(self, x):
        high = self.lam.expand_as(x)
        return torch.where(x > 0, high, -torch.inf), high


@pytest.mark.parametrize("variant", ["full", "light-conjugate"])
@pytest.mark.parametrize("penalty", [Zero(), Positive(0.1)], ids=["zero", "positive"])
def test_other_penalties(variant, penalty):
    f = LeastSquares(normal(3, 30, 10), normal(3, 30, seed=1))
    problem, optimizer = Problem(f, penalty), calm(Sure(**VARIANTS[variant])).double()
    walked = states(problem, optimizer, normal(3, 10, seed=3).abs(), 400)
    assert all(torch.isfinite(s.x).all() for s in walked)
    assert float(problem.kkt_residual(walked[-1].x).max()) <= 1e-8 * float(problem.kkt_residual(walked[0].x).max())


def test_starting_at_the_solution_stays_there():
    problem = sp.lasso(normal(2, 6, 9), torch.zeros(2, 6, dtype=F64), 0.1)
    assert path(problem, calm(Sure()).double(), problem.start(), 20).abs().max() == 0


# --- one gradient -----------------------------------------------------------------------------------------------------


class Products(TorchDispatchMode):
    """Counts the products with the matrix A."""

    def __init__(self, A: torch.Tensor) -> None:
        super().__init__()
        self.memory, self.count = A.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function.overloadpacket.__name__ in ("mm", "bmm", "mv", "addmm", "baddbmm", "addmv"):
            found = [a for a in args if isinstance(a, torch.Tensor)]
            self.count += any(a.untyped_storage().data_ptr() == self.memory for a in found)
        return function(*args, **(kwargs or {}))


@every_variant
@pytest.mark.parametrize("family", ["lasso", "logistic"])
@torch.no_grad()
def test_a_step_needs_two_products_and_tells_the_objective(variant, family):
    problem, optimizer = small_problem(family), calm(Sure(**VARIANTS[variant])).double()
    state = states(problem, optimizer, start_point(), 3)[-1]
    with Products(problem.f.A) as counted:
        objective, after = observed_step(optimizer, problem, state)
    assert counted.count == 2
    torch.testing.assert_close(objective, problem.objective(state.x), rtol=1e-12, atol=0)
    torch.testing.assert_close(after.x, optimizer.step(problem, state).x, rtol=1e-12, atol=0)


@every_variant
def test_detached_features_change_the_gradient_and_not_the_path(variant):
    problem, optimizer, x0 = small_problem("lasso"), calm(Sure(**VARIANTS[variant])).double(), start_point()
    cut = optimizer.sharing_weights(detached_features=True)
    assert torch.equal(path(problem, cut, x0, 10), path(problem, optimizer, x0, 10))
    slopes = []
    for one in (optimizer, cut):
        *_, last = sp.iterate(problem, one, one.init(problem, x0), 5)
        slopes.append(torch.autograd.grad(problem.objective(last.x).sum(), optimizer.network.out.weight)[0])
    assert not torch.allclose(*slopes, rtol=1e-3)
    assert slopes[1].abs().max() > 0


def test_bad_arguments():
    refused(lambda: Sure(coordinate=-1), "coordinate is -1", ">= 0")
    refused(lambda: Sure(instance=0), "instance is 0", ">= 1")
    refused(lambda: Sure(conjugate=1), "conjugate is 1", "True or False")
    refused(lambda: Sure().load_released({}), "not in the released code", error=sp.WeightsError)


# --- the prototype ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shift", "published"), [("sure", 0, 16), ("sure", 10, 24), ("sure", 100, 46), ("cgonly", 0, 21)]
)
def test_the_prototype_comes_back(name, shift, published):
    """Medians over 64 problems in its table; over 6 other ones here."""
    generator = torch.Generator().manual_seed(5)
    problem, x0 = LassoFamily().sample(6, generator), LassoFamily().start(6, generator)
    assert abs(median_iterations(prototype(name), problem, x0 + shift, 70) - published) <= 2


def test_the_prototype_on_correlated_columns():
    A = autoregressive(4, 80, 160, 0.9)
    A = A / torch.linalg.vector_norm(A, dim=1, keepdim=True)
    problem = with_ratio("lasso", A, (A @ (normal(4, 160, 1) * (normal(4, 160, 1, seed=2) > 1.3)))[:, :, 0], 0.05)
    problem, x0 = problem.to(dtype=torch.float32), normal(4, 160, seed=3, dtype=torch.float32)
    ours = median_iterations(prototype("sure"), problem, x0, 400)
    assert 2.5 * ours <= median_iterations(FISTA(restart=True), problem, x0, 1000)


def test_the_architecture_has_the_published_size():
    assert sum(p.numel() for p in Sure().parameters()) == 7942
