"""The polished point: right where the support nearly is, for each instance alone."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Lasso

import sureprox as sp
from helpers import F64, normal, random_problem, with_ratio
from polish_cases import EVERY, PROBLEMS
from sureprox.optimizers import FISTA
from sureprox.problems import LeastSquares, Zero
from sureprox.problems.forms import form_of
from sureprox.solve.stopping import StoppingRule
from sureprox.support.newton import ROUNDS, _even_parts, can_polish, polished

FAST = FISTA(restart=True)


def point(problem, x, rows=None):
    """`polished`, with the gradient at x."""
    g = problem.to(dtype=F64).grad(x.double())
    return polished(problem, x, g) if rows is None else polished(problem, x[rows], g[rows], rows)


@EVERY
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_from_the_right_signs_comes_the_solution(problem, dtype):
    """Values that are far off, and rounded: only their signs count."""
    problem = problem.to(dtype=dtype)
    exact = problem.to(dtype=F64)
    best = sp.reference(exact, 1e-13)
    y = exact.centred(best.x)
    start = problem.uncentred((y * torch.linspace(0.5, 50, problem.n, dtype=F64)).to(dtype))
    assert can_polish(form_of(problem))
    x = point(problem, start)
    assert x.dtype == F64
    torch.testing.assert_close(x, best.x, rtol=1e-7, atol=1e-8)
    assert (exact.kkt_residual(x) <= 1e-12 * exact.scale()[1]).all()


@EVERY
def test_a_neighbour_changes_nothing(problem):
    x = sp.solve(problem, FAST, max_iter=15, polish=False).x
    whole = point(problem, x)
    for i in range(problem.batch):
        alone = point(problem.select(torch.tensor([i])), x[i : i + 1])
        torch.testing.assert_close(alone, whole[i : i + 1], rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(point(problem, x, torch.tensor([i])), alone, rtol=1e-11, atol=1e-12)


def supports(sizes, n=60):
    x = torch.zeros(len(sizes), n, dtype=F64)
    for row, size in zip(x, sizes, strict=True):
        row[:size] = 1.0
    return x


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("room", [1, 2000, 10**9])
def test_supports_of_all_sizes_beside_each_other(shared, room, monkeypatch):
    """Empty and larger than m: x itself. Each of the others solves the first linear system of the docstring."""
    monkeypatch.setattr("sureprox.support.newton.ROUNDS", 1)
    problem = random_problem("lasso", batch=7, m=40, n=60, shared=shared)
    sizes = [3, 0, 40, 41, 12, 60, 1]
    monkeypatch.setattr("sureprox.support.newton.CHUNK", room)
    found = point(problem, supports(sizes))
    for i, k in enumerate(sizes):
        if k in (0, 41, 60):
            assert torch.equal(found[i], supports(sizes)[i])
            continue
        A = (problem.f.A if shared else problem.f.A[i])[:, :k]
        expected = torch.linalg.solve(A.mT @ A, A.mT @ problem.f.b[i] - problem.r.lam[i])
        assert torch.equal(found[i, k:], torch.zeros(60 - k, dtype=F64))
        torch.testing.assert_close(found[i, :k], expected.clamp(min=0), rtol=1e-6, atol=1e-8)


def corrupted(x, extra, missing, flipped, seed=0):
    """x with so many coordinates added to its support, taken from it and given the other sign, in every instance."""
    x, random = x.clone(), torch.Generator().manual_seed(seed)
    for row in x:
        inside, outside = row.nonzero()[:, 0], (row == 0).nonzero()[:, 0]
        inside, outside = (part[torch.randperm(len(part), generator=random)] for part in (inside, outside))
        row[outside[:extra]] = 0.1 * torch.randn(len(outside[:extra]), generator=random, dtype=row.dtype)
        row[inside[:missing]] = 0
        row[inside[missing : missing + flipped]] *= -1
    return x


@EVERY
@pytest.mark.parametrize("wrong", [(2, 0, 0), (0, 2, 0), (0, 0, 1), (2, 1, 0), (3, 2, 1)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_wrong_support_is_corrected(problem, wrong, dtype):
    """Coordinates too many, too few, of the other sign: the third call has the right candidates at the latest."""
    problem = problem.to(dtype=dtype)
    exact = problem.to(dtype=F64)
    best = sp.reference(exact, 1e-13)
    start = exact.uncentred(corrupted(exact.centred(best.x), *wrong)).to(dtype)
    x = point(exact, point(exact, point(problem, start)))
    torch.testing.assert_close(x, best.x, rtol=1e-7, atol=1e-8)
    assert StoppingRule(exact, torch.zeros_like(x), 1e-9).measure(x).converged.all()


def test_from_nothing_too():
    problem = random_problem("lasso", m=40, n=60, ratio=0.5)
    x = problem.start()
    for _ in range(3):
        x = point(problem, x)
    torch.testing.assert_close(x, sp.reference(problem).x, rtol=1e-7, atol=1e-8)


def test_a_free_coordinate_never_leaves():
    """It is in every S, zero or not, whatever its sign comes out as."""
    problem = PROBLEMS["a free coordinate"]()
    best = sp.reference(problem, 1e-13).x
    start = corrupted(best, 2, 1, 1)
    start[:, 0] = torch.tensor([0.0, 1.0, -1.0], dtype=F64) * best[:, 0]
    x = point(problem, point(problem, start))
    assert (x[:, 0] != 0).all()
    torch.testing.assert_close(x, best, rtol=1e-7, atol=1e-8)


def test_all_coordinates_free():
    """lam = 0: one system, that of least squares."""
    A, b = normal(2, 90, 30), normal(2, 90, seed=1)
    x = point(sp.lasso(A, b, 0.0), torch.zeros(2, 30, dtype=F64))
    torch.testing.assert_close(x, torch.linalg.lstsq(A, b.unsqueeze(2)).solution[:, :, 0], rtol=1e-9, atol=1e-11)


@EVERY
@pytest.mark.parametrize("room", [1, 2**20])
def test_as_on_a_gpu_instances_are_taken_as_they_come(problem, room, monkeypatch):
    start = corrupted(sp.reference(problem, 1e-12).x, 2, 1, 0)
    start[0] = 1.0  # more coordinates than rows, in most of the problems: stays
    sorted_first = point(problem, start)
    monkeypatch.setattr("sureprox.support.newton._sorted_parts", lambda width, m, _: _even_parts(width, m, room))
    torch.testing.assert_close(point(problem, start), sorted_first, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("most", [1, 3, ROUNDS])
def test_the_number_of_systems_is_bounded(most, monkeypatch):
    factored, cholesky = [], torch.linalg.cholesky_ex

    def counted(matrix):
        factored.append(len(matrix))
        return cholesky(matrix)

    monkeypatch.setattr("sureprox.support.newton.ROUNDS", most)
    monkeypatch.setattr(torch.linalg, "cholesky_ex", counted)
    monkeypatch.setattr("sureprox.support.newton._sorted_parts", lambda width, *_: [(slice(None), int(width.max()))])
    problem = random_problem("lasso", batch=5, m=40, n=60, ratio=0.1)
    best = sp.reference(problem, 1e-13).x
    start = torch.cat([best[:2], corrupted(best, 3, 2, 1)[2:]])
    point(problem, start)
    assert factored[:2] == [5, 3][:most]  # who is finished is not solved again
    assert len(factored) <= most
    factored.clear()
    point(problem, best)
    assert factored == [5]


@settings(max_examples=60, deadline=None)
@given(
    m=st.integers(4, 30), n=st.integers(2, 40), ratio=st.sampled_from([0.9, 0.5, 0.2, 0.05]),
    extra=st.integers(0, 3), missing=st.integers(0, 3), flipped=st.integers(0, 1), shared=st.booleans(),
    moved=st.booleans(), seed=st.integers(0, 10**6),
)  # fmt: skip
def test_against_scikit_learn(m, n, ratio, extra, missing, flipped, shared, moved, seed):
    """From any support: finite, and where the KKT conditions hold, what scikit-learn finds."""
    A, b = normal(2, m, n, seed=seed), normal(2, m, seed=seed + 1)
    problem = with_ratio("lasso", A[0] if shared else A, b, ratio)
    coef = torch.stack([
        torch.from_numpy(
            Lasso(float(problem.r.lam[i]) / m, fit_intercept=False, tol=1e-14, max_iter=100_000)
            .fit((A[0] if shared else A[i]).numpy(), b[i].numpy()).coef_
        )
        for i in range(2)
    ])  # fmt: skip
    problem = problem.shifted(3.0) if moved else problem
    start = problem.uncentred(corrupted(coef, extra, missing, flipped, seed))
    x = point(problem, point(problem, start))
    assert torch.isfinite(x).all()
    solved = problem.kkt_residual(x) <= 1e-9 * problem.scale()[1]
    if extra + missing + flipped == 0 and n <= m // 2:
        assert solved.all()
    torch.testing.assert_close(problem.centred(x)[solved], coef[solved], rtol=1e-4, atol=1e-5)


def test_columns_that_depend_on_each_other_do_no_harm():
    """Equal columns, a column of zeros, numbers whose squares overflow: the neighbours do not notice."""
    problem = random_problem("lasso", batch=4, m=40, n=60)
    A = problem.f.A.clone()
    A[1, :, 1] = A[1, :, 0]
    A[2, :, 0] = 0
    A[3] *= 1e200
    x = supports([5, 5, 5, 5])
    found = point(sp.lasso(A, problem.f.b, problem.r.lam), x)
    assert torch.isfinite(found).all()
    assert torch.equal(found[2:], x[2:])
    torch.testing.assert_close(found[:1], point(problem, x)[:1], rtol=1e-12, atol=1e-13)


def test_the_twin_of_a_column_in_the_support_stays_outside():
    """Its |g_j| is lam up to rounding; if it joined, A_S would lose its rank."""
    problem = random_problem("lasso", m=40, n=60)
    best = sp.reference(problem, 1e-13).x
    A = problem.f.A.clone()
    for i in range(3):
        A[i, :, (best[i] == 0).nonzero()[0, 0]] = A[i, :, best[i].nonzero()[0, 0]]
    twins = sp.lasso(A, problem.f.b, problem.r.lam)
    x = point(twins, best)
    assert torch.equal(x == 0, best == 0)
    torch.testing.assert_close(x, best, rtol=1e-9, atol=1e-10)


def test_a_little_dependence_costs_no_digits(monkeypatch):
    """Columns that differ by 1e-5: G has a condition number of 1e10, and the residual is at rounding all the same."""
    monkeypatch.setattr("sureprox.support.newton.ROUNDS", 1)
    A, b = normal(1, 40, 60), normal(1, 40, seed=1)
    A[:, :, 1] = A[:, :, 0] + 1e-5 * A[:, :, 1]
    x = torch.zeros(1, 60, dtype=F64)
    x[0, :2] = torch.linalg.lstsq(A[0, :, :2], b[0].unsqueeze(1)).solution[:, 0]
    problem = sp.lasso(A, b, 1e-9)
    found = point(problem, point(problem, x))
    slope = problem.grad(found)[0, :2] + 1e-9 * x[0, :2].sign()
    assert (slope.abs() <= 1e-9).all()
    assert (found[0, :2] != 0).all()


def test_what_cannot_be_polished():
    class Own(LeastSquares):
        pass

    A, b = normal(2, 8, 5), normal(2, 8, seed=1)
    assert can_polish(form_of(sp.group_lasso(A, b, [0, 0, 1, 1, 2], 0.1)))
    assert not can_polish(form_of(sp.lasso(A[0].to_sparse(), b, 0.1)))
    assert can_polish(form_of(random_problem("logistic")))
    assert can_polish(form_of(sp.Problem(LeastSquares(A, b), Zero())))
    assert not can_polish(form_of(sp.Problem(Own(A, b), sp.problems.L1(0.1))))
    assert can_polish(form_of(sp.lasso(A, b, 0.1)))
