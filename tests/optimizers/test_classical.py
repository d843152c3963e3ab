"""ISTA, FISTA, Adam, AdamHD: their formulas, one instance at a time, whatever its neighbours, order or origin."""

import pytest
import torch

import sureprox as sp
from helpers import F64, normal, random_problem, refused, relative_error, walk
from sureprox.optimizers import FISTA, ISTA, Adam, AdamHD
from sureprox.optimizers.base import resolve_step_size
from sureprox.sources import LassoFamily

OPTIMIZERS = {
    "ista": ISTA(),
    "fista": FISTA(),
    "fista, restart": FISTA(restart=True),
    "adam": Adam(),
    "adam_hd": AdamHD(hyper_step=1e-3),
}
# Adam's step is g / (|g| + eps): where g passes through zero, a rounding error grows up to 1/eps = 1e8 times at every
# iteration, in any batch. Whole paths are comparable to 1e-12 only with an eps that keeps the map stable.
STABLE = OPTIMIZERS | {"adam": Adam(eps=1.0), "adam_hd": AdamHD(step_size=0.01, eps=1.0, hyper_step=1e-4)}
every_optimizer = pytest.mark.parametrize("optimizer", OPTIMIZERS.values(), ids=OPTIMIZERS)
every_stable_optimizer = pytest.mark.parametrize("optimizer", STABLE.values(), ids=STABLE)
both_kinds = pytest.mark.parametrize("kind", ["lasso", "logistic"])
own_and_shared = pytest.mark.parametrize("shared", [False, True])


@own_and_shared
@both_kinds
@every_stable_optimizer
def test_an_instance_does_not_see_its_batch(optimizer, kind, shared):
    """Whole paths, alone or in any company, to 1e-12; the step size is estimated in each batch anew."""
    problem = random_problem(kind, batch=5, shared=shared).shifted(normal(5, 12, seed=2))
    x0 = normal(5, 12, seed=3)
    together = walk(problem, optimizer, x0, 80)
    for index in ([0], [4, 3], [1, 1, 2]):
        part = walk(problem.select(torch.tensor(index)), optimizer, x0[index], 80)
        for k in range(81):
            for i, j in enumerate(index):
                assert relative_error(part[k, i], together[k, j]) <= 1e-12


@own_and_shared
@both_kinds
@every_optimizer
def test_a_step_does_not_see_the_batch(optimizer, kind, shared):
    """Every single step along a path, for any eps."""
    problem = random_problem(kind, batch=4, shared=shared)
    index = torch.tensor([2])
    part = problem.select(index)
    state = optimizer.init(problem, normal(4, 12, seed=3))
    for _ in range(40):
        alone = optimizer.step(part, state.select(index))
        state = optimizer.step(problem, state)
        assert relative_error(alone.x, state.x[index]) <= 1e-12


@own_and_shared
@both_kinds
@every_stable_optimizer
def test_a_solve_does_not_depend_on_the_batch(optimizer, kind, shared):
    """The same with stopping and compaction: answers, iterations and status."""
    problem = random_problem(kind, batch=4, m=16, n=6, shared=shared)
    options = {"max_iter": 120, "tol": 1e-4, "check_every": 7}
    together = sp.solve(problem, optimizer, **options)
    for i in range(4):
        alone = sp.solve(problem.select(torch.tensor([i])), optimizer, **options)
        assert relative_error(alone.x[0], together.x[i]) <= 1e-12
        assert alone.iterations[0] == together.iterations[i]
        assert alone.status[0] is together.status[i]


@both_kinds
@every_stable_optimizer
def test_permuted_coordinates_permute_the_path(optimizer, kind):
    problem = random_problem(kind)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    rhs = getattr(problem.f, problem.f.batched[1])
    permuted = getattr(sp, kind)(problem.f.A[:, :, order], rhs, problem.r.lam)
    x0, step = normal(3, 12, seed=3), problem.step_size()
    path = walk(problem, optimizer, x0, 60, step_size=step)
    assert relative_error(walk(permuted, optimizer, x0[:, order], 60, step_size=step), path[:, :, order]) <= 1e-12


@pytest.mark.parametrize("t", [10.0, -50.0, normal(3, 12, seed=8)], ids=["10", "-50", "vector"])
@both_kinds
@every_stable_optimizer
def test_a_shifted_problem_gives_the_shifted_path(optimizer, kind, t):
    """x'_k = x_k - t, iterate by iterate: F'(x) = F(x + t) from x_0 - t is F from x_0 with the origin moved."""
    problem = random_problem(kind)
    x0 = normal(3, 12, seed=3)
    path = walk(problem, optimizer, x0 + t, 60)
    moved = walk(problem.shifted(t), optimizer, x0, 60)
    assert (moved - (path - t)).abs().max() <= 1e-11 * (1 + path.abs().max())


@every_optimizer
def test_step_is_pure(optimizer):
    problem = random_problem("lasso")
    x0 = normal(3, 12, seed=3)
    kept = x0.clone()
    state = optimizer.init(problem, x0)
    tensors = {name: value.clone() for name, value in vars(state).items() if isinstance(value, torch.Tensor)}
    once, twice = optimizer.step(problem, state), optimizer.step(problem, state)
    assert torch.equal(once.x, twice.x)
    assert not torch.equal(once.x, x0)
    assert (state.k, once.k) == (0, 1)
    assert torch.equal(x0, kept)
    for name, value in tensors.items():
        assert torch.equal(getattr(state, name), value)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@every_optimizer
def test_state_keeps_dtype_and_shape(optimizer, dtype):
    problem = random_problem("lasso").to(dtype=dtype)
    state = optimizer.step(problem, optimizer.init(problem, normal(3, 12, dtype=dtype)))
    for value in vars(state).values():
        if isinstance(value, torch.Tensor):
            assert value.dtype == dtype
            assert value.shape in ((3, 12), (3,))


@every_optimizer
def test_state_select_and_detach(optimizer):
    problem = random_problem("lasso")
    x0 = normal(3, 12).requires_grad_()
    state = optimizer.step(problem, optimizer.init(problem, x0))
    assert state.x.requires_grad
    assert not any(v.requires_grad for v in vars(state.detach()).values() if isinstance(v, torch.Tensor))
    index = torch.tensor([2, 0])
    part = optimizer.step(problem.select(index), state.select(index))
    assert relative_error(part.x, optimizer.step(problem, state).x[index]) <= 1e-13


def test_ista_is_its_formula_in_plain_loops():
    problem = random_problem("lasso", batch=2)
    A, b, lam, step = problem.f.A, problem.f.b, problem.r.lam, problem.step_size()
    path = walk(problem, ISTA(), normal(2, 12, seed=3), 20)
    for i in range(2):
        x = path[0, i]
        for k in range(1, 21):
            v = x - step[i] * (A[i].T @ (A[i] @ x - b[i]))
            x = torch.sign(v) * (v.abs() - step[i] * lam[i]).clamp(min=0)
            torch.testing.assert_close(path[k, i], x, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("restart", [False, True])
def test_fista_is_its_formula_in_plain_loops(restart):
    problem = random_problem("lasso", batch=2, ratio=0.01)
    A, b, lam, step = problem.f.A, problem.f.b, problem.r.lam, problem.step_size()
    path = walk(problem, FISTA(restart=restart), normal(2, 12, seed=3), 150)
    restarts = [0, 0]
    for i in range(2):
        x = y = path[0, i]
        t = 1.0
        for k in range(1, 151):
            v = y - step[i] * (A[i].T @ (A[i] @ y - b[i]))
            new = torch.sign(v) * (v.abs() - step[i] * lam[i]).clamp(min=0)
            if restart and torch.dot(y - new, new - x) > 0:
                t = 1.0
                restarts[i] += 1
            following = (1 + (1 + 4 * t * t) ** 0.5) / 2
            x, y, t = new, new + (t - 1) / following * (new - x), following
            torch.testing.assert_close(path[k, i], x, rtol=1e-10, atol=1e-12)
    assert (min(restarts) > 0) == restart


@both_kinds
def test_ista_never_increases_the_objective(kind):
    problem = random_problem(kind)
    values = torch.stack([problem.objective(x) for x in walk(problem, ISTA(), 3 * normal(3, 12), 100)])
    assert (values[1:] <= values[:-1] + 1e-14 * values[0]).all()


@both_kinds
def test_fista_keeps_its_rate(kind):
    """F(x_k) - F* <= 2 L |x_0 - x*|^2 / (k + 1)^2."""
    problem = random_problem(kind)
    best = sp.reference(problem)
    x0 = normal(3, 12, seed=3)
    bound = 2 * problem.lipschitz() * (x0 - best.x).square().sum(1)
    for k, x in enumerate(walk(problem, FISTA(), x0, 200)):
        assert (problem.objective(x) - best.objective <= bound / (k + 1) ** 2 + 1e-13).all()


def test_restart_is_decided_for_each_instance_alone():
    easy = sp.lasso(torch.eye(12, dtype=F64).unsqueeze(0), normal(1, 12), 0.1)
    hard = random_problem("lasso", batch=1, m=12, ratio=0.001)
    A, b = torch.cat([easy.f.A, hard.f.A]), torch.cat([easy.f.b, hard.f.b])
    problem = sp.lasso(A, b, torch.cat([easy.r.lam, hard.r.lam]))
    optimizer, x0 = FISTA(restart=True), normal(2, 12, seed=3)
    momenta = [state.t for state in sp.iterate(problem, optimizer, optimizer.init(problem, x0), 60)]
    first = (1 + 5**0.5) / 2
    restarted = torch.stack(momenta)[1:] == first
    assert restarted.any(0).all()
    assert (restarted[:, 0] != restarted[:, 1]).any()


def test_adam_hd_is_its_formula_in_plain_loops():
    problem = random_problem("logistic", batch=2)
    optimizer = AdamHD(step_size=0.05, beta1=0.3, beta2=0.6, eps=1e-6, hyper_step=1e-2)
    path = walk(problem, optimizer, normal(2, 12, seed=3), 15)
    for i in range(2):
        part = problem.select(torch.tensor([i]))
        x, mean, square, direction, rate = path[0, i], 0.0, 0.0, torch.zeros(12, dtype=F64), 0.05
        for k in range(1, 16):
            g = part.grad(x.unsqueeze(0))[0] + part.r.lam * torch.sign(x)
            rate = rate + 1e-2 * float(g @ direction)
            mean, square = 0.3 * mean + 0.7 * g, 0.6 * square + 0.4 * g**2
            direction = mean / (1 - 0.3**k) / ((square / (1 - 0.6**k)) ** 0.5 + 1e-6)
            x = x - rate * direction
            torch.testing.assert_close(path[k, i], x, rtol=1e-11, atol=1e-12)


def test_adam_is_adam_hd_without_hypergradient():
    problem, x0 = random_problem("lasso"), normal(3, 12)
    still = AdamHD(step_size=0.02, beta1=0.5, beta2=0.9, eps=1e-7, hyper_step=0.0)
    assert torch.equal(walk(problem, Adam(0.02, 0.5, 0.9, 1e-7), x0, 20), walk(problem, still, x0, 20))
    assert not torch.equal(walk(problem, AdamHD(0.02, 0.5, 0.9, 1e-7, 1e-2), x0, 20), walk(problem, still, x0, 20))


def test_step_size_given_is_the_one_used():
    problem, x0 = random_problem("lasso"), normal(3, 12)
    default = ISTA().init(problem, x0)
    torch.testing.assert_close(default.step_size, 1 / problem.lipschitz())
    given = ISTA().init(problem, x0, step_size=torch.tensor([0.1, 0.2, 0.3], dtype=F64))
    assert given.step_size.tolist() == [0.1, 0.2, 0.3]
    expected = problem.prox(x0 - given.step_size.unsqueeze(1) * problem.grad(x0), given.step_size.unsqueeze(1))
    torch.testing.assert_close(ISTA().step(problem, given).x, expected, rtol=1e-14, atol=1e-14)


STEP_SIZES = {
    "zero": (torch.tensor([0.1, 0.0, 0.1], dtype=F64), "step_size is 0 for some instance", "finite and > 0"),
    "negative": (torch.tensor([0.1, -1.0, 0.1], dtype=F64), "step_size is -1 for some instance", "> 0"),
    "nan": (torch.tensor([0.1, float("nan"), 0.1], dtype=F64), "step_size is nan", "finite and > 0"),
    "infinite": (torch.tensor([0.1, float("inf"), 0.1], dtype=F64), "step_size is inf", "finite and > 0"),
}


@pytest.mark.parametrize("case", STEP_SIZES.values(), ids=STEP_SIZES)
@every_optimizer
def test_bad_step_size_is_refused(optimizer, case):
    step_size, *parts = case
    refused(lambda: sp.solve(random_problem("lasso"), optimizer, step_size=step_size), *parts)


def test_step_size_is_a_number_or_one_per_instance():
    problem = random_problem("lasso")
    assert resolve_step_size(problem, 0.5).tolist() == [0.5, 0.5, 0.5]
    refused(lambda: resolve_step_size(problem, torch.ones(2)), "step_size has shape (2,)", "needs (3,)")
    refused(lambda: resolve_step_size(problem, "1/L"), "step_size is a str", "pass a number")


@pytest.mark.parametrize("make", [Adam, AdamHD])
def test_bad_adam_is_refused(make):
    for step_size in (0.0, -1.0, float("nan")):
        refused(lambda step_size=step_size: make(step_size=step_size), f"step_size is {step_size}", "must be > 0")
    refused(lambda: make(eps=0.0), "eps 0.0", "must be > 0")
    for beta in (-0.1, 1.0, float("nan")):
        refused(lambda beta=beta: make(beta1=beta), f"beta1 is {beta}", "must lie in [0, 1)")
        refused(lambda beta=beta: make(beta2=beta), f"beta2 {beta}", "must lie in [0, 1)")


def test_restarted_fista_goes_on_in_float32_as_far_as_float32_goes():
    """Products with A summed up on top of x would stop it two digits earlier."""
    family = LassoFamily(m=100, n=200, nonzeros=20)
    generator = torch.Generator().manual_seed(0)
    problem, x0 = family.sample(5, generator), family.start(5, generator)
    exact = problem.to(dtype=torch.float64)
    best = sp.reference(exact).objective
    optimizer = FISTA(restart=True)
    *_, last = sp.iterate(problem, optimizer, optimizer.init(problem, x0), 200)
    assert float(((exact.objective(last.x.double()) - best) / best).mean()) < 2e-12
