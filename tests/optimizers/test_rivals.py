"""PANOC, SpaRSA, OptISTA, ProxNewton and FISTA with a local L: they solve, alone and certified, and count honestly."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

import sureprox as sp
from helpers import F64, autoregressive, labels, normal, random_problem, refused, relative_error, walk, with_ratio
from sureprox.optimizers import PANOC, LocalFISTA, OptISTA, ProxNewton, SpaRSA
from sureprox.problems import LeastSquares, Penalty, Problem, Smooth

# and the steps that are enough below
RIVALS = {
    "local fista": (LocalFISTA(), 150),
    "local fista, no restart": (LocalFISTA(restart=False), 700),
    "sparsa": (SpaRSA(), 150),
    "panoc": (PANOC(), 80),
    "panoc, memory 3": (PANOC(memory=3), 120),
    "optista": (OptISTA(steps=60), 600),
    "prox-newton": (ProxNewton(inner=100), 15),
}
every = pytest.mark.parametrize(("optimizer", "steps"), RIVALS.values(), ids=RIVALS)
first_order = pytest.mark.parametrize(
    ("optimizer", "steps"), [v for k, v in RIVALS.items() if k != "prox-newton"], ids=[*RIVALS][:-1]
)
both_kinds = pytest.mark.parametrize("kind", ["lasso", "logistic"])


class Between(Penalty):
    """0 where low <= x_j <= high, else infinite."""

    batched = ()

    def __init__(self, low: float, high: float) -> None:
        self.low, self.high = low, high

    def value(self, x):
        inside = ((x >= self.low) & (x <= self.high)).all(1)
        return torch.where(inside, 0.0, torch.inf).to(x.dtype)

    def prox(self, v, step):
        return v.clamp(self.low, self.high)

    def subdiff(self, x):
        below = torch.where(x <= self.low, -torch.inf, 0.0).to(x.dtype)
        return below, torch.where(x >= self.high, torch.inf, 0.0).to(x.dtype)


class Own(Smooth):
    """Another f, of which only value and gradient are known; counts how often each was asked for."""

    def __init__(self, f: Smooth) -> None:
        self.f, self.values, self.grads = f, 0, 0

    @property
    def shape(self):
        return self.f.shape

    @property
    def like(self):
        return self.f.like

    def value(self, x):
        self.values += 1
        return self.f.value(x)

    def grad(self, x):
        self.grads += 1
        return self.f.grad(x)

    def lipschitz(self, exact=False):
        return self.f.lipschitz(exact)


def boxed() -> Problem:
    return Problem(LeastSquares(autoregressive(3, 30, 12, 0.7), normal(3, 30, seed=1)), Between(-0.05, 0.1))


@every
@both_kinds
def test_they_reach_the_minimum(optimizer, steps, kind):
    rhs = normal(3, 30, seed=1) if kind == "lasso" else labels(3, 30, seed=1)
    problem = with_ratio(kind, autoregressive(3, 30, 12, 0.7), rhs, 0.05)
    best = sp.reference(problem).objective
    last = walk(problem, optimizer, 3 * normal(3, 12, seed=3), steps)[-1]
    assert ((problem.objective(last) - best) / best).max() <= 1e-10


@every
def test_they_reach_the_minimum_with_a_penalty_of_ones_own(optimizer, steps):
    """Least squares in a box, against scipy."""
    problem = boxed()
    x0 = normal(3, 12, seed=3)  # outside of the box
    last = walk(problem, optimizer, x0, steps)[-1]
    at_bound = (last == -0.05) | (last == 0.1)
    assert at_bound.any(1).all()
    assert not at_bound.all(1).any()
    for i in range(3):
        A, b = problem.f.A[i].numpy(), problem.f.b[i].numpy()
        found = minimize(
            lambda x, A=A, b=b: (0.5 * np.sum((A @ x - b) ** 2), A.T @ (A @ x - b)),
            np.zeros(12),
            jac=True,
            method="L-BFGS-B",
            bounds=[(-0.05, 0.1)] * 12,
            options={"ftol": 1e-15, "gtol": 1e-11},
        )
        assert float(problem.objective(last)[i]) <= found.fun * (1 + 1e-10)


@every
@pytest.mark.parametrize("certify", [False, True])
def test_they_run_in_a_solve(optimizer, steps, certify):
    problem = random_problem("logistic", m=30, ratio=0.05).shifted(normal(3, 12, seed=8))
    solution = sp.solve(problem, optimizer, tol=1e-8, certify=certify, max_iter=steps, polish=False)
    assert solution.converged.all()
    assert certify or (solution.iterations < steps).all()


@every
def test_they_run_in_float32(optimizer, steps):
    problem = random_problem("lasso", m=30, ratio=0.05)
    best = sp.reference(problem).objective
    last = walk(problem.to(dtype=torch.float32), optimizer, normal(3, 12, seed=3, dtype=torch.float32), steps)[-1]
    assert last.dtype == torch.float32
    assert ((problem.objective(last.double()) - best) / best).max() <= 1e-6


@first_order
def test_a_step_is_one_gradient(optimizer, steps):
    """And the value at one point; FISTA with a local L wants it at two where no images are known."""
    f = Own(random_problem("logistic").f)
    problem = Problem(f, random_problem("logistic").r)
    state = optimizer.init(problem, problem.start(), step_size=problem.step_size())
    assert f.grads == f.values == 0
    for k in range(1, 31):
        state = optimizer.step(problem, state)
        assert f.grads == k
        assert f.values <= (2 * k if isinstance(optimizer, LocalFISTA) else k)


def test_local_fista_reads_a_twice_in_a_step(monkeypatch):
    """Once for the new image, once for the gradient."""
    problem, optimizer = random_problem("logistic"), LocalFISTA()
    state = optimizer.init(problem, problem.start())
    counts = {"inner": 0, "grad_at": 0}
    for name in counts:
        whole = getattr(type(problem.f), name)

        def counted(self, point, name=name, whole=whole):
            counts[name] += 1
            return whole(self, point)

        monkeypatch.setattr(type(problem.f), name, counted)
    for _ in range(10):
        state = optimizer.step(problem, state)
    assert counts == {"inner": 10, "grad_at": 10}


@pytest.mark.parametrize("optimizer", [LocalFISTA(), SpaRSA(), PANOC()], ids=["local fista", "sparsa", "panoc"])
@pytest.mark.parametrize("own", [False, True])
def test_a_step_that_is_too_long_is_found_out(optimizer, own):
    """A line search mends a given 1/L that is 1000 times too long; FISTA diverges with it."""
    problem = random_problem("lasso", m=30, ratio=0.05)
    best, long = sp.reference(problem).objective, 1000 * problem.step_size()
    there = Problem(Own(problem.f), problem.r) if own else problem
    last = walk(there, optimizer, normal(3, 12, seed=3), 250, step_size=long)[-1]
    assert ((problem.objective(last) - best) / best).max() <= 1e-8
    fista = walk(problem, sp.optimizers.FISTA(), normal(3, 12, seed=3), 250, step_size=long)[-1]
    assert not (problem.objective(fista) < 1e3).any()


@pytest.mark.parametrize("optimizer", [LocalFISTA(), SpaRSA(), PANOC()], ids=["local fista", "sparsa", "panoc"])
def test_a_neighbour_in_trouble_changes_nobody(optimizer):
    """One instance has a step size that is far too long, in another one f overflows; the third walks as if alone."""
    problem = random_problem("lasso", m=30, ratio=0.05)
    b = torch.cat([problem.f.b[:2], 1e200 * problem.f.b[2:]])
    problem = sp.lasso(problem.f.A, b, problem.r.lam)
    step = problem.step_size() * torch.tensor([1.0, 1000.0, 1.0], dtype=F64)
    x0 = normal(3, 12, seed=3)
    assert not torch.isfinite(problem.objective(x0)[2])
    path = walk(problem, optimizer, x0, 30, step_size=step)
    alone = walk(problem.select(torch.tensor([0])), optimizer, x0[:1], 30, step_size=step[:1])
    assert relative_error(path[:, :1], alone) <= 1e-9


def test_the_value_that_panoc_promises_never_rises():
    """F(x) <= phi(u), which falls."""
    problem, optimizer = random_problem("logistic", m=30, ratio=0.02), PANOC()
    before = torch.full((3,), torch.inf, dtype=F64)
    for state in sp.iterate(problem, optimizer, optimizer.init(problem, 5 * normal(3, 12, seed=3)), 60):
        assert (state.envelope <= before * (1 + 1e-14)).all()
        assert (problem.objective(state.x) <= state.envelope * (1 + 1e-14)).all()
        before = state.envelope


def test_prox_newton_converges_quadratically():
    """Digits double: where the gap is below 1e-3, the next one is below its square, times a constant."""
    problem = random_problem("logistic", m=60, ratio=0.05)
    best = sp.reference(problem).objective
    gaps = (
        torch.stack([problem.objective(x) for x in walk(problem, ProxNewton(200), torch.zeros(3, 12, dtype=F64), 8)])
        - best
    ) / best
    steps = [(float(a), float(b)) for i in range(3) for a, b in zip(gaps[:, i], gaps[1:, i], strict=False)]
    near = [(a, b) for a, b in steps if 1e-10 < a < 1e-2]
    assert len(near) >= 3
    assert all(b <= max(10 * a**2, 1e-13) for a, b in near)
    assert gaps[-1].max() <= 1e-13


def test_prox_newton_solves_squares_in_one_step():
    problem = random_problem("lasso", m=30, ratio=0.05)
    best = sp.reference(problem).objective
    first = walk(problem, ProxNewton(300), torch.zeros(3, 12, dtype=F64), 1)[-1]
    assert ((problem.objective(first) - best) / best).max() <= 1e-10


def test_prox_newton_takes_a_step_that_is_too_long_shorter():
    """Far from the solution the model of a logistic loss is too flat: the whole step would raise F."""
    problem = with_ratio("logistic", autoregressive(2, 30, 12, 0.7), labels(2, 30), 0.02)
    path = walk(problem, ProxNewton(100), 5 * normal(2, 12, seed=3), 15)
    values = torch.stack([problem.objective(x) for x in path])
    assert (values[1:] <= values[:-1] * (1 + 1e-14)).all()
    best = sp.reference(problem).objective
    assert ((values[-1] - best) / best).max() <= 1e-10


def test_what_cannot_be_used_is_refused():
    refused(lambda: PANOC(memory=0), "memory is 0", "whole number >= 1")
    refused(lambda: OptISTA(steps=0), "steps is 0", "number of steps")
    refused(lambda: OptISTA(steps=True), "steps is True")
    refused(lambda: ProxNewton(inner=2.5), "inner is 2.5", "whole number")
    own = Problem(Own(random_problem("lasso").f), random_problem("lasso").r)
    refused(lambda: ProxNewton().init(own, own.start()), "needs f(x) = phi(A x)", "got Own", "PANOC")
