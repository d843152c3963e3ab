"""Separable penalties on working sets: specification, kernel, and what `solve` makes of it."""

import re
import warnings
from importlib.resources import files

import numpy as np
import pytest
import torch
from scipy import optimize

import sureprox as sp
from helpers import labels
from sureprox.guarantee.guaranteed import Track
from sureprox.kernels.runtime.library import library
from sureprox.kernels.working_set import cpu
from sureprox.problems import LeastSquares, Logistic, Problem
from sureprox.problems.forms import along, form_of
from sureprox.problems.penalties import L1, Box, ElasticNet, NonNegative, Separable, WeightedL1, Zero
from sureprox.solve.at_once import solved_at_once
from sureprox.solve.plan import at_once
from sureprox.solve.solution import Status
from sureprox.support import working_set

F64 = torch.float64
PENALTIES = {
    "lasso": lambda n: L1(0.5),
    "little": lambda n: L1(1e-3),
    "weighted": lambda n: WeightedL1(torch.linspace(0.1, 2, n)),
    "with free": lambda n: WeightedL1((torch.arange(n) >= 3).double()),
    "elastic net": lambda n: ElasticNet(0.5, 0.3),
    "nonnegative": lambda n: NonNegative(0.2),
    "nnls": lambda n: NonNegative(),
    "box": lambda n: Box(-0.1, 0.2),
    "box beside zero": lambda n: Box(0.1, 0.2),
    "ridge": lambda n: Separable(l2=0.3),
    "all": lambda n: Separable(l1=torch.linspace(0, 1, n), l2=0.1, low=-0.3, high=torch.linspace(0.1, 1, n)),
    "none": lambda n: Zero(),
}


@pytest.fixture(autouse=True)
def _kernels():
    if library(build=True) is None:
        pytest.skip("no C++ compiler here")


def made(m, n, penalty="lasso", batch=3, seed=0, dtype=F64, shared=False, scale=1.0):
    """The second instance has every column twice, the third a column of zeros."""
    g = torch.Generator().manual_seed(seed + m + n)
    A = scale * torch.randn(*(() if shared else (batch,)), m, n, generator=g, dtype=F64)
    if not shared and batch > 2:
        A[1, :, 1::2] = A[1, :, : 2 * (n // 2) : 2]
        A[2, :, 0] = 0
    b = scale * torch.randn(batch, m, generator=g, dtype=F64)
    return Problem(LeastSquares(A.to(dtype), b.to(dtype)), PENALTIES[penalty](n))


def violation(problem: Problem, x: torch.Tensor) -> float:
    """How far x is from optimal, relative to the gradient at zero: from A, b and the definition of r alone."""
    exact = problem.to(dtype=F64)
    A, b, x = exact.f.A, exact.f.b, x.double()
    g = ((A @ x.unsqueeze(2)).squeeze(2) - b).unsqueeze(1) @ A if A.ndim == 3 else (x @ A.mT - b) @ A
    low, high = exact.r.subdiff(x)
    off = torch.maximum(low + g.reshape(x.shape), -g.reshape(x.shape) - high).clamp(min=0)
    return float((off.amax(1) / (b.unsqueeze(1) @ A).reshape(len(x), -1).abs().amax(1)).max())


def logistic(m, n, penalty="lasso", batch=3, seed=0, dtype=F64, shared=False, scale=0.02):
    """The same labels for other matrices; `scale` times the penalty."""
    given = made(m, n, penalty, batch, seed, shared=shared)
    r = given.r.scaled(torch.full((batch,), scale, dtype=F64))
    return Problem(Logistic(given.f.A.to(dtype), labels(batch, m, seed).to(dtype)), r)


def sparse(m, n, batch=1, seed=0, dtype=F64, loss=LeastSquares, lam=0.1):
    """Four of five entries are zero, and so are whole rows and columns."""
    g = torch.Generator().manual_seed(seed)
    A = torch.randn(m, n, generator=g, dtype=F64) * (torch.rand(m, n, generator=g, dtype=F64) > 0.8)
    A[::7], A[:, 5] = 0, 0
    b = labels(batch, m, seed) if loss is Logistic else torch.randn(batch, m, generator=g, dtype=F64)
    return Problem(loss(A.to(dtype).to_sparse(), b.to(dtype)), L1(lam if loss is LeastSquares else lam / m))


def densely(given: Problem) -> Problem:
    A = given.f.A
    whole = torch.zeros(A.shape, dtype=A.values.dtype)
    whole[A.rows(), A.places.long()] = A.values
    data = given.f.b if isinstance(given.f, LeastSquares) else given.f.y
    return Problem(type(given.f)(whole, data), given.r)


LOGISTIC = [name for name in PENALTIES if name not in ("none", "nnls", "with free", "all")]


@pytest.mark.parametrize("name", LOGISTIC)
@pytest.mark.parametrize(("m", "n"), [(30, 17), (15, 24)])
def test_logistic_kernel_and_specification_are_optimal(name, m, n):
    given = logistic(m, n, name)
    plain, ours = working_set.solved(given, 1e-9, 1e-9).x, cpu.solved(given, 1e-9, 1e-9).x
    for x in (plain, ours):
        seen = given.certificate(x)
        assert bool((seen.gap <= 1e-9 * seen.objective).all())
    torch.testing.assert_close(given.objective(plain), given.objective(ours), rtol=3e-9, atol=0)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("scale", [1e-4, 0.1])
def test_logistic_solves_need_no_iterations(shared, dtype, scale):
    for penalty in ("lasso", "elastic net", "box"):
        given = logistic(40, 50, penalty, dtype=dtype, shared=shared, scale=scale)
        solution = sp.solve(given)
        assert set(solution.track) == {Track.ACTIVE_SET}
        seen = given.to(dtype=F64).certificate(solution.x.double())
        torch.testing.assert_close(seen.objective, solution.objective, rtol=1e-12, atol=1e-12)
        assert bool((seen.gap <= 1.01e-6 * seen.objective).all())


def test_an_intercept_is_free():
    """A column of ones without a penalty: judged by `free_gap`, and optimal by the definition."""
    g = torch.Generator().manual_seed(1)
    A = torch.cat([torch.ones(60, 1, dtype=F64), torch.randn(60, 30, generator=g, dtype=F64)], 1)
    weights = torch.where(torch.arange(31) == 0, 0.0, 0.03).double()
    given = Problem(Logistic(A, labels(1, 60, 3)), WeightedL1(weights))
    solution = sp.solve(given)
    assert set(solution.track) == {Track.ACTIVE_SET}
    slope = given.grad(solution.x)[0]
    assert abs(float(slope[0])) <= 1e-6
    assert float((slope[1:].abs() - 0.03).max()) <= 1e-5


def test_separable_data_without_a_penalty_on_them_are_not_claimed_solved():
    """Nothing bounds the coordinate that tells the labels apart."""
    A = torch.randn(40, 20, generator=torch.Generator().manual_seed(0), dtype=F64)
    weights = torch.where(torch.arange(20) == 0, 0.0, 1.0).double()
    given = Problem(Logistic(A, (A[:, 0] > 0).double()[None]), WeightedL1(weights))
    solution = sp.solve(given, max_iter=1000)
    assert bool(torch.isfinite(solution.x).all())
    assert bool(solution.objective[0] >= 0)
    if bool(solution.converged[0]):  # then the loss has reached what tol allows
        assert float(solution.objective[0]) <= 1e-6


def test_logistic_agrees_with_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    g = np.random.default_rng(0)
    A, y = g.normal(size=(200, 40)), (g.random(200) > 0.5).astype(float)
    lam = 0.01
    options = {"penalty": "l1", "solver": "saga", "fit_intercept": False, "tol": 1e-9, "max_iter": 100_000}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of newer names of its arguments
        theirs = linear_model.LogisticRegression(C=1 / (lam * 200), **options).fit(A, y).coef_[0]
    ours = sp.solve(sp.logistic(A, y, lam), tol=1e-10)
    assert ours.track[0] == Track.ACTIVE_SET
    np.testing.assert_allclose(ours.x[0], theirs, atol=1e-5)


@pytest.mark.parametrize("loss", [LeastSquares, Logistic])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize(("m", "n"), [(70, 40), (40, 90)])
def test_sparse_and_dense_are_the_same_problem(loss, dtype, m, n):
    given = sparse(m, n, 2, dtype=dtype, loss=loss)
    ours, plain = cpu.solved(given, 1e-9, 1e-9).x, working_set.solved(given, 1e-9, 1e-9).x
    exact, whole = given.to(dtype=F64), densely(given.to(dtype=F64))
    for x in (ours, plain):
        seen = whole.certificate(x)
        assert bool((seen.gap <= 1e-9 * seen.objective).all())
    torch.testing.assert_close(exact.objective(ours), whole.objective(plain), rtol=3e-9, atol=0)
    solution = sp.solve(given)
    assert set(solution.track) == {Track.ACTIVE_SET}
    assert solution.engine == "kernels"


def test_a_sparse_matrix_of_zeros_has_a_solution():
    solution = sp.solve(Problem(LeastSquares(torch.zeros(4, 20).to_sparse(), torch.ones(1, 4)), L1(0.1)))
    assert solution.converged.all()
    assert not solution.x.any()


@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize(("m", "n"), [(20, 30), (40, 17), (12, 33)])
def test_kernel_and_specification_are_optimal(name, m, n):
    given = made(m, n, name)
    plain, ours = working_set.solved(given, 1e-10, 1e-10).x, cpu.solved(given, 1e-10, 1e-10).x
    for x in (plain, ours):
        assert bool(torch.isfinite(given.r.value(x)).all())
        assert violation(given, x) <= 1e-5
    one, other = given.objective(plain), given.objective(ours)
    top = given.objective(given.r.prox(torch.zeros_like(plain), torch.ones(3, 1, dtype=F64)))
    assert bool(((one - other).abs() <= 1e-9 * top).all())


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("name", PENALTIES)
@pytest.mark.parametrize("shared", [False, True])
def test_solve_needs_no_iterations(name, shared, dtype):
    given = made(30, 50, name, dtype=dtype, shared=shared)
    solution = sp.solve(given)
    assert set(solution.status) == {Status.CONVERGED}
    assert set(solution.track) == {Track.ACTIVE_SET}
    assert solution.engine == "kernels"
    assert not solution.iterations.any()
    assert violation(given, solution.x) <= 5e-3
    seen = given.to(dtype=F64).certificate(solution.x.double())
    torch.testing.assert_close(seen.objective, solution.objective, rtol=1e-12, atol=1e-12)
    assert (solution.x.dtype == F64) == (dtype == F64 or bool(solution.refined.any()))


def test_without_kernels_it_iterates():
    plain = sp.solve(made(30, 50), engine="plain")
    assert Track.ACTIVE_SET not in set(plain.track)
    torch.testing.assert_close(plain.objective, sp.solve(made(30, 50)).objective, rtol=2e-6, atol=0)


def test_agrees_with_scikit_learn():
    linear_model = pytest.importorskip("sklearn.linear_model")
    for m, n, ratio in ((60, 200, 0.1), (200, 60, 0.01), (100, 150, 0.003)):
        g = np.random.default_rng(m)
        A, b = g.normal(size=(m, n)), g.normal(size=m)
        lam = ratio * np.abs(A.T @ b).max()
        theirs = linear_model.Lasso(lam / m, fit_intercept=False, tol=1e-12, max_iter=1_000_000).fit(A, b).coef_
        np.testing.assert_allclose(sp.solve(sp.lasso(A, b, lam), tol=1e-10).x[0], theirs, atol=1e-6)
        net = linear_model.ElasticNet(lam / m, l1_ratio=0.5, fit_intercept=False, tol=1e-12, max_iter=1_000_000)
        ours = sp.solve(sp.elastic_net(A, b, lam / 2, lam / 2), tol=1e-12)
        np.testing.assert_allclose(ours.x[0], net.fit(A, b).coef_, atol=1e-6)


def test_agrees_with_scipy():
    g = np.random.default_rng(0)
    A, b = g.normal(size=(50, 40)), g.normal(size=50)
    x = sp.solve(sp.nonnegative(A, b), tol=1e-10).x[0]
    np.testing.assert_allclose(x, optimize.nnls(A, b)[0], atol=1e-7)
    box = sp.solve(Problem(LeastSquares(A, b[None]), Box(-0.05, 0.1)), tol=1e-10).x[0]
    np.testing.assert_allclose(box, optimize.lsq_linear(A, b, (-0.05, 0.1), tol=1e-14).x, atol=1e-6)
    free = sp.solve(Problem(LeastSquares(A, b[None]), Zero()), tol=1e-10).x[0]
    np.testing.assert_allclose(free, np.linalg.lstsq(A, b, rcond=None)[0], atol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1e-4, 1e6, 1e40])
def test_units_do_not_matter(scale):
    given = made(30, 50, "lasso")
    other = Problem(LeastSquares(scale * given.f.A, scale * given.f.b), L1(0.5 * scale**2))
    solution = sp.solve(other)
    assert solution.converged.all()
    torch.testing.assert_close(solution.objective / scale**2, sp.solve(given).objective, rtol=2e-6, atol=0)


def test_numbers_beyond_float64_are_no_answer():
    given = made(30, 50)
    given.f.A[1] *= 1e200
    solution = sp.solve(given)
    assert solution.converged.tolist() == [True, False, True]
    assert bool(torch.isfinite(solution.x).all())


def test_neither_neighbours_nor_threads_change_a_bit():
    threads = torch.get_num_threads()
    cases = [made(40, 60, "little", batch=70, shared=shared) for shared in (False, True)]
    cases += [logistic(40, 60, batch=70, shared=shared) for shared in (False, True)]
    cases += [sparse(200, 1200, 4, lam=1.0), sparse(200, 1200, 1, lam=1.0), sparse(50, 60, 70, loss=Logistic)]
    for given in cases:
        whole = cpu.solved(given, 1e-6, 1e-6).x  # of a shared A, the whole normal matrix is computed
        few = cpu.solved(given.select(torch.arange(min(2, given.batch))), 1e-6, 1e-6).x
        try:
            torch.set_num_threads(3)
            assert torch.equal(cpu.solved(given, 1e-6, 1e-6).x, whole)
        finally:
            torch.set_num_threads(threads)
        assert torch.equal(few, whole[: len(few)])
        assert torch.equal(cpu.solved(given, 1e-6, 1e-6).x, whole)


def test_a_large_matrix_is_shared_among_threads():
    given, threads = made(150, 4000, batch=1, shared=True), torch.get_num_threads()
    alone = cpu.solved(given, 1e-8, 1e-8).x
    try:
        torch.set_num_threads(2)
        assert torch.equal(cpu.solved(given, 1e-8, 1e-8).x, alone)
    finally:
        torch.set_num_threads(threads)
    assert bool(given.certificate(alone).gap <= 1e-8 * given.objective(alone))


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_what_the_kernel_says_of_its_points_is_their_certificate(dtype):
    """As loose as points may be, and where all that joins at a time is not yet the support."""
    cases = [made(30, 50, name, dtype=dtype, shared=name == "box") for name in PENALTIES]
    cases += [logistic(30, 50, name, dtype=dtype) for name in LOGISTIC]
    cases += [sparse(300, 900, 2, dtype=dtype, loss=loss, lam=2.0) for loss in (LeastSquares, Logistic)]
    for given in cases:
        for tol in (0.3, 1e-6):
            x, seen = cpu.solved(given, tol, tol)
            plain = given.to(dtype=F64).certificate(x)
            size = plain.objective.abs().max()
            for name in ("objective", "kkt", "grad"):
                scale = float(size if name == "objective" else 1 + plain.grad.abs().max())
                torch.testing.assert_close(getattr(seen, name), getattr(plain, name), rtol=1e-11, atol=1e-12 * scale)
            torch.testing.assert_close(seen.gap, plain.gap, rtol=1e-6, atol=1e-12 * float(size))


def test_a_start_that_there_is_no_room_for_is_said_to_be_unknown(monkeypatch):
    given = made(30, 50, batch=2)
    monkeypatch.setattr(cpu, "MOST", 5)
    start = torch.zeros(2, 50, dtype=F64)
    start[0] = 1
    x, seen = cpu.solved(given, 0.5, 1.0, start)
    assert torch.isnan(seen.objective).tolist() == [True, False]
    assert torch.equal(x[0], start[0])


@pytest.mark.parametrize("way", [cpu.solved, working_set.solved])
def test_a_chain_is_as_good_as_solves_of_their_own(way):
    given = made(25, 40, batch=2)
    scales = torch.tensor([[8.0, 4.0, 2.0, 0.5], [4.0, 3.0, 0.1, 0.01]], dtype=F64)
    chain = along(given, scales) if way is cpu.solved else None
    spread = Problem(given.f, given.r).select(torch.arange(2).repeat_interleave(4))
    spread = Problem(spread.f, spread.r.scaled(scales.reshape(-1)))
    x = way(spread if chain is None else chain, 1e-9, 1e-9, None, 4).x
    alone = cpu.solved(spread, 1e-9, 1e-9).x
    torch.testing.assert_close(spread.objective(x), spread.objective(alone), rtol=1e-8, atol=0)


@pytest.mark.parametrize("name", [name for name in PENALTIES if name != "none"])
def test_coordinates_come_and_go_along_a_chain(name):
    """The factor of the support is kept from link to link: penalties fall, rise and jump; the second A has every column
    twice. The third chain alone has the same bits."""
    given = made(40, 60, name)
    scales = torch.cat([torch.logspace(1, -2, 25), torch.logspace(-2, 1, 10), torch.tensor([0.01, 2.0, 0.1])]).double()
    chain = along(given, scales.expand(3, -1))
    x, seen = cpu.solved(chain, 1e-9, 1e-9, None, len(scales))
    alone = cpu.solved(chain, 1e-9, 1e-9).x
    torch.testing.assert_close(chain.objective(x), chain.objective(alone), rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(seen.objective, chain.objective(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(seen.grad, chain.grad(x), rtol=1e-9, atol=1e-9)
    third = cpu.solved(along(given.select(torch.tensor([2])), scales[None]), 1e-9, 1e-9, None, len(scales)).x
    assert torch.equal(third, x[-len(scales) :])


@pytest.mark.parametrize("name", ["lasso", "nnls", "all"])
@pytest.mark.parametrize(("m", "n"), [(3, 2), (2, 4), (40, 10), (5, 15)])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_few_columns_need_no_iterations_either(m, n, name, dtype):
    """A table of ten features is the commonest of all; vectors of the kernels are longer than its rows."""
    given = made(m, n, name, dtype=dtype)
    solution = sp.solve(given, tol=1e-8)
    assert solution.converged.all()
    assert set(solution.track) == {Track.ACTIVE_SET}
    exact = given.to(dtype=F64)
    torch.testing.assert_close(
        solution.objective, exact.objective(working_set.solved(exact, 1e-9, 1e-9).x), rtol=2e-8, atol=1e-12
    )


@pytest.mark.parametrize("way", [cpu.solved, working_set.solved])
def test_from_a_start(way):
    given = made(25, 40, "box")
    start = torch.randn(3, 40, dtype=F64, generator=torch.Generator().manual_seed(1))
    x = way(given, 1e-9, 1e-9, start).x
    zero = way(given, 1e-9, 1e-9).x
    torch.testing.assert_close(given.objective(x), given.objective(zero), rtol=1e-8, atol=1e-12)


def test_a_path_is_a_chain():
    given = made(30, 40, batch=2)
    ratios = [0.1, 1.0, 0.5, 0.05]
    found, plain = sp.path(given, ratios, tol=1e-8), sp.path(given, ratios, tol=1e-8, engine="plain")
    assert found.converged.all()
    assert plain.converged.all()
    assert not found.iterations.any()
    torch.testing.assert_close(found.objective, plain.objective, rtol=1e-7, atol=1e-10)


def test_what_it_cannot_finish_goes_on(monkeypatch):
    """No room for the working set of the first instance alone: it is iterated, from zero or better, and its
    neighbours stay as they are."""
    given = made(60, 80, batch=3, seed=3)
    given = Problem(given.f, L1(torch.tensor([0.5, 15.0, 15.0], dtype=F64)))
    whole = sp.solve(given)
    sizes = (whole.x != 0).sum(1)
    assert int(sizes[0]) > 2 * int(sizes[1:].max()) > 0
    monkeypatch.setattr(cpu, "MOST", int(0.9 * sizes[0]))
    solution = sp.solve(given)
    assert solution.converged.all()
    assert solution.track[0] != Track.ACTIVE_SET
    assert int(solution.iterations[0]) > 0
    assert {*solution.track[1:]} == {Track.ACTIVE_SET}
    torch.testing.assert_close(solution.objective, whole.objective, rtol=2e-6, atol=0)
    exact = sp.reference(given)
    distance = torch.linalg.vector_norm(exact.x, dim=1)  # from zero, where the user thinks that it began
    assert bool((solution.bound(distance) >= solution.objective - exact.objective - 1e-9).all())


@pytest.mark.parametrize(
    "asked",
    [
        {"x0": torch.ones(3, 50, dtype=F64)}, {"record": ("gap",)}, {"certify": False}, {"max_iter": 999},
        {"polish": False}, {"optimizer": sp.optimizers.FISTA()},
    ],
)  # fmt: skip
def test_who_asks_for_iterations_gets_them(asked):
    solution = sp.solve(made(30, 50), **asked)
    assert bool((solution.iterations > 0).all())
    assert Track.ACTIVE_SET not in set(solution.track)


def test_what_it_is_for():
    assert at_once(form_of(made(30, 50)), "auto").solved is cpu.solved
    wide = Problem(LeastSquares(torch.ones(1, 4, working_set.FREE + 1), torch.ones(1, 4)), Zero())
    assert at_once(form_of(sp.logistic(torch.ones(1, 4, 30), torch.ones(1, 4), 0.1)), "auto").solved is cpu.solved
    assert at_once(form_of(sparse(30, 50)), "auto").solved is cpu.solved
    weighted = Problem(Logistic(torch.ones(1, 4, 30), torch.ones(1, 4), weights=torch.ones(1, 4)), L1(0.1))
    unpenalized = Problem(Logistic(torch.ones(1, 4, 30), torch.ones(1, 4)), Zero())
    for other in (wide, weighted, unpenalized, made(30, 50).shifted(1.0)):
        assert at_once(form_of(other), "auto").solved is None
    assert at_once(form_of(made(30, 50)), "plain").solved is None


def blurred(width: float) -> np.ndarray:
    """(200, 100): neighbouring columns are nearly the same."""
    rows, columns = np.arange(200)[:, None] / 2, np.arange(100)
    return np.exp(-0.5 * ((rows - columns) / width) ** 2)


@pytest.mark.parametrize("width", [2.0, 3.0])
def test_nonnegative_least_squares_with_columns_that_are_nearly_the_same(width):
    """Residuals within the tolerance are far from enough for a gap within it: there is a second attempt."""
    g = np.random.default_rng(3)
    A = blurred(width)
    b = A @ np.maximum(g.standard_normal(100), 0) + 0.01 * g.standard_normal(200)
    solution = sp.solve(sp.nonnegative(A, b))
    assert solution.converged.all()
    assert not solution.iterations.any()
    theirs = optimize.nnls(A, b)[0]
    assert float(solution.objective[0]) == pytest.approx(0.5 * float(((A @ theirs - b) ** 2).sum()), rel=1e-7)


@pytest.mark.parametrize("ratio", [1e-4, 1e-6])
def test_a_small_penalty_is_reached_along_larger_ones(ratio):
    """lam is 10^-4 of that at which zero solves, and A is wide: from zero that is out of reach."""
    g = np.random.default_rng(0)
    A = g.standard_normal((100, 300))
    b = A[:, :10] @ g.standard_normal(10) + 0.5 * g.standard_normal(100)
    lam = ratio * np.abs(A.T @ b).max()
    given = sp.lasso(A, np.stack([b, 2 * b]), [lam, 0.1 * np.abs(A.T @ b).max()])
    solution = sp.solve(given)
    assert solution.converged.all()
    assert set(solution.track) == {Track.ACTIVE_SET}
    chain = sp.path(given.select(torch.tensor([0])), np.geomspace(1, ratio, 20), tol=1e-8)
    assert chain.converged.all()
    assert float(solution.objective[0]) == pytest.approx(float(chain.objective[0, -1]), rel=1e-6)
    alone = sp.solve(sp.lasso(A, b, lam))
    assert torch.equal(alone.x[0], solution.x[0])


def test_a_floor_of_the_whole():
    """Gaps relative to F at the origin, as estimators ask for."""
    given = made(30, 50, "little")
    loose = solved_at_once(given, at_once(form_of(given), "auto"), 1e-3, 1.0)
    assert not len(loose.left)
    zero = given.objective(torch.zeros(3, 50, dtype=F64))
    assert bool((loose.solution.gap <= 1e-3 * zero).all())


def test_the_constants_are_those_of_the_specification():
    text = files("sureprox.kernels").joinpath("working_set", "working_set.h").read_text()
    text += files("sureprox.kernels").joinpath("working_set", "inner.h").read_text()
    text += files("sureprox.kernels").joinpath("working_set", "cholesky.h").read_text()
    for here, there in (("ROUNDS", "WORKING_SETS"), *((name, name) for name in NAMES)):
        found = re.search(rf"\b{there} = ([\d.e+-]+)[,;]", text)
        assert found is not None, there
        assert float(found[1]) == getattr(working_set, here)


NAMES = ("LEAST", "SHARE", "SPARE", "LOOSE", "SMALL", "MANY", "FLAT", "DEPENDS", "EPOCHS", "FLATTEST", "LENGTHS")
NAMES += ("LEVEL",)
