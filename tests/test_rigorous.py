"""Gaps that bound their own rounding errors: F(x) - F(y), in rational arithmetic or 60 digits, is never above them."""

from fractions import Fraction

import pytest
import torch
from mpmath import mp, mpf
from torch import Tensor

import sureprox as sp
from helpers import F64, labels, normal, random_problem
from sureprox.problems import LeastSquares, Logistic, Problem
from sureprox.problems import penalties as r
from sureprox.problems.rigorous import LIBRARY, rigorous_gap

B, M, N = 5, 4, 6


def penalty(kind: str, size: Tensor) -> r.Separable:
    makers = {
        "l1": lambda: r.L1(0.3 * size),
        "weighted": lambda: r.WeightedL1(size.unsqueeze(1) * (0.1 + normal(N, seed=7).abs())),
        "elastic": lambda: r.ElasticNet(0.2 * size, 1e-3 * size),
        "l2": lambda: r.Separable(l2=0.1 * size),
        "nonnegative": lambda: r.NonNegative(0.2 * size),
        "box": lambda: r.Box(-0.1, torch.linspace(0, 0.2, N, dtype=F64)),
        "all": lambda: r.Separable(l1=0.1 * size, l2=torch.linspace(0, 1, N, dtype=F64), low=-0.2),
        "off zero": lambda: r.Separable(l1=0.1 * size, low=0.1, high=0.4),
    }
    return makers[kind]()


def squares(kind: str, dtype: torch.dtype = F64, weighted: bool = False) -> Problem:
    A, b = normal(B, M, N) * 10.0 ** (0.5 * normal(1, 1, N, seed=5)), normal(B, M, seed=1)
    w = normal(B, M, seed=3).abs() if weighted else None
    f = LeastSquares(A, b, w, None if w is None else 1000 * w)
    size = f.grad(torch.zeros(B, N, dtype=F64)).abs().amax(1)
    return Problem(f, penalty(kind, size)).to(dtype=dtype)


def points(problem: Problem, best: Tensor) -> list[Tensor]:
    """From afar to `best`, on its support and off it, and all in the domain."""
    dtype, one = problem.dtype, torch.ones(problem.batch, 1, dtype=F64)
    moved = [best + 10.0**-k * normal(*best.shape, seed=k) * (best != 0 if k % 2 else one) for k in range(0, 18, 3)]
    inside = problem.to(dtype=F64).r
    return [torch.zeros_like(best).to(dtype), best.to(dtype), *(inside.prox(at, 1e-9 * one).to(dtype) for at in moved)]


def exact(problem: Problem, i: int, x: list[float]) -> Fraction:
    """F(x) of instance i, of the numbers that the problem holds."""
    f, pieces = problem.f, problem.r
    at = [Fraction(v) for v in x]
    root = [1.0] * M if f.root is None else f.root[i].tolist()
    total = Fraction(0)
    for row, target, weight in zip(f.A[i].tolist(), f.b[i].tolist(), root, strict=True):
        z = Fraction(weight) * (sum(Fraction(a) * v for a, v in zip(row, at, strict=True)) - Fraction(target))
        total += z * z / 2
    zero = torch.zeros(B, N, dtype=problem.dtype)
    for name, power in (("l1", 1), ("l2", 2)):
        if getattr(pieces, name) is not None:
            size = getattr(pieces, name)
            sizes = (size.unsqueeze(1) if size.ndim == 1 else size).expand_as(zero)[i].tolist()
            total += sum(Fraction(s) * abs(v) ** power / power for s, v in zip(sizes, at, strict=True))
    return total


KINDS = ("l1", "weighted", "elastic", "l2", "nonnegative", "box", "all", "off zero")
CASES = [*((kind, F64, False) for kind in KINDS), *((kind, F64, True) for kind in ("l1", "all"))]
CASES += [(kind, torch.float32, False) for kind in ("l1", "elastic")]


@pytest.mark.parametrize(("kind", "dtype", "weighted"), CASES)
def test_never_below_the_truth_of_squares_and_close_to_it(kind: str, dtype: torch.dtype, weighted: bool) -> None:
    problem = squares(kind, dtype, weighted)
    whole = problem.to(dtype=F64)
    best = sp.reference(whole, tol=1e-12).x  # F there is no less than F*
    low, trials = [exact(problem, i, best[i].tolist()) for i in range(B)], 0
    for x in points(problem, best):
        bound, seen = rigorous_gap(problem, x), whole.certificate(x.double())
        inside = torch.isfinite(seen.objective)
        for i in inside.nonzero()[:, 0].tolist():
            assert exact(problem, i, x[i].tolist()) - low[i] <= Fraction(float(bound[i]))
            trials += 1
        assert (bound <= seen.gap * (1 + 1e-8) + 1e-9 * (seen.objective + 0.5 * whole.f.b.square().sum(1)))[
            inside
        ].all()
        assert torch.isinf(bound[~inside]).all()
    assert trials >= 5 * B


def test_the_plain_gap_is_below_the_truth_where_nothing_but_rounding_is_left() -> None:
    """min (x - 1)^2 / 2 + lam |x|: x* = 1 - lam, F* = lam - lam^2 / 2. So the tests of this file can fail."""
    lam = torch.arange(1, 50, dtype=F64) / 50
    problem = sp.lasso(torch.ones(49, 1, 1, dtype=F64), torch.ones(49, 1, dtype=F64), lam)
    x = (1 - lam).unsqueeze(1) * (1 + 2.0**-50)
    plain, bound = problem.certificate(x).gap.tolist(), rigorous_gap(problem, x).tolist()
    below = 0
    for at, size, loose, sure in zip(x[:, 0].tolist(), lam.tolist(), plain, bound, strict=True):
        v, t = Fraction(at), Fraction(size)
        excess = (v - 1) ** 2 / 2 + t * v - (t - t * t / 2)
        assert 0 < excess <= Fraction(sure)
        below += excess > Fraction(loose)
    assert below > 0


def digits(problem: Problem, i: int, x: list[float]) -> mpf:
    f, total = problem.f, mpf(0)
    offset = [0.0] * M if f.offset is None else f.offset[i].tolist()
    weights = [1.0] * M if f.weights is None else f.weights[i].tolist()
    for row, y, o, w in zip(f.A[i].tolist(), f.y[i].tolist(), offset, weights, strict=True):
        t = sum(mpf(a) * mpf(v) for a, v in zip(row, x, strict=True)) + mpf(o)
        total += mpf(w) * mp.log(1 + mp.exp((1 - 2 * int(y)) * t)) / M
    return total + mpf(float(problem.r.l1[i])) * sum(abs(mpf(v)) for v in x)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("size", [1.0, 300.0])
def test_never_below_the_truth_of_the_logistic_loss(weighted: bool, size: float) -> None:
    """With margins of a few units and of hundreds, where exp leaves its range."""
    w, o = (normal(B, M, seed=3).abs(), normal(B, M, seed=4)) if weighted else (None, None)
    f = Logistic(size * normal(B, M, N), labels(B, M), weights=w, offset=o)
    problem = Problem(f, r.L1(0.3 * f.grad(torch.zeros(B, N, dtype=F64)).abs().amax(1)))
    best = sp.reference(problem, tol=1e-13).x
    with mp.workdps(60):
        low = [digits(problem, i, best[i].tolist()) for i in range(B)]
        for x in points(problem, best):
            bound, seen = rigorous_gap(problem, x), problem.certificate(x)
            for i in range(B):
                assert digits(problem, i, x[i].tolist()) - low[i] <= mpf(float(bound[i]))
            assert (bound <= 9 * seen.gap + 1e-10 * seen.objective).all()
            near = seen.gap <= 1e-3 * seen.objective
            assert (bound <= 1.5 * seen.gap + 1e-10 * seen.objective)[near].all()


def test_exp_and_sigmoid_are_as_accurate_as_the_theorem_assumes() -> None:
    z = torch.cat([torch.linspace(-700, 700, 1501, dtype=F64), normal(500, seed=1)])
    with mp.workdps(40):
        for at, e, s in zip(z.tolist(), torch.exp(z).tolist(), torch.sigmoid(z).tolist(), strict=True):
            true = mp.exp(mpf(at))
            assert abs(mpf(e) - true) <= LIBRARY / 32 * true
            assert abs(mpf(s) - true / (1 + true)) <= LIBRARY / 32 * true / (1 + true)


@pytest.mark.parametrize("kind", ["lasso", "logistic"])
@pytest.mark.parametrize("dtype", [F64, torch.float32])
def test_a_rigorous_solve(kind: str, dtype: torch.dtype) -> None:
    problem = random_problem(kind, 6, 60, 120, 0.3).to(dtype=dtype)
    solution = sp.solve(problem, tol=1e-8, rigorous=True)
    assert solution.converged.all()
    assert solution.rigorous
    assert torch.equal(solution.gap, rigorous_gap(problem, solution.x))
    assert solution.support_certified.any()
    with pytest.warns(sp.ConvergenceWarning):
        beyond = sp.solve(problem, tol=1e-15, max_iter=50, rigorous=True)
    assert not beyond.converged.any()  # rounding leaves open whether it is so small


def test_shared_sparse_and_parts_of_a_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    A, b = normal(30, 50), normal(3, 30, seed=1)
    A[A.abs() < 1] = 0
    shared, sparse = sp.lasso(A, b, 2.0), sp.lasso(sp.operators.Sparse(A.to_sparse()), b, 2.0)
    x = sp.solve(shared).x
    assert torch.allclose(rigorous_gap(shared, x), rigorous_gap(sparse, x), rtol=1e-6, atol=1e-10)
    own = random_problem("lasso", 5, 20, 40).to(dtype=torch.float32)
    x = sp.solve(own).x
    whole = rigorous_gap(own, x)
    monkeypatch.setattr("sureprox.problems.rigorous.CHUNK", 1000)
    assert torch.equal(whole, rigorous_gap(own, x))


def test_what_cannot_be_bounded_is_refused_in_one_line() -> None:
    A, b = normal(2, 5, 8), normal(2, 5, seed=1)
    convolved = sp.operators.Convolution(torch.ones(3, dtype=F64), 8, "zero")
    refused = {
        "the loss is Huber": Problem(sp.losses.Huber(A, b, 1.0), r.L1(1.0)),
        "the penalty is GroupL2": sp.group_lasso(A, b, torch.arange(8) // 2, 1.0),
        "the problem is shifted": sp.lasso(A, b, 1.0).shifted(1.0),
        "some coordinates have no cost": sp.lasso(A, b, 0.0),
        "A is a Convolution": Problem(LeastSquares(convolved, normal(2, convolved.shape[0])), r.L1(1.0)),
    }
    for match, problem in refused.items():
        with pytest.raises(sp.InputError, match=f"rigorous is True, but {match}"):
            sp.solve(problem, rigorous=True)
    with pytest.raises(sp.InputError, match="rigorous is 1"):
        sp.solve(sp.lasso(A, b, 1.0), rigorous=1)


def test_numbers_that_overflow_make_the_bound_infinite() -> None:
    A, b = normal(1, 5, 8), normal(1, 5, seed=1)
    huge = sp.lasso(1e200 * A, 1e200 * b, 1.0)
    assert torch.isinf(rigorous_gap(huge, torch.ones(1, 8, dtype=F64))).all()
    tiny = sp.lasso(1e-170 * A, 1e-170 * b, 1e-300)
    assert (rigorous_gap(tiny, torch.zeros(1, 8, dtype=F64)) > 0).all()
